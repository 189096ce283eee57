// Names and numbers that change while the device stays.
//
// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"slices"
	"testing"

	"github.com/vishvananda/netlink"

	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

func TestR29_DeviceRenamed(t *testing.T) {
	withRDMA(t)
	rxe(t, "rxe0", "d0")
	n := startNode(t, hostNetns)
	n.listed(each, 2, 2)
	for _, names := range [][2]string{{"rxe0", "rocep59s0"}, {"rocep59s0", "rxe0"}} {
		rename(t, names[0], names[1])
		n.devices(names[1])
		n.listed(each, 2, 2)
		n.allocate(each, names[1])
	}
	for _, s := range n.watch.snapshots() {
		if len(deviceNames(s)) > 1 {
			t.Errorf("two entries for one device: %v", deviceNames(s))
		}
	}
}

func TestNetdevRenamed(t *testing.T) {
	withRDMA(t)
	link := rxe(t, "rxe0", "d0")
	for name, where := range map[string]netns{"HostNetns": hostNetns, "PodNetns": podNetns} {
		t.Run(name, func(t *testing.T) {
			n := startNode(t, where)
			n.listed(each, 2, 2)
			for _, name := range []string{"storage0", "d0"} {
				must(t, netlink.LinkSetDown(link))
				must(t, netlink.LinkSetName(link, name))
				must(t, netlink.LinkSetUp(link))
				n.watch.await("the port's network device "+name, func(s *discoveryv1.Snapshot) bool {
					return linkOf(s, "rxe0", 1).Netdev == name
				})
				n.listed(each, 2, 2)
			}
		})
	}
}

func TestUverbsRenumberedWhileTheSlotsStay(t *testing.T) {
	withRDMA(t)
	rxe(t, "rxe0", "d0")
	rxe(t, "rxe1", "d1")
	n := startNode(t, hostNetns)
	n.listed(each, 4, 4)
	ids, before := slotIDs(n, each), uverbs(t, "rxe0")
	must(t, netlink.RdmaLinkDel("rxe0"))
	must(t, netlink.RdmaLinkDel("rxe1"))
	n.listed(each, 0, 0)
	must(t, netlink.RdmaLinkAdd("rxe1", "rxe", "d1")) // the other one is first now
	must(t, netlink.RdmaLinkAdd("rxe0", "rxe", "d0"))
	n.listed(each, 4, 4)
	after := uverbs(t, "rxe0")
	if after == before {
		t.Fatalf("the kernel has not renumbered rxe0: %s", after)
	}
	if got := slotIDs(n, each); !equal(got, ids) {
		t.Errorf("slots %v, before %v", got, ids)
	}
	if paths := devicePaths(n.allocate(each, "rxe0")); !slices.Contains(paths, after) || slices.Contains(paths, before) {
		t.Errorf("rxe0 is given as %v, its file is %s", paths, after)
	}
}

// slotIDs are the IDs that kubelet knows, sorted.
func slotIDs(n *node, resource string) (ids []string) {
	for _, d := range n.kubelet.State().Resources[resource].Devices {
		ids = append(ids, d.ID)
	}
	slices.Sort(ids)
	return ids
}
