// Reads that may never return: a driver whose firmware hangs keeps a read of its
// port's state for a minute or for ever, and nothing can call it back.
//
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"context"
	"sync"
	"time"
)

// maxStuck bounds how many reads hang at the same time; each costs a thread. What
// is beyond is not tried until one of them has returned.
const maxStuck = 128

// reads runs reads that may hang, at most one per key, and remembers what each
// key's last one said. It is safe for concurrent use.
type reads[T any] struct {
	// patience is how long others wait for a key whose last answer is known, and
	// deadline for one that has never answered. After deadline a read counts as
	// not answering.
	patience, deadline time.Duration
	// due is told when it is worth asking again: a read that was given up on has
	// returned, or has been out so long that it counts as not answering.
	due func()

	timers sync.Pool // of *time.Timer that are stopped

	mu    sync.Mutex
	keys  map[string]*read[T]
	stuck int
}

// read is what is known of one key.
type read[T any] struct {
	running bool
	stuck   bool // running, and nobody waits for it any more
	since   time.Time
	known   bool
	last    T
	overdue *time.Timer // says due when the read has been out for the deadline
}

// answer is what do found out.
type answer[T any] struct {
	value T
	// known is false when the key has never answered; value is zero then.
	known bool
	// fresh tells that value was read for this call.
	fresh bool
	// overdue tells that value is an old one, since the read hangs.
	overdue bool
}

// do runs fn for key and waits for it, but no longer than patience, or until
// unknownUntil when the key has never answered. fn gets the last answer, if there
// is one. While an earlier fn of the same key still runs, no other is started; nor
// is one when ctx has ended, which ends the wait too.
//
// fn runs in a goroutine of its own, which nobody can end while it hangs; v stays
// open for it.
func (r *reads[T]) do(ctx context.Context, v *view, key string, unknownUntil time.Time, fn func(last T) T) answer[T] {
	r.mu.Lock()
	if r.keys == nil {
		r.keys = map[string]*read[T]{}
	}
	k := r.keys[key]
	if k == nil {
		k = &read[T]{}
		r.keys[key] = k
	}
	if k.running || r.stuck >= maxStuck || ctx.Err() != nil {
		defer r.mu.Unlock()
		return r.old(k)
	}
	k.running, k.since = true, time.Now()
	last, known := k.last, k.known
	r.mu.Unlock()

	v.hold()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer v.release()
		r.finish(k, fn(last))
	}()

	patience := r.patience
	if !known {
		patience = max(patience, time.Until(unknownUntil))
	}
	timer := r.timer(patience)
	defer r.timers.Put(timer)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	case <-ctx.Done():
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if k.running && !k.stuck {
		k.stuck = true
		r.stuck++
		if left := time.Until(k.since.Add(r.deadline)); left > 0 {
			k.overdue = time.AfterFunc(left, r.due)
		}
	}
	if k.running {
		return r.old(k)
	}
	return answer[T]{value: k.last, known: true, fresh: true}
}

// timer gives a timer that is to be stopped and put back.
func (r *reads[T]) timer(d time.Duration) *time.Timer {
	if t, ok := r.timers.Get().(*time.Timer); ok {
		t.Reset(d)
		return t
	}
	return time.NewTimer(d)
}

// old answers from what is known.
func (r *reads[T]) old(k *read[T]) answer[T] {
	return answer[T]{value: k.last, known: k.known, overdue: !k.known || !k.running || time.Since(k.since) >= r.deadline}
}

func (r *reads[T]) finish(k *read[T], value T) {
	r.mu.Lock()
	wasStuck := k.stuck
	if k.stuck {
		r.stuck--
	}
	if k.overdue != nil {
		k.overdue.Stop()
		k.overdue = nil
	}
	k.running, k.stuck, k.known, k.last = false, false, true, value
	r.mu.Unlock()
	if wasStuck {
		r.due()
	}
}

// keep forgets the keys that are not wanted any more, except those that still run.
func (r *reads[T]) keep(wanted func(key string) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, k := range r.keys {
		if !k.running && !wanted(key) {
			delete(r.keys, key)
		}
	}
}
