// When to scan.
//
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"sync"
	"time"

	"github.com/rdma-relay/rdma-relay/discoveryd/internal/journal"
)

const (
	// pollInterval is how often the ports of a live host are looked at, and how soon
	// a scan that failed is tried again.
	pollInterval = time.Second
	// minPause and maxPause bound the time between two scans: a storm of events
	// makes one scan after another, but leaves half the time to others.
	minPause = 10 * time.Millisecond
	maxPause = time.Second
)

// scan scans at once, and then whenever it is due, until ctx ends.
func (d *Daemon) scan(ctx context.Context) {
	trouble := ""
	for ctx.Err() == nil {
		took, err := d.scanOnce(ctx)
		if ctx.Err() != nil {
			return
		}
		trouble = d.sayTrouble(trouble, err)
		select {
		case <-ctx.Done():
		case <-time.After(min(max(took, minPause), maxPause)):
		}
		d.awaitDue(ctx, err != nil)
	}
}

// awaitDue returns when a scan is due, or ctx has ended. Nobody is woken up for
// nothing: where there are no ports to look at, the kernel's events and the resync
// are all.
func (d *Daemon) awaitDue(ctx context.Context, failed bool) {
	resync := time.NewTimer(d.opts.ResyncInterval)
	defer resync.Stop()
	poll := time.NewTicker(pollInterval)
	defer poll.Stop()
	if !failed && (!d.live || !d.scanner.Polls()) {
		poll.Stop()
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.notice.Due():
			return
		case <-resync.C:
			return
		case <-poll.C:
			if failed || d.scanner.Poll(ctx) {
				return
			}
		}
	}
}

// scanOnce scans and publishes what was found.
func (d *Daemon) scanOnce(ctx context.Context) (took time.Duration, err error) {
	start := time.Now()
	snapshot, err := d.scanner.Scan(ctx)
	took = time.Since(start)
	if err != nil {
		d.publisher.Failed()
		return took, err
	}
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
