// SPDX-License-Identifier: Apache-2.0

package latest

import (
	"sync"
	"testing"
	"testing/synctest"
)

func TestReaderIsToldOfEachReplacementAndFindsTheNewest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := New(1)
		got, changed := v.Get()
		if got != 1 {
			t.Fatalf("Get() = %d, want 1", got)
		}
		select {
		case <-changed:
			t.Fatal("told of a change before there was one")
		default:
		}
		v.Set(2)
		v.Set(3)
		<-changed
		if got, _ := v.Get(); got != 3 {
			t.Fatalf("Get() = %d, want the newest, 3", got)
		}
	})
}

func TestSlowReadersNeverHoldBackAWriter(*testing.T) {
	v := New(0)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for {
				got, changed := v.Get()
				if got == 1000 {
					return
				}
				<-changed
			}
		})
	}
	for i := 1; i <= 1000; i++ {
		v.Set(i)
	}
	wg.Wait()
}
