// Package publish hands the newest snapshot to every watcher of the stream.
//
// A watcher is a mailbox of one: it is told that there is something newer, and
// takes the newest when it is ready to. A publisher never waits for a watcher, and
// what a slow watcher has missed is not kept.
//
// SPDX-License-Identifier: Apache-2.0
package publish

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

// Options describe the daemon to its watchers.
type Options struct {
	// Version is the daemon's version stamp.
	Version string
	// ResyncInterval is the longest time between two scans of a healthy daemon, and
	// between two messages to a watcher.
	ResyncInterval time.Duration
	// Events tells how many events of the host have made a scan due; nil is none.
	Events func() uint64
}

// Publisher implements the DiscoveryService. Its methods are safe for concurrent
// use.
type Publisher struct {
	discoveryv1.UnimplementedDiscoveryServiceServer

	opts     Options
	instance string
	closed   chan struct{}

	mu        sync.Mutex
	current   *discoveryv1.Snapshot // nil before the first scan; never changed once here
	content   []byte                // of current, without instance and generation
	completed time.Time             // when the last scan was
	took      time.Duration
	scans     uint64
	failed    uint64
	published uint64
	refused   uint64
	watchers  map[*watcher]struct{}
}

// New makes a Publisher without a snapshot; watchers wait for the first one.
func New(opts Options) *Publisher {
	if opts.Events == nil {
		opts.Events = func() uint64 { return 0 }
	}
	return &Publisher{
		opts:     opts,
		instance: rand.Text(),
		closed:   make(chan struct{}),
		watchers: map[*watcher]struct{}{},
	}
}

// Scanned takes the snapshot of a scan that completed just now. If it differs from
// the current one it becomes the current one and all watchers get it; before is
// then the one that it replaces, nil if it is the first. The snapshot belongs to
// the publisher from now on.
func (p *Publisher) Scanned(s *discoveryv1.Snapshot, took time.Duration) (before *discoveryv1.Snapshot, changed bool, err error) {
	s.InstanceId, s.Generation = "", 0
	content, err := proto.MarshalOptions{Deterministic: true}.Marshal(s)
	if err != nil {
		return nil, false, fmt.Errorf("encode snapshot: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.completed, p.took = time.Now(), took
	p.scans++
	before = p.current
	if changed = before == nil || !bytes.Equal(content, p.content); changed {
		p.published++
		s.InstanceId, s.Generation = p.instance, p.published
		p.current, p.content = s, content
	}
	for w := range p.watchers {
		// A status alone is not worth waking up for when the last one is fresh.
		if changed || time.Since(w.sent) >= p.opts.ResyncInterval/2 {
			w.wake()
		}
	}
	return before, changed, nil
}

// Failed counts a scan that gave no snapshot.
func (p *Publisher) Failed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failed++
}

// Refused counts a peer that was turned away.
func (p *Publisher) Refused() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refused++
}

// Close ends all streams, those to come too. It is to be called once.
func (p *Publisher) Close() { close(p.closed) }
