// The founding bug reports on a real kernel: sessions that end and programs that die
// while devices come and go.
//
// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/rdma-relay/rdma-relay/test/fakekubelet"
)

func TestR1_SecondSessionHearsOfTheDevices(t *testing.T) {
	withRDMA(t)
	rxe(t, "rxe0", "d0")
	n := startNode(t, hostNetns)
	n.listed(each, 2, 2)
	must(t, n.kubelet.Blackhole(each)) // the first session is open and not read
	second, err := n.kubelet.SecondSession(each)
	must(t, err)
	must(t, netlink.RdmaLinkDel("rxe0"))
	sequence := func() (all []int) {
		for _, r := range n.kubelet.State().ResponsesIn(second) {
			if k := len(r.Devices); len(all) == 0 || all[len(all)-1] != k {
				all = append(all, k)
			}
		}
		return all
	}
	n.await("0 in the second session", func(fakekubelet.State) bool { return slices.Equal(sequence(), []int{2, 0}) })
	must(t, netlink.RdmaLinkAdd("rxe0", "rxe", "d0"))
	n.await("2 again in the second session", func(fakekubelet.State) bool { return slices.Equal(sequence(), []int{2, 0, 2}) })
}

func TestR3_KubeletRestartsWhileDevicesChange(t *testing.T) {
	withRDMA(t)
	rxe(t, "rxe0", "d0")
	dummy(t, "d1")
	n := startNode(t, hostNetns)
	n.listed(each, 2, 2)
	var all []time.Duration
	for i := range 6 {
		want := 2
		if i%2 == 0 {
			must(t, netlink.RdmaLinkAdd("rxe1", "rxe", "d1"))
			want = 4
		} else {
			must(t, netlink.RdmaLinkDel("rxe1"))
		}
		if i%3 == 0 {
			must(t, n.kubelet.Kill())
			must(t, n.kubelet.Start())
		} else {
			must(t, n.kubelet.Restart())
		}
		n.listed(pool, 10, 10)
		state := n.kubelet.State()
		lists := state.ResponsesOf(pool)
		first := slices.IndexFunc(lists, func(r fakekubelet.Response) bool { return r.Boot == state.Boot })
		all = append(all, lists[first].At.Sub(state.Binds[len(state.Binds)-1].At))
		n.listed(each, want, want)
		if got := len(n.kubelet.State().RegistrationsAt(each, n.kubelet.State().Bind())); got != 1 {
			t.Errorf("registered %d times with one kubelet", got)
		}
	}
	measured(t, "new kubelet.sock → full list", all)
	if worst := slices.Max(all); worst > 5*time.Second {
		t.Errorf("a restart took %v", worst)
	}
}

func TestProgramsDieWhileDevicesChange(t *testing.T) {
	withRDMA(t)
	rxe(t, "rxe0", "d0")
	dummy(t, "d1")
	n := startNode(t, hostNetns)
	n.listed(each, 2, 2)
	sessions := len(n.kubelet.State().Sessions)
	for range 2 {
		n.daemon.end(syscall.SIGKILL)
		// Kubelet can restart meanwhile: the last snapshot stands.
		must(t, n.kubelet.Restart())
		n.listed(each, 2, 2)
		sessions += 2
		must(t, netlink.RdmaLinkAdd("rxe1", "rxe", "d1"))
		n.startDaemon()
		n.listed(each, 4, 4)
		must(t, netlink.RdmaLinkDel("rxe1"))
		n.listed(each, 2, 2)
	}
	if got := len(n.kubelet.State().Sessions); got != sessions {
		t.Errorf("%d sessions, want %d: the daemon's death is none of kubelet's business", got, sessions)
	}
}
