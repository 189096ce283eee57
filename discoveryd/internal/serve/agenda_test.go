// When what is due. No time passes here.
//
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"testing"
	"time"

	"github.com/rdma-relay/rdma-relay/discoveryd/internal/inventory"
)

// clock goes from appointment to appointment.
type clock struct {
	*agenda
	start, now time.Time
}

func newClock(resync time.Duration) *clock {
	start := time.Now()
	c := &clock{agenda: newAgenda(resync), start: start, now: start}
	c.complete(start)
	return c
}

// next goes to the next appointment that comes to anything, and tells when and what.
func (c *clock) next(t *testing.T) (at time.Duration, stale inventory.Stale, poll bool) {
	t.Helper()
	for range 100 {
		if c.now = c.agenda.next(); c.now.IsZero() {
			t.Fatal("there are no appointments")
		}
		if stale, poll = c.due(c.now); stale.Any() || poll {
			return c.now.Sub(c.start), stale, poll
		}
	}
	t.Fatal("the agenda is busy with nothing")
	return 0, stale, false
}

func expectNext(t *testing.T, c *clock, what string, wantAt time.Duration, wantStale, wantPoll bool) {
	t.Helper()
	if at, stale, poll := c.next(t); at != wantAt || stale.Any() != wantStale || poll != wantPoll {
		t.Errorf("%s: at %v, stale %v, poll %v", what, at, stale.Any(), poll)
	}
}

func TestIdleHostIsLeftAloneUntilTheResync(t *testing.T) {
	c := newClock(time.Minute)
	c.poll(c.now, 0)
	expectNext(t, c, "resync", time.Minute, true, false)
	c.complete(c.now)
	expectNext(t, c, "second resync", 2*time.Minute, true, false)
}

func TestPollsDoNotDependOnWhatElseIsRead(t *testing.T) {
	c := newClock(time.Minute)
	c.poll(c.now, time.Second)
	expectNext(t, c, "first", time.Second, false, true)
	c.now = c.now.Add(900 * time.Millisecond)
	c.poll(c.now, time.Second) // a part was read
	expectNext(t, c, "second", 2*time.Second, false, true)
	c.complete(c.now.Add(500 * time.Millisecond)) // all was read
	expectNext(t, c, "third", 3500*time.Millisecond, false, true)
	c.poll(c.now, 2*time.Second)
	expectNext(t, c, "other interval", 5500*time.Millisecond, false, true)
	c.poll(c.now, 0)
	expectNext(t, c, "none", 62500*time.Millisecond, true, false)
}

func TestScanThatFailsIsTriedAgainInASecond(t *testing.T) {
	c := newClock(time.Minute)
	c.failed(c.now)
	expectNext(t, c, "retry", time.Second, true, false)
	c.failed(c.now)
	expectNext(t, c, "second retry", 2*time.Second, true, false)
	c.complete(c.now)
	expectNext(t, c, "resync", 62*time.Second, true, false)
}

func TestWhatAnEventWasAboutIsReadAFewTimesMore(t *testing.T) {
	c := newClock(time.Hour)
	c.event(c.now, inventory.Everything())
	for _, at := range settling {
		expectNext(t, c, "settling", at, true, false)
	}
	expectNext(t, c, "resync", time.Hour, true, false)
}

func TestEventsAreAnsweredAtOnceAndThenAtABoundedRate(t *testing.T) {
	c := newClock(time.Hour)
	end := c.start.Add(10 * time.Second)
	answered, last := 0, c.start
	for at := c.start; at.Before(end); at = at.Add(100 * time.Millisecond) { // a link that flaps
		c.now = at
		if allowed := c.allowed(); allowed.After(at) {
			continue // the event is answered together with a later one
		}
		answered++
		last = at
		c.event(at, inventory.Everything())
	}
	if most := burst + int(10*time.Second/eventInterval); answered < most-2 || answered > most {
		t.Errorf("%d of 100 events were answered", answered)
	}
	if behind := end.Sub(last); behind > eventInterval+100*time.Millisecond {
		t.Errorf("the last answer came %v before the end", behind)
	}
	// Settling takes its turn too, and ends with a read that comes late enough.
	reads, lastRead := 0, time.Duration(0)
	for at, _, _ := c.next(t); at < time.Hour; at, _, _ = c.next(t) {
		reads, lastRead = reads+1, at-last.Sub(c.start)
	}
	if end := settling[len(settling)-1]; reads > len(settling) || lastRead < end || lastRead > end+eventInterval {
		t.Errorf("%d reads after the storm, the last one after %v", reads, lastRead)
	}
	// After a while all of the burst is there again.
	c.now = c.now.Add(time.Minute)
	for range burst {
		if c.allowed().After(c.now) {
			t.Error("not answered at once")
		}
		c.event(c.now, inventory.Everything())
	}
	if !c.allowed().After(c.now) {
		t.Error("more than a burst at once")
	}
}

// A change a second is no storm, however often each is looked at again.
func TestReadingAgainDoesNotHoldUpTheNextEvent(t *testing.T) {
	c := newClock(time.Hour)
	for range 5 * burst {
		if wait := c.allowed().Sub(c.now); wait > 0 {
			t.Fatalf("an event would wait for %v", wait)
		}
		c.event(c.now, inventory.Everything())
		begin := c.now
		for range settling {
			c.next(t)
		}
		c.now = begin.Add(settling[len(settling)-1] + 100*time.Millisecond)
	}
}
