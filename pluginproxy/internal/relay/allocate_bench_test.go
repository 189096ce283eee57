// What an admission waits for: kubelet's calls over the socket, at 10,000 IDs.
//
// SPDX-License-Identifier: Apache-2.0

package relay_test

import (
	"slices"
	"testing"
	"time"

	"github.com/rdma-relay/rdma-relay/test/fakedaemon"
	"github.com/rdma-relay/rdma-relay/test/fakekubelet"
)

// tenThousand are the ways to have as many slots with 40 devices.
var tenThousand = []struct {
	name  string
	slots int
	keys  string
}{
	{"pool,ids=10000", 10000, `"sharing":"pool"`},
	{"perDevice,ids=10000", 250, `"sharing":"perDevice"`},
	{"perDevice,cdi,ids=10000", 250, `"sharing":"perDevice","cdi":true`},
}

// BenchmarkAllocateCall: one slot, from the call to the answer.
func BenchmarkAllocateCall(b *testing.B) {
	for _, tc := range tenThousand {
		b.Run(tc.name, func(b *testing.B) {
			n := running(b, fakekubelet.ByPath, entry("hca", tc.slots, tc.keys))
			n.publish(named(fakedaemon.HCAs(40)...)...)
			n.eventually(listed(hca, 10000, 10000))
			ids := n.State().Resources[hca].Healthy
			var took []time.Duration
			for i := 0; b.Loop(); i++ {
				begin := time.Now()
				if _, err := n.Allocate(b.Context(), hca, ids[i*7919%len(ids)]); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(begin))
			}
			percentiles(b, took)
		})
	}
}

// BenchmarkPreferredCall: 8 of 10,000 available slots, two of them already chosen.
func BenchmarkPreferredCall(b *testing.B) {
	for _, preference := range []string{"spread", "pack"} {
		b.Run(preference+",available=10000,size=8", func(b *testing.B) {
			n := running(b, fakekubelet.ByPath, entry("hca", 250, `"sharing":"perDevice","preferredAllocation":"`+preference+`"`))
			n.publish(fakedaemon.HCAs(40)...)
			n.eventually(listed(hca, 10000, 10000))
			ids := slices.Clone(n.State().Resources[hca].Healthy)
			var took []time.Duration
			for b.Loop() {
				begin := time.Now()
				chosen, err := n.PreferredAllocation(b.Context(), hca, ids, ids[100:102], 8)
				if err != nil || len(chosen) != 8 {
					b.Fatal(chosen, err)
				}
				took = append(took, time.Since(begin))
			}
			percentiles(b, took)
		})
	}
}
