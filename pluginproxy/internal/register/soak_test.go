// Many restarts, with updates in between: nothing may pile up.
//
// SPDX-License-Identifier: Apache-2.0

package register

import (
	"context"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestR20R21_ManyRestartsWhileTheListFlips(t *testing.T) {
	bothKubelets(t, func(t *testing.T, n *node) {
		must(t, n.Start())
		k := n.keep(widget, 10, DefaultTiming)
		n.eventually(healthy(widget, 10))
		goroutines, files := runtime.NumGoroutine(), openFiles(t)

		stopFlipping := n.run(func(ctx context.Context) {
			tick := time.NewTicker(time.Millisecond)
			defer tick.Stop()
			for i := 0; ; i++ {
				select {
				case <-tick.C:
					k.offer.Set(slots(i % 12))
				case <-ctx.Done():
					return
				}
			}
		})
		for range 100 {
			must(t, n.Restart())
		}
		stopFlipping()
		k.offer.Set(slots(7))
		n.eventually(healthy(widget, 7))

		if got := n.sockets(); len(got) != 1 {
			t.Errorf("%d sockets of ours, want 1: %v", len(got), got)
		}
		// What ends may still be on its way out.
		waitFor(t, func() bool { return runtime.NumGoroutine() <= goroutines+2 && openFiles(t) <= files+2 })
	})
}

func TestNamesFitAndAreNeverUsedTwice(t *testing.T) {
	names, others := NewNames(), NewNames()
	seen := map[string]bool{}
	for _, resource := range []string{
		"rdma/hca", "rdma/a", strings.Repeat("d.", 121) + "d/" + strings.Repeat("w", 63), "example.com/W_i.d-g9",
	} {
		for range 3 {
			for _, name := range []string{names.Next(resource), others.Next(resource)} {
				if seen[name] || len(name) > MaxNameLen || !strings.HasPrefix(name, SocketPrefix) || strings.Contains(name, "/") {
					t.Errorf("bad or doubled name %q for %q", name, resource)
				}
				seen[name] = true
			}
		}
	}
}

// openFiles counts this process's file descriptors.
func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(entries)
}
