// Reads that hang. The clock is synctest's: nothing here really waits.
//
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// openedView never closes anything.
func openedView() *view {
	v := &view{}
	v.refs.Store(1 << 20)
	return v
}

func newReads(due func()) *reads[string] {
	return &reads[string]{patience: DefaultPatience, deadline: DefaultDeadline, due: due}
}

func says(value string) func(string) string { return func(string) string { return value } }

func TestHungReadKeepsTheLastAnswerAndLetsOthersGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var due atomic.Int32
		r := newReads(func() { due.Add(1) })
		v := openedView()
		first := r.do(t.Context(), v, "a", time.Time{}, says("one"))
		expect(t, "first", first, answer[string]{value: "one", known: true, fresh: true})

		hang := make(chan struct{})
		var calls atomic.Int32
		hangs := func(last string) string {
			calls.Add(1)
			<-hang
			return "after " + last
		}
		start := time.Now()
		expect(t, "hangs", r.do(t.Context(), v, "a", time.Time{}, hangs), answer[string]{value: "one", known: true})
		expect(t, "others waited", time.Since(start), DefaultPatience)

		start = time.Now()
		expect(t, "asked again", r.do(t.Context(), v, "a", time.Time{}, hangs), answer[string]{value: "one", known: true})
		expect(t, "another key", r.do(t.Context(), v, "b", time.Time{}, says("b")).value, "b")
		expect(t, "others waited", time.Since(start), time.Duration(0))
		expect(t, "readers", calls.Load(), int32(1))

		<-time.After(DefaultDeadline) // by the bubble's clock
		synctest.Wait()
		expect(t, "due when it is overdue", due.Load(), int32(1))
		expect(t, "overdue", r.do(t.Context(), v, "a", time.Time{}, hangs), answer[string]{value: "one", known: true, overdue: true})

		close(hang)
		synctest.Wait()
		expect(t, "due when it has returned", due.Load(), int32(2))
		expect(t, "well again", r.do(t.Context(), v, "a", time.Time{}, says("two")), answer[string]{value: "two", known: true, fresh: true})
	})
}

func TestFirstReadIsWaitedForUntilTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReads(func() {})
		hang := make(chan struct{})
		start := time.Now()
		got := r.do(t.Context(), openedView(), "a", start.Add(DefaultDeadline), func(string) string { <-hang; return "late" })
		expect(t, "answer", got, answer[string]{overdue: true})
		expect(t, "waited", time.Since(start), DefaultDeadline)
		close(hang)
	})
}

func TestEndOfContextEndsTheWaitAndStartsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReads(func() {})
		v := openedView()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		hang := make(chan struct{})
		start := time.Now()
		r.do(ctx, v, "a", start.Add(time.Hour), func(string) string { <-hang; return "" })
		expect(t, "waited", time.Since(start), time.Second)
		r.do(ctx, v, "b", start.Add(time.Hour), func(string) string { t.Error("was started"); return "" })
		close(hang)
	})
}

func TestHungReadsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReads(func() {})
		v := openedView()
		hang := make(chan struct{})
		var running atomic.Int32
		read := func(string) string { running.Add(1); <-hang; return "" }
		parallel(3*maxStuck, func(i int) { r.do(t.Context(), v, fmt.Sprint(i), time.Time{}, read) })
		if n := running.Load(); n < maxStuck || n > maxStuck+64 {
			t.Errorf("%d reads hang", n)
		}
		expect(t, "one more", r.do(t.Context(), v, "more", time.Time{}, read), answer[string]{overdue: true})
		close(hang)
		synctest.Wait()
		expect(t, "then", r.do(t.Context(), v, "more", time.Time{}, says("x")).value, "x")
		r.keep(func(key string) bool { return key == "more" })
		expect(t, "remembered", len(r.keys), 1)
	})
}
