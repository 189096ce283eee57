// What is to be done when. It knows the time only as it is told.
//
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"time"

	"github.com/rdma-relay/rdma-relay/discoveryd/internal/inventory"
)

const (
	// retryInterval is how soon a scan that failed is tried again.
	retryInterval = time.Second
	// Events are answered at once, burst of them, and one each eventInterval when
	// there are more: a link that flaps, or a thousand virtual functions.
	eventInterval = 400 * time.Millisecond
	burst         = 8
)

// settling are the times after an event at which what it was about is read once
// more. The kernel tells of a removal before the removal is to be seen, of a device
// before all of it is (the GID table, a /dev that udev fills), and of a carrier that
// changes a second time within a second at the second's end (net/core/link_watch.c).
var settling = [...]time.Duration{50 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond, time.Second}

// agenda is for one goroutine. A zero time is no appointment.
type agenda struct {
	resync time.Duration
	burst  int

	resyncAt time.Time
	retryAt  time.Time

	interval time.Duration // of polls; 0 stands for none
	pollAt   time.Time
	polledAt time.Time

	settleAt time.Time
	settled  int // how many of the settling are over, since the event at eventAt
	eventAt  time.Time
	about    inventory.Stale // the events that are not settled

	// full is when all of the burst will be there again (the generic cell rate
	// algorithm).
	full time.Time
}

func newAgenda(resync time.Duration) *agenda { return &agenda{resync: resync, burst: burst} }

// complete notes a scan of everything that has found everything.
func (a *agenda) complete(now time.Time) {
	a.resyncAt, a.retryAt = now.Add(a.resync), time.Time{}
	a.polled(now)
}

// failed notes a scan that has failed.
func (a *agenda) failed(now time.Time) {
	a.resyncAt, a.retryAt = time.Time{}, now.Add(retryInterval)
}

// poll notes that there is to be a poll each interval; 0 stands for none.
func (a *agenda) poll(now time.Time, interval time.Duration) {
	switch a.interval = interval; {
	case interval == 0:
		a.pollAt = time.Time{}
	case a.polledAt.IsZero():
		a.polled(now)
	default:
		a.pollAt = a.polledAt.Add(interval)
	}
}

// polled notes that there is nothing to poll for an interval.
func (a *agenda) polled(now time.Time) {
	a.polledAt = now
	if a.interval > 0 {
		a.pollAt = now.Add(a.interval)
	}
}

// allowed is when the next event may be answered.
func (a *agenda) allowed() time.Time {
	return a.full.Add(-time.Duration(a.burst-1) * eventInterval)
}

// spend notes that an event is answered.
func (a *agenda) spend(now time.Time) {
	if a.full.Before(now) {
		a.full = now
	}
	a.full = a.full.Add(eventInterval)
}

// event notes that an event is answered which was about something.
func (a *agenda) event(now time.Time, about inventory.Stale) {
	a.spend(now)
	a.about = a.about.And(about)
	a.eventAt, a.settled = now, 0
	a.settleAt = now.Add(settling[0])
}

// next is the time of the next appointment; far away if there is none.
func (a *agenda) next() time.Time {
	var next time.Time
	for _, at := range []time.Time{a.resyncAt, a.retryAt, a.pollAt, a.settleAt} {
		if next.IsZero() || !at.IsZero() && at.Before(next) {
			next = at
		}
	}
	return next
}

// due returns what is to be read now, and whether it is time to poll.
func (a *agenda) due(now time.Time) (stale inventory.Stale, poll bool) {
	is := func(at time.Time) bool { return !at.IsZero() && !at.After(now) }
	if is(a.resyncAt) || is(a.retryAt) {
		stale = inventory.Everything()
	}
	if is(a.settleAt) {
		// To read again must not use up what the next event needs to be answered at once;
		// only in a storm it waits like an event.
		if allowed := a.allowed(); allowed.After(now) {
			a.settleAt = allowed
		} else {
			stale = stale.And(a.about)
			a.settle(now)
		}
	}
	if poll = is(a.pollAt); poll {
		a.polled(now)
	}
	return stale, poll
}

// settle makes the next appointment after one. Those that were missed meanwhile are
// one.
func (a *agenda) settle(now time.Time) {
	for a.settled < len(settling) && !a.eventAt.Add(settling[a.settled]).After(now) {
		a.settled++
	}
	if a.settled == len(settling) {
		a.settleAt, a.about = time.Time{}, inventory.Stale{}
		return
	}
	a.settleAt = a.eventAt.Add(settling[a.settled])
}
