// Package notice tells that a scan is due. A notice carries nothing but that: the
// scan finds out what has changed, so a lost, doubled or misread event costs at
// most a needless scan or a wait until the next one.
//
// SPDX-License-Identifier: Apache-2.0
package notice

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
)

// Notice is a mailbox of one: any number of hints before a scan make one scan. Its
// methods are safe for concurrent use.
type Notice struct {
	due    chan struct{}
	events atomic.Uint64
}

// New makes an empty mailbox.
func New() *Notice { return &Notice{due: make(chan struct{}, 1)} }

// Due has something to receive when a scan is due.
func (n *Notice) Due() <-chan struct{} { return n.due }

// Events tells how many events of the host were noticed so far.
func (n *Notice) Events() uint64 { return n.events.Load() }

// Event notes an event of the host. It never blocks.
func (n *Notice) Event() {
	n.events.Add(1)
	n.Hint()
}

// Hint makes a scan due without an event of the host. It never blocks.
func (n *Notice) Hint() {
	select {
	case n.due <- struct{}{}:
	default:
	}
}

// Source is something that notices events of the host.
type Source interface {
	// Name tells people which source it is.
	Name() string
	// Run tells n of each event until ctx ends, and returns nil then, or the source
	// fails.
	Run(ctx context.Context, n *Notice) error
}

// Run runs all sources until ctx ends. One that fails is logged and left out: the
// regular scans go on without it.
func (n *Notice) Run(ctx context.Context, log *slog.Logger, sources ...Source) {
	var wg sync.WaitGroup
	for _, source := range sources {
		wg.Go(func() {
			if err := source.Run(ctx, n); err != nil {
				log.Warn("event source failed; changes are found by regular scans only", "source", source.Name(), "error", err)
			}
		})
	}
	wg.Wait()
}
