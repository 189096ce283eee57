// Many devices, and cards with functions.
//
// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

func Test64Devices(t *testing.T) {
	withRDMA(t)
	const count = 64
	var all []string
	for i := range count {
		all = append(all, fmt.Sprintf("d%d", i))
		dummy(t, all[i])
	}
	n := startNode(t, hostNetns)
	n.listed(each, 0, 0)
	before := n.watch.count()
	begin := time.Now()
	parallel(all, func(name string) {
		if err := netlink.RdmaLinkAdd("rxe_"+name, "rxe", name); err != nil {
			t.Error(err)
		}
	})
	added := time.Now()
	n.listed(each, 2*count, 2*count)
	settled := time.Since(added)
	fmt.Printf("MEASURED vm: 64 devices made in %.1f s: all at kubelet %.0f ms after the last, by %d snapshots and %d lists\n", added.Sub(begin).Seconds(),
		float64(settled.Milliseconds()), n.watch.count()-before, len(n.kubelet.State().ResponsesOf(each)))
	if got := rdmaTool[[]rdmaLink](t, "link", "show"); len(got) != count {
		t.Errorf("the kernel has %d", len(got))
	}
	for _, want := range rdmaTool[[]rdmaLink](t, "link", "show") {
		if got := linkOf(n.watch.last(), want.Ifname, want.Port); got != want {
			t.Errorf("port %+v, netlink says %+v", got, want)
		}
	}
	if most := 10 + int(time.Since(begin)/(200*time.Millisecond)); n.watch.count()-before > most {
		t.Errorf("%d snapshots of one burst", n.watch.count()-before)
	}
	deleteAllRDMA(t)
	n.listed(each, 0, 0)
}

func TestDriverUnboundAndCardUnplugged(t *testing.T) {
	withRDMA(t)
	netdev := netdevOf(t, "e1000e")
	must(t, netlink.RdmaLinkAdd("rxe0", "rxe", netdev))
	n := startNode(t, hostNetns)
	n.listed(each, 2, 2)
	function := pciOf(t, netdev)

	driver := "/sys/bus/pci/drivers/e1000e/"
	must(t, os.WriteFile(driver+"unbind", []byte(function), 0o200))
	n.listed(each, 0, 0)
	n.watch.await("the function without a driver", func(s *discoveryv1.Snapshot) bool {
		return strings.Contains(reasonsOfFunction(s, function), "DRIVER_UNBOUND")
	})
	must(t, os.WriteFile(driver+"bind", []byte(function), 0o200))
	netdev = netdevOf(t, "e1000e")
	must(t, netlink.RdmaLinkAdd("rxe0", "rxe", netdev))
	n.listed(each, 2, 2)

	monitor(t, "device_del net1")
	n.listed(each, 0, 0)
	n.watch.await("no function where the card was", func(s *discoveryv1.Snapshot) bool {
		return reasonsOfFunction(s, function) == "gone"
	})
	monitor(t, "device_add e1000e,id=net1,netdev=n1,bus=slot2")
	netdev = netdevOf(t, "e1000e")
	must(t, netlink.RdmaLinkAdd("rxe0", "rxe", netdev))
	n.listed(each, 2, 2)
	moved := pciOf(t, netdev)
	if reasonsOfFunction(n.watch.last(), moved) == "gone" {
		t.Errorf("the card's function %s is not in the snapshot", moved)
	}
}

func TestR27_VirtualFunctionsMadeLater(t *testing.T) {
	withRDMA(t)
	if cards, _ := filepath.Glob("/sys/bus/pci/devices/*/sriov_numvfs"); len(cards) == 0 {
		t.Skip("no card with virtual functions: igb is in QEMU from 8.0 on")
	}
	load(t, "igb", "igbvf")
	pf := netdevOf(t, "igb")
	n := startNode(t, hostNetns)
	numVFs := filepath.Join("/sys/class/net", pf, "device/sriov_numvfs")
	must(t, os.WriteFile(numVFs, []byte("2"), 0o200))
	n.watch.await("two virtual functions", func(s *discoveryv1.Snapshot) bool { return vfs(s) == 2 })
	must(t, netlink.RdmaLinkAdd("rxe0", "rxe", netdevOf(t, "igbvf")))
	n.devices("rxe0")
	must(t, os.WriteFile(numVFs, []byte("0"), 0o200))
	n.watch.await("no virtual function", func(s *discoveryv1.Snapshot) bool { return vfs(s) == 0 })
	n.devices()
}

func vfs(s *discoveryv1.Snapshot) (n int) {
	for _, d := range s.GetDevices() {
		if d.GetParent().GetFunction() == discoveryv1.FunctionKind_FUNCTION_KIND_VF {
			n++
		}
	}
	return n
}

func pciOf(t *testing.T, netdev string) string {
	t.Helper()
	target, err := os.Readlink(filepath.Join("/sys/class/net", netdev, "device"))
	must(t, err)
	return filepath.Base(target)
}

// reasonsOfFunction is "gone" when the snapshot does not have the function.
func reasonsOfFunction(s *discoveryv1.Snapshot, address string) string {
	for _, d := range s.GetDevices() {
		if d.GetParent().GetPciAddress() == address {
			return reasons(d.GetReasons())
		}
	}
	return "gone"
}

func TestSoftIWARP(t *testing.T) {
	if !exists("/lib/modules/siw.ko") {
		t.Skip("this kernel has no siw")
	}
	withRDMA(t)
	load(t, "siw")
	dummy(t, "d0")
	must(t, netlink.RdmaLinkAdd("siw0", "siw", "d0"))
	n := startNode(t, hostNetns)
	n.listed(each, 2, 2)
	if got := n.devices("siw0").GetDevices(); device(n.watch.last(), "siw0").GetNodeType() != discoveryv1.NodeType_NODE_TYPE_RNIC {
		t.Errorf("siw0: %v", got)
	}
	must(t, netlink.RdmaLinkDel("siw0"))
	n.listed(each, 0, 0)
}
