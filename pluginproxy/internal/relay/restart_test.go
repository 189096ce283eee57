// Kubelet goes and comes back.
//
// SPDX-License-Identifier: Apache-2.0

package relay_test

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/rdma-relay/rdma-relay/test/fakedaemon"
	"github.com/rdma-relay/rdma-relay/test/fakekubelet"
)

func TestR1_NewSessionGetsEachUpdateThoughTheOldOneReadsNoMore(t *testing.T) {
	bothKubelets(t, func(t *testing.T, b fakekubelet.Bookkeeping) {
		n := running(t, b, entry("hca", 10))
		n.publish(fakedaemon.HCA(0))
		n.eventually(listed(hca, 10, 10))
		must(t, n.BlackholeSession(1))
		second, err := n.SecondConnection(hca)
		must(t, err)
		lists := func(want ...int) func(fakekubelet.State) bool {
			return func(s fakekubelet.State) bool { return slices.Equal(sizes(s, second), want) }
		}
		n.eventually(lists(10))
		n.publish()
		n.eventually(lists(10, 0))
		n.publish(fakedaemon.HCA(0))
		n.eventually(lists(10, 0, 10))
		n.eventually(func(s fakekubelet.State) bool { return !s.Sessions[0].PluginEnded.IsZero() })
		if got := n.State().Sessions[0].PluginEnded.Sub(n.State().Sessions[1].Opened); got > time.Second {
			t.Errorf("the old session ended %v after the new one began", got)
		}
	})
}

// sizes are the lengths of a session's lists, equal neighbours as one: a list may be
// sent again when an older session has fallen silent.
func sizes(s fakekubelet.State, session int) (all []int) {
	for _, r := range s.ResponsesIn(session) {
		all = append(all, len(r.Devices))
	}
	return slices.Compact(all)
}

// The daemon is away during half of the restarts.
func TestR15_RestartsBringTheFullListBackAtOnce(t *testing.T) {
	// Sixteen resources at once, with the race detector and kubelet's side on the same
	// cores, say little of the time; BenchmarkKubeletRestart measures it.
	for _, load := range []struct {
		resources, devices, restarts int
		bound                        time.Duration
	}{{1, 1000, 100, 2 * time.Second}, {16, 100, 15, 5 * time.Second}} {
		t.Run(fmt.Sprintf("%d resources of %d devices", load.resources, load.devices), func(t *testing.T) {
			bothKubelets(t, func(t *testing.T, b fakekubelet.Bookkeeping) {
				var entries []string
				var conds []func(fakekubelet.State) bool
				for i := range load.resources {
					name := fmt.Sprint("r", i)
					entries = append(entries, entry(name, load.devices))
					conds = append(conds, listed("rdma/"+name, load.devices, load.devices))
				}
				full := fakekubelet.All(conds...)
				n := running(t, b, entries...)
				n.publish(fakedaemon.HCAs(8)...)
				n.soon(full)
				for i := range load.restarts {
					if i == load.restarts/2 {
						n.loseDaemon()
					}
					must(t, n.Restart())
					n.soon(full)
				}
				took := firstLists(t, n.State(), load.devices)
				if want := (load.restarts + 1) * load.resources; len(took) < want {
					t.Errorf("%d first lists, want %d", len(took), want)
				}
				slices.Sort(took)
				p50, p99 := took[len(took)/2], took[len(took)*99/100]
				t.Logf("kubelet.sock there to full list: p50 %v, p99 %v, longest %v", p50, p99, took[len(took)-1])
				if p99 > load.bound {
					t.Errorf("p99 is %v, want below %v", p99, load.bound)
				}
			})
		})
	}
}

// firstLists tells for each session how long after the bind of kubelet.sock its
// first list came, and that this was the full one.
func firstLists(t *testing.T, s fakekubelet.State, want int) (took []time.Duration) {
	t.Helper()
	seen := map[int]bool{}
	for _, r := range s.Responses {
		if seen[r.Session] {
			continue
		}
		seen[r.Session] = true
		if len(r.Devices) != want || r.Healthy() != want {
			t.Errorf("session %d of %s begins with %d devices, %d healthy; want %d", r.Session, r.Resource, len(r.Devices), r.Healthy(), want)
		}
		took = append(took, r.At.Sub(s.Binds[r.Boot-1].At))
	}
	return took
}

// The daemon may be away for as long as it likes, and kubelet restart meanwhile.
func TestR15_DaemonAwayWhileKubeletRestarts(t *testing.T) {
	bothKubelets(t, func(t *testing.T, b fakekubelet.Bookkeeping) {
		n := running(t, b, entry("hca", 10))
		n.publish(fakedaemon.HCA(0))
		n.eventually(listed(hca, 10, 10))
		n.loseDaemon()
		must(t, n.Kill())
		n.until("the loss of kubelet", func() bool { return !n.report(hca).Session })
		must(t, n.Start())
		n.eventually(listed(hca, 10, 10))
		for _, r := range n.State().Responses {
			if len(r.Devices) != 10 {
				t.Errorf("a list of %d devices in session %d", len(r.Devices), r.Session)
			}
		}
		n.publish() // it comes back and says that all has gone
		n.eventually(listed(hca, 0, 0))
	})
}

// Kubelet restarts 200 times while the snapshot changes each millisecond.
func TestR21_NothingPilesUpUnderRestartsAndUpdates(t *testing.T) {
	bothKubelets(t, func(t *testing.T, b fakekubelet.Bookkeeping) {
		n := running(t, b, entry("hca", 10), entry("each", 5, `"sharing":"perDevice"`))
		n.publish(fakedaemon.HCAs(4)...)
		full := fakekubelet.All(listed(hca, 10, 10), listed("rdma/each", 20, 20))
		n.eventually(full)
		goroutines, files := runtime.NumGoroutine(), openFiles(t)

		stopped, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			tick := time.NewTicker(time.Millisecond)
			defer tick.Stop()
			for i := 0; ; i++ {
				select {
				case <-tick.C:
					n.publish(fakedaemon.HCAs(i % 5)...)
				case <-stopped:
					return
				}
			}
		}()
		for i := range 200 {
			must(t, n.Restart())
			if i%4 == 0 { // else most kubelets would be gone before they are found
				n.soon(func(s fakekubelet.State) bool { return len(s.LiveSessions(hca)) == 1 })
			}
		}
		close(stopped)
		<-done
		n.publish(fakedaemon.HCAs(3)...)
		n.eventually(fakekubelet.All(listed(hca, 10, 10), listed("rdma/each", 15, 15)))

		s := n.State()
		for _, resource := range []string{hca, "rdma/each"} {
			all := s.ResponsesOf(resource)
			if got, want := len(all[len(all)-1].Devices), n.report(resource).Devices; got != want {
				t.Errorf("%s: the last list has %d devices, the last snapshot gives %d", resource, got, want)
			}
		}
		if got := n.sockets(); len(got) != 2 {
			t.Errorf("%d sockets of two resources: %v", len(got), got)
		}
		n.until("goroutines and files as before", func() bool {
			return runtime.NumGoroutine() <= goroutines+2 && openFiles(t) <= files+2
		})
	})
}

// openFiles counts this process's file descriptors.
func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(entries)
}
