// One watcher's stream.
//
// SPDX-License-Identifier: Apache-2.0

package publish

import (
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

// watcher is one open stream.
type watcher struct {
	news chan struct{} // the mailbox: one token when there is something to take

	// Guarded by the publisher's mutex.
	generation uint64    // of the snapshot last taken, 0 for none
	sent       time.Time // when the last message was taken
}

func (w *watcher) wake() {
	select {
	case w.news <- struct{}{}:
	default: // the watcher will find the newest anyway
	}
}

// WatchSnapshots implements the DiscoveryService.
func (p *Publisher) WatchSnapshots(_ *discoveryv1.WatchSnapshotsRequest, stream grpc.ServerStreamingServer[discoveryv1.WatchSnapshotsResponse]) error {
	w := p.join()
	defer p.leave(w)
	heartbeat := time.NewTimer(p.opts.ResyncInterval)
	defer heartbeat.Stop()
	for {
		select {
		case <-p.closed:
			return status.Error(codes.Unavailable, "the daemon is ending")
		case <-stream.Context().Done():
			return status.FromContextError(stream.Context().Err()).Err()
		case <-w.news:
		case <-heartbeat.C:
		}
		if message := p.take(w); message != nil {
			if err := stream.Send(message); err != nil {
				return err
			}
		}
		heartbeat.Reset(p.opts.ResyncInterval)
	}
}

func (p *Publisher) join() *watcher {
	w := &watcher{news: make(chan struct{}, 1)}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watchers[w] = struct{}{}
	if p.current != nil {
		w.wake()
	}
	return w
}

func (p *Publisher) leave(w *watcher) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.watchers, w)
}

// take makes the watcher's next message, with the snapshot if it hasn't got the
// newest one. There is none before the first snapshot.
func (p *Publisher) take(w *watcher) *discoveryv1.WatchSnapshotsResponse {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.current == nil {
		return nil
	}
	select {
	case <-w.news: // what it tells of is in this message
	default:
	}
	message := &discoveryv1.WatchSnapshotsResponse{Status: p.status()}
	if w.generation != p.current.GetGeneration() {
		message.Snapshot = p.current
	}
	w.generation, w.sent = p.current.GetGeneration(), time.Now()
	return message
}

// status is the daemon's state now. The mutex is held.
func (p *Publisher) status() *discoveryv1.Status {
	return &discoveryv1.Status{
		ScanCompletedAt: timestamppb.New(p.completed),
		ScanAge:         durationpb.New(time.Since(p.completed)),
		ScanDuration:    durationpb.New(p.took),
		ResyncInterval:  durationpb.New(p.opts.ResyncInterval),
		DaemonVersion:   p.opts.Version,
		Counters: &discoveryv1.Counters{
			Scans:              p.scans,
			ScansFailed:        p.failed,
			SnapshotsPublished: p.published,
			Events:             p.opts.Events(),
			PeersRefused:       p.refused,
			Watchers:           uint64(len(p.watchers)),
		},
	}
}
