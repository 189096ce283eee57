// Devices and modules that come and go.
//
// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

func TestR25_ModulesLoadedAfterTheStart(t *testing.T) {
	withRDMA(t)
	deleteAllRDMA(t)
	unload(t, rdmaModules...)
	n := startNode(t, hostNetns)
	n.listed(pool, 0, 0)
	n.listed(each, 0, 0)
	s := n.devices()
	if got := reasons(s.GetNode().GetReasons()); !strings.Contains(got, "NO_RDMA_SUBSYSTEM") {
		t.Errorf("node without ib_core has reasons %q", got)
	}
	eventually(t, "a node without RDMA is ready", func() bool { return strings.HasPrefix(n.get("/readyz"), "ok\n") })

	load(t, "rdma_rxe", "ib_uverbs", "ib_umad", "rdma_ucm", "crc32_generic")
	rxe(t, "rxe0", "d0")
	n.listed(pool, 10, 10)
	n.listed(each, 2, 2)

	// A daemon that has an open file or socket of the subsystem would make this fail.
	must(t, netlink.RdmaLinkDel("rxe0"))
	n.listed(pool, 0, 0)
	n.listed(each, 0, 0)
	unload(t, rdmaModules...)
	n.watch.await("a node without the subsystem", func(s *discoveryv1.Snapshot) bool {
		return strings.Contains(reasons(s.GetNode().GetReasons()), "NO_RDMA_SUBSYSTEM")
	})

	load(t, "rdma_rxe", "ib_uverbs", "ib_umad", "rdma_ucm")
	must(t, netlink.RdmaLinkAdd("rxe0", "rxe", "d0"))
	n.listed(pool, 10, 10)
	n.listed(each, 2, 2)
}

// The modules behind rdma_cm and umad come and go without their devices.
func TestModulesOfDeviceFilesLoadedLater(t *testing.T) {
	withRDMA(t)
	unload(t, "rdma_ucm", "ib_umad")
	rxe(t, "rxe0", "d0")
	for name, where := range map[string]netns{"HostNetns": hostNetns, "PodNetns": podNetns} {
		t.Run(name, func(t *testing.T) {
			n := startNode(t, where)
			n.listed(each, 0, 0)
			n.watch.await("no rdma_cm", func(s *discoveryv1.Snapshot) bool {
				return strings.Contains(reasons(device(s, "rxe0").GetReasons()), "NO_RDMA_CM")
			})
			begin := time.Now()
			load(t, "rdma_ucm", "ib_umad")
			n.listed(each, 2, 2)
			n.listed(pool, 10, 10)
			if took := time.Since(begin); took > patience/2 {
				t.Errorf("only a resync has found the module: %v", took)
			}
			eventually(t, "a container is given uverbs, umad and rdma_cm", func() bool {
				return len(n.allocate(each, "rxe0").GetDevices()) == 3
			})
			unload(t, "rdma_ucm", "ib_umad")
			n.listed(each, 0, 0)
		})
	}
}

func reasons(all []*discoveryv1.Reason) string {
	var codes []string
	for _, r := range all {
		codes = append(codes, strings.TrimPrefix(r.GetCode().String(), "REASON_CODE_"))
	}
	return strings.Join(codes, " ")
}

func TestHotAddAndRemove(t *testing.T) {
	withRDMA(t)
	for name, where := range map[string]netns{"HostNetns": hostNetns, "PodNetns": podNetns} {
		t.Run(name, func(t *testing.T) {
			n := startNode(t, where)
			n.listed(each, 0, 0)
			rxe(t, "rxe0", "d0")
			n.listed(each, 2, 2)
			rxe(t, "rxe1", "d1")
			n.listed(each, 4, 4)
			must(t, netlink.RdmaLinkDel("rxe0"))
			n.listed(each, 2, 2)
			n.devices("rxe1")
			must(t, netlink.RdmaLinkDel("rxe1"))
			n.listed(each, 0, 0)
			n.devices()
		})
	}
}
