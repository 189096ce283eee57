// Links that go down and come back, and how soon kubelet knows.
//
// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

func TestCarrierLostAndBack(t *testing.T) {
	withRDMA(t)
	rxe(t, "rxe0", "d0")
	rxe(t, "rxe1", "d1")
	links := make(chan netlink.LinkUpdate, 256)
	must(t, netlink.LinkSubscribe(links, t.Context().Done()))
	// The goals of the design are 100 ms and 1.2 s. The bounds are for the median, and
	// for an emulated processor on a machine that does other things as well.
	for _, test := range []struct {
		name  string
		where netns
		bound time.Duration
	}{{"HostNetns", hostNetns, 600 * time.Millisecond}, {"PodNetns", podNetns, 2 * time.Second}} {
		t.Run(test.name, func(t *testing.T) {
			n := startNode(t, test.where)
			n.listed(each, 4, 4)
			var fromWrite, fromMessage []time.Duration
			for i := range 8 {
				up := i%2 == 1
				want := map[bool]int{false: 2, true: 4}[up]
				pause(t, 1200*time.Millisecond) // lists are at most one a second
				written := time.Now()
				carrier(t, "d0", up)
				told := carrierTold(t, links, "d0", up)
				n.listed(each, 4, want)
				at := arrival(n, want)
				fromWrite, fromMessage = append(fromWrite, at.Sub(written)), append(fromMessage, at.Sub(told))
			}
			t.Logf("from the carrier's change %v\nfrom the kernel's message %v", fromWrite, fromMessage)
			judged := fromWrite
			if test.where == hostNetns {
				judged = fromMessage
			}
			measured(t, test.name+": carrier → list at kubelet", fromWrite)
			measured(t, test.name+": the kernel's message of it → list at kubelet", fromMessage)
			slices.Sort(judged)
			if median := judged[len(judged)/2]; median > test.bound {
				t.Errorf("a carrier change takes %v, want at most %v", median, test.bound)
			}
			n.listed(pool, 10, 10) // one device was always there
		})
	}
}

// carrierTold waits for rtnetlink's message of a carrier. The kernel sends most of them
// at most once a second (linkwatch_urgent_event in net/core/link_watch.c), and RDMA
// ports change with them; sysfs has the carrier at once.
func carrierTold(t testing.TB, links <-chan netlink.LinkUpdate, name string, up bool) time.Time {
	t.Helper()
	late := time.After(patience)
	for {
		select {
		case l := <-links:
			if l.Attrs().Name == name && (l.Flags&unix.IFF_LOWER_UP != 0) == up {
				return time.Now()
			}
		case <-late:
			t.Fatalf("no message that the carrier of %s is %t", name, up)
		}
	}
}

// arrival is when the newest list came that has so many healthy slots.
func arrival(n *node, healthy int) time.Time {
	all := n.kubelet.State().ResponsesOf(each)
	for _, r := range slices.Backward(all) {
		if r.Healthy() == healthy {
			return r.At
		}
	}
	return time.Time{}
}

// measured prints a figure that the run of the tests shows.
func measured(t testing.TB, what string, all []time.Duration) {
	t.Helper()
	slices.Sort(all)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	// At the start of a line, where test/testsum finds it.
	fmt.Printf("MEASURED vm: %s: median %.1f ms, worst %.1f ms of %d\n", what, ms(all[len(all)/2]), ms(all[len(all)-1]), len(all))
}

// pause lets time pass that the test is about.
func pause(t testing.TB, d time.Duration) {
	t.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
	}
}

func TestCablePulledAndPluggedIn(t *testing.T) {
	withRDMA(t)
	netdev := netdevOf(t, "virtio_net")
	must(t, netlink.RdmaLinkAdd("rxe0", "rxe", netdev))
	n := startNode(t, hostNetns)
	n.listed(each, 2, 2)
	monitor(t, "set_link net0 off")
	n.listed(each, 2, 0)
	n.listed(pool, 10, 10) // the device is there
	// The kernel makes the carrier known before the port's state.
	n.watch.await("the port down", func(s *discoveryv1.Snapshot) bool { return linkOf(s, "rxe0", 1).State == "DOWN" })
	monitor(t, "set_link net0 on")
	n.listed(each, 2, 2)
	n.watch.await("the port active", func(s *discoveryv1.Snapshot) bool { return linkOf(s, "rxe0", 1).State == "ACTIVE" })
}

