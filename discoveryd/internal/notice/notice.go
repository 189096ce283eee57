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

// maxNamed is how many things of each kind are remembered by name. Where there are
// more to look at, everything is.
const maxNamed = 4096

// Notice is a mailbox of one: any number of events before a look make one look. Its
// methods are safe for concurrent use, and none of them blocks.
type Notice struct {
	due      chan struct{}
	events   atomic.Uint64
	failures atomic.Uint64

	mu    sync.Mutex
	hints Hints
}

// Hints are where to look. The zero value is nowhere.
type Hints struct {
	// All is everything.
	All bool
	// Classes are the lists of what there is, without what is known of each. They are
	// to be looked at for Places and Devices too.
	Classes bool
	// Places are devices on which others hang, as paths in sysfs
	// (devices/pci0000:3a/0000:3b:00.0).
	Places map[string]struct{}
	// Devices are names of RDMA devices.
	Devices map[string]struct{}
	// Links are names of network devices.
	Links map[string]struct{}
}

// New makes an empty mailbox.
func New() *Notice { return &Notice{due: make(chan struct{}, 1)} }

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
	n.add(func(h *Hints) { h.All = true })
}

// Classes notes an event after which there may be a class more or less.
func (n *Notice) Classes() {
	n.events.Add(1)
	n.add(func(h *Hints) { h.Classes = true })
}

// Places notes an event of what hangs on the devices at these paths.
func (n *Notice) Places(paths ...string) {
	n.events.Add(1)
	n.add(func(h *Hints) { h.Classes = true; h.name(&h.Places, paths) })
}

// Devices notes an event of the RDMA devices with these names.
func (n *Notice) Devices(names ...string) {
	n.events.Add(1)
	n.add(func(h *Hints) { h.Classes = true; h.name(&h.Devices, names) })
}

// Links notes an event of the network devices with these names.
func (n *Notice) Links(names ...string) {
	n.events.Add(1)
	n.add(func(h *Hints) { h.name(&h.Links, names) })
}

func (h *Hints) name(set *map[string]struct{}, names []string) {
	if *set == nil {
		*set = map[string]struct{}{}
	}
	for _, name := range names {
		if len(*set) >= maxNamed {
			h.All = true
			return
		}
		(*set)[name] = struct{}{}
	}
}

// add changes the hints and makes a look due.
func (n *Notice) add(change func(h *Hints)) {
	n.mu.Lock()
	change(&n.hints)
	n.mu.Unlock()
	select {
	case n.due <- struct{}{}:
	default:
	}
}

// Take takes all hints out of the mailbox.
func (n *Notice) Take() Hints {
	n.mu.Lock()
	defer n.mu.Unlock()
	h := n.hints
	n.hints = Hints{}
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
