// Package notice tells that the host may have changed. A notice is a hint where to
// look and nothing more: what has changed is found out by looking, so that a lost,
// doubled or misread event costs at most a needless look or a wait until the next.
//
// SPDX-License-Identifier: Apache-2.0
package notice

import (
	"context"
	"sync"
	"sync/atomic"
)

// maxLinks is how many network devices are remembered by name. Where there is more
// to look at, the whole host is.
const maxLinks = 1024

// Notice is a mailbox of one: any number of events before a look make one look. Its
// methods are safe for concurrent use, and none of them blocks.
type Notice struct {
	due      chan struct{}
	events   atomic.Uint64
	failures atomic.Uint64

	mu    sync.Mutex
	all   bool
	links map[string]struct{}
}

// Hints are where to look.
type Hints struct {
	// All is the whole host.
	All bool
	// Links are names of network devices, in no order.
	Links []string
}

// New makes an empty mailbox.
func New() *Notice { return &Notice{due: make(chan struct{}, 1), links: map[string]struct{}{}} }

// Due has something to receive when there may be hints to take.
func (n *Notice) Due() <-chan struct{} { return n.due }

// Events tells how many events of the host were noticed so far.
func (n *Notice) Events() uint64 { return n.events.Load() }

// Failures tells how often a source has failed so far.
func (n *Notice) Failures() uint64 { return n.failures.Load() }

// Event notes an event of the host that may have changed anything.
func (n *Notice) Event() {
	n.events.Add(1)
	n.Hint()
}

// Hint makes a look at everything due without an event of the host.
func (n *Notice) Hint() {
	n.mu.Lock()
	n.all = true
	n.mu.Unlock()
	n.wake()
}

// Links notes an event of the host that concerns the network devices with these
// names.
func (n *Notice) Links(names ...string) {
	n.events.Add(1)
	n.mu.Lock()
	for _, name := range names {
		if len(n.links) >= maxLinks {
			n.all = true
			break
		}
		n.links[name] = struct{}{}
	}
	n.mu.Unlock()
	n.wake()
}

func (n *Notice) wake() {
	select {
	case n.due <- struct{}{}:
	default:
	}
}

// Take takes all hints out of the mailbox.
func (n *Notice) Take() Hints {
	n.mu.Lock()
	defer n.mu.Unlock()
	h := Hints{All: n.all}
	for name := range n.links {
		h.Links = append(h.Links, name)
	}
	n.all = false
	clear(n.links)
	return h
}

// Source is something that notices events of the host.
type Source interface {
	// Name tells people which source it is.
	Name() string
	// Run tells n of each event until ctx ends, and returns nil then, or the source
	// fails and may be run again. It calls listening once no further event escapes
	// it; what was before is to be found by a look at everything.
	Run(ctx context.Context, n *Notice, listening func()) error
}