func TestFlappingLinkGivesNoStorm(t *testing.T) {
	withRDMA(t)
	rxe(t, "rxe0", "d0")
	n := startNode(t, hostNetns)
	n.listed(each, 2, 2)
	pause(t, 1100*time.Millisecond)
	snapshots, lists := n.watch.count(), len(n.kubelet.State().ResponsesOf(each))
	begin := time.Now()
	const flips = 50
	for i := range flips {
		carrier(t, "d0", i%2 == 1)
		pause(t, time.Until(begin.Add(time.Duration(i+1)*100*time.Millisecond)))
	}
	// The kernel tells of the last flip within a second, and kubelet gets a list a second.
	pause(t, 2200*time.Millisecond)
	span := time.Since(begin)
	snapshots, lists = n.watch.count()-snapshots, len(n.kubelet.State().ResponsesOf(each))-lists
	fmt.Printf("MEASURED vm: link flapping at 10 Hz for %.1f s: %d snapshots, %d lists\n", span.Seconds(), snapshots, lists)
	if most := int(span.Seconds()) + 2; lists > most {
		t.Errorf("%d lists in %v, want at most one a second", lists, span)
	}
	// A few at once, and then one each 400 ms.
	if most := 8 + int(span/(400*time.Millisecond)); snapshots > most {
		t.Errorf("%d snapshots in %v, want at most %d", snapshots, span, most)
	}
	eventually(t, "all slots again, for the last flip sets the link up", func() bool {
		return n.kubelet.State().Allocatable(each) == 2
	})
}

func TestEventToSnapshot(t *testing.T) {
	withRDMA(t)
	dummy(t, "d0")
	n := startNode(t, hostNetns)
	n.listed(each, 0, 0)
	uevents := ueventSocket(t)
	var all []time.Duration
	for range 6 {
		for _, add := range []bool{true, false} {
			pause(t, 900*time.Millisecond) // more often is a storm, and held back
			before := n.watch.count()
			want := []string{"rxe0"}
			if add {
				must(t, netlink.RdmaLinkAdd("rxe0", "rxe", "d0"))
			} else {
				want = nil
				must(t, netlink.RdmaLinkDel("rxe0"))
			}
			event := lastUevent(t, uevents, "/infiniband/rxe0")
			all = append(all, n.watch.awaitAfter(before, "rxe0 come or gone", func(s *discoveryv1.Snapshot) bool {
				return equal(deviceNames(s), want)
			}).at.Sub(event))
		}
	}
	measured(t, "uevent → snapshot", all)
	// The goal is 50 ms on a real machine.
	if median := all[len(all)/2]; median > 500*time.Millisecond {
		t.Errorf("a uevent takes %v to the snapshot", median)
	}
}

// ueventSocket hears the kernel's uevents until the test's end.
func ueventSocket(t testing.TB) int {
	t.Helper()
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_KOBJECT_UEVENT)
	must(t, err)
	t.Cleanup(func() { _ = unix.Close(fd) })
	must(t, unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: 1}))
	must(t, unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: int64(patience.Seconds())}))
	return fd
}

// lastUevent reads events until the one of a path. Its time is that of its reading,
// which is later than that of its sending.
func lastUevent(t testing.TB, fd int, path string) time.Time {
	t.Helper()
	buf := make([]byte, 8192)
	for {
		n, _, err := unix.Recvfrom(fd, buf, 0)
		must(t, err)
		head, _, _ := strings.Cut(string(buf[:n]), "\x00")
		if strings.HasSuffix(head, path) {
			return time.Now()
		}
	}
}
