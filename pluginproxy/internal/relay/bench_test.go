// What the budgets of the project are measured by: how soon kubelet has the list.
//
// SPDX-License-Identifier: Apache-2.0

package relay_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/relay"
	"github.com/rdma-relay/rdma-relay/test/fakedaemon"
	"github.com/rdma-relay/rdma-relay/test/fakekubelet"
)

// percentiles reports the times as metrics. ns/op is the whole cycle with the fake
// kubelet's own work and says little.
func percentiles(b *testing.B, took []time.Duration) {
	b.Helper()
	slices.Sort(took)
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	b.ReportMetric(ms(took[len(took)/2]), "p50-ms")
	b.ReportMetric(ms(took[min(len(took)-1, len(took)*99/100)]), "p99-ms")
}

// BenchmarkKubeletRestart: from the moment that the new kubelet.sock is there until
// the full list of the last resource has been received and its checkpoint written.
func BenchmarkKubeletRestart(b *testing.B) {
	for _, resources := range []int{1, 64} {
		b.Run(fmt.Sprintf("resources=%d,slots=1000", resources), func(b *testing.B) {
			const slots = 1000
			entries := make([]string, resources)
			for i := range entries {
				entries[i] = entry(fmt.Sprint("r", i), slots)
			}
			var n *node
			var took []time.Duration
			full := func() {
				n.until("a session for each resource", func() bool { return n.relay.Report().Ready })
				n.until("the full lists", func() bool {
					s := n.State()
					at := lastFirstList(s, resources, slots)
					if at.IsZero() {
						return false
					}
					took = append(took, at.Sub(s.Binds[len(s.Binds)-1].At))
					return true
				})
			}
			for i := 0; b.Loop(); i++ {
				if i%50 == 0 { // the record of all that happened makes the fake kubelet slow
					b.StopTimer()
					n = running(b, fakekubelet.ByPath, entries...)
					n.publish(fakedaemon.HCAs(8)...)
					full()
					took = took[:len(took)-1] // the first registration is no restart
					b.StartTimer()
				}
				must(b, n.Restart())
				full()
			}
			percentiles(b, took)
		})
	}
}

// lastFirstList is when the last of the resources had its full list in the kubelet
// of now; zero when not all have.
func lastFirstList(s fakekubelet.State, resources, slots int) (at time.Time) {
	seen := map[string]bool{}
	for _, r := range slices.Backward(s.Responses) {
		if r.Boot != s.Boot {
			break
		}
		if len(r.Devices) == slots && !seen[r.Resource] {
			seen[r.Resource] = true
			if r.At.After(at) {
				at = r.At
			}
		}
	}
	if len(seen) < resources {
		return time.Time{}
	}
	return at
}

// BenchmarkSnapshotToList: from a new snapshot in the proxy to the list of 1,000
// slots at kubelet, four resources changing at once.
func BenchmarkSnapshotToList(b *testing.B) {
	const resources, slots = 4, 1000
	entries := make([]string, resources)
	for i := range entries {
		entries[i] = entry(fmt.Sprint("r", i), slots, `"health":"active"`)
	}
	n := newNode(b, fakekubelet.ByPath)
	n.configure(entries...)
	must(b, n.Start())
	n.serve(relay.Options{ListInterval: 1})
	n.publish(fakedaemon.HCA(0))
	n.until("ready", func() bool { return n.relay.Report().Ready && len(n.State().Responses) == resources })
	var took []time.Duration
	for i := 1; b.Loop(); i++ {
		device := fakedaemon.HCA(0)
		if i%2 == 1 {
			fakedaemon.Down(device)
		}
		begin := time.Now()
		n.publish(device)
		n.eventually(func(s fakekubelet.State) bool { return len(s.Responses) == resources*(i+1) })
		all := n.State().Responses
		took = append(took, all[len(all)-1].At.Sub(begin))
	}
	percentiles(b, took)
}
