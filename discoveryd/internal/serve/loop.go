// When to scan.
//
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/rdma-relay/rdma-relay/discoveryd/internal/inventory"
	"github.com/rdma-relay/rdma-relay/discoveryd/internal/journal"
)

const (
	// minPause and maxPause bound the time between two scans, which is as long as the
	// scan took: half the time is left to others.
	minPause = 10 * time.Millisecond
	maxPause = time.Second
	// Events come in groups: those of a device and of its files. A scan waits until
	// it has been quiet for quiet, but not longer than gather.
	quiet  = 5 * time.Millisecond
	gather = 20 * time.Millisecond
)

// scan scans at once, and then whenever something is due, until ctx ends.
func (d *Daemon) scan(ctx context.Context) {
	trouble := ""
	stale := inventory.Everything()
	for ctx.Err() == nil {
		took, err := d.scanOnce(ctx, stale)
		if ctx.Err() != nil {
			return
		}
		trouble = d.sayTrouble(trouble, err)
		d.scanned(stale, err)
		pause(ctx, time.Now().Add(min(max(took, minPause), maxPause)))
		stale = d.awaitDue(ctx)
	}
}

// scanned notes what follows from a scan.
func (d *Daemon) scanned(stale inventory.Stale, err error) {
	now := time.Now()
	if err != nil {
		d.agenda.failed(now)
		return
	}
	if stale.All() {
		d.agenda.complete(now)
	}
	interval := time.Duration(0)
	if d.live {
		heard := d.heard()
		// RDMA notifications are sent to the host's name space only, and to listen has a
		// price for the host.
		d.present(heard && d.scanner.Devices() > 0)
		interval = d.scanner.PollInterval(heard)
	}
	d.agenda.poll(now, interval)
}

// awaitDue returns what is due to be read, or when ctx has ended. Nobody is woken up
// for nothing: where there are no ports to look at, the kernel's events and the
// resync are all.
func (d *Daemon) awaitDue(ctx context.Context) inventory.Stale {
	for {
		next := time.NewTimer(time.Until(d.agenda.next()))
		select {
		case <-ctx.Done():
			next.Stop()
			return inventory.Stale{}
		case <-d.notice.Due():
			next.Stop()
			d.gather(ctx)
			stale := d.hinted()
			if !stale.Any() {
				continue
			}
			pause(ctx, d.agenda.allowed())
			stale = stale.And(d.hinted()) // what has come meanwhile
			d.agenda.event(time.Now(), stale)
			return stale
		case <-next.C:
			stale, poll := d.agenda.due(time.Now())
			if poll {
				found := d.scanner.Poll(ctx, d.heard())
				if found.Any() {
					d.agenda.event(time.Now(), found)
				}
				stale = stale.And(found)
			}
			if stale.Any() {
				return stale
			}
		}
	}
}

// gather returns when no further hint has come for a moment.
func (d *Daemon) gather(ctx context.Context) {
	end := time.NewTimer(gather)
	defer end.Stop()
	for {
		calm := time.NewTimer(quiet)
		select {
		case <-ctx.Done():
		case <-end.C:
		case <-calm.C:
		case <-d.notice.Due():
			calm.Stop()
			continue
		}
		calm.Stop()
		return
	}
}

// hinted is what the hints are about that have come.
func (d *Daemon) hinted() (stale inventory.Stale) {
	hints := d.notice.Take()
	if hints.All {
		return inventory.Everything()
	}
	if hints.Classes {
		stale = inventory.Classes()
	}
	return stale.And(inventory.Places(hints.Places)).And(inventory.Devices(hints.Devices)).
		And(d.scanner.Links(slices.Collect(maps.Keys(hints.Links))))
}

// pause returns at the time, or when ctx has ended.
func pause(ctx context.Context, until time.Time) {
	left := time.Until(until)
	if left <= 0 {
		return
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// scanOnce reads what is stale and publishes what was found.
func (d *Daemon) scanOnce(ctx context.Context, stale inventory.Stale) (took time.Duration, err error) {
	start := time.Now()
	snapshot, err := d.scanner.Reread(ctx, stale)
	took = time.Since(start)
	if err != nil {
		d.publisher.Failed()
		return took, err
	}
	d.specs.Place(snapshot) // first: who is told a CDI name may use it at once
	before, changed, err := d.publisher.Scanned(snapshot, took)
	if err != nil {
		d.publisher.Failed()
		return took, err
	}
	if changed {
		journal.Changes(d.log, before, snapshot)
	}
	return took, nil
}

// sayTrouble logs an error when it comes, changes and goes.
func (d *Daemon) sayTrouble(before string, err error) string {
	switch {
	case err == nil && before != "":
		d.log.Info("scan works again")
	case err != nil && err.Error() != before:
		d.log.Error("scan failed; the last snapshot stands", "error", err)
	}
	if err == nil {
		return ""
	}
	return err.Error()
}

// set is a bounded set of user IDs.
type set struct {
	mu   sync.Mutex
	max  int
	uids map[uint32]struct{}
}

func newSet(most int) *set { return &set{max: most, uids: map[uint32]struct{}{}} }

// add tells whether uid is new, and there was room for it.
func (s *set) add(uid uint32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.uids[uid]; known || len(s.uids) >= s.max {
		return false
	}
	s.uids[uid] = struct{}{}
	return true
}
