// SPDX-License-Identifier: Apache-2.0

package fakedaemon

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

// Message is what WatchSnapshots sends.
type Message = discoveryv1.WatchSnapshotsResponse

// Say answers each call with these messages and then keeps the stream open.
func Say(messages ...*Message) Script {
	return func(_ int, stream Stream) error {
		for _, m := range messages {
			if err := stream.Send(m); err != nil {
				return err
			}
		}
		<-stream.Context().Done()
		return nil
	}
}

// Feed answers each call with first, where it isn't nil, and then with whatever
// comes through the channel.
func Feed(first *Message, more <-chan *Message) Script {
	return func(_ int, stream Stream) error {
		for m := first; ; {
			if m != nil {
				if err := stream.Send(m); err != nil {
					return err
				}
			}
			select {
			case m = <-more:
			case <-stream.Context().Done():
				return nil
			}
		}
	}
}

// Fresh is the status of a daemon that has completed a scan just now.
func Fresh() *discoveryv1.Status { return Scanned(0) }

// Scanned is the status of a daemon whose last scan was completed age ago.
func Scanned(age time.Duration) *discoveryv1.Status {
	return &discoveryv1.Status{
		ScanCompletedAt: timestamppb.New(time.Now().Add(-age)),
		ScanAge:         durationpb.New(age),
		ScanDuration:    durationpb.New(3 * time.Millisecond),
		ResyncInterval:  durationpb.New(time.Minute),
		DaemonVersion:   "v0-fake",
		Counters:        &discoveryv1.Counters{Scans: 1},
	}
}

// Whole is a message with a snapshot and a fresh status.
func Whole(s *discoveryv1.Snapshot) *Message { return &Message{Snapshot: s, Status: Fresh()} }
