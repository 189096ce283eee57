// What a scan tells of each kind of hardware, laid out as its driver does it.
//
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
	"github.com/rdma-relay/rdma-relay/test/fakehost"
)

// kindOf makes a host of that kind.
func kindOf(t *testing.T, name string) *fakehost.Host {
	t.Helper()
	host, err := fakehost.MakeKind(t.TempDir(), name)
	must(t, err)
	return host
}

// summary tells of a device in one line: kind of function, address, ports with
// their link layers, states and network devices, other network devices, files, and
// reasons.
func summary(d *discoveryv1.Device) string {
	p := d.GetParent()
	parts := []string{strings.ToLower(strings.TrimPrefix(p.GetFunction().String(), "FUNCTION_KIND_"))}
	if p.GetPciAddress() != "" {
		parts = append(parts, p.GetPciAddress())
	}
	if p.GetAuxiliaryName() != "" {
		parts = append(parts, p.GetAuxiliaryName())
	}
	for _, port := range d.GetPorts() {
		layer := strings.TrimPrefix(port.GetLinkLayer().String(), "LINK_LAYER_")[:2]
		parts = append(parts, fmt.Sprintf("%d:%s/%s[%s]", port.GetNumber(), layer, strings.TrimPrefix(port.GetState().String(), "PORT_STATE_"), nets(port.GetNetDevices())))
	}
	if len(d.GetOtherNetDevices()) > 0 {
		parts = append(parts, "others["+nets(d.GetOtherNetDevices())+"]")
	}
	return strings.TrimSpace(strings.Join(parts, " ") + " | " + files(d) + " | " + codes(d.GetReasons()))
}

func TestKinds(t *testing.T) {
	want := map[string]map[string]string{
		"connectx4-lx": {
			"mlx5_0": "pf 0000:3b:00.0 1:ET/ACTIVE[ens1f0np0] | uverbs0 umad0:1 issm0:1 rdma_cm |",
			"mlx5_1": "pf 0000:3b:00.1 1:ET/DOWN[ens1f1np1] | uverbs1 umad1:1 issm1:1 rdma_cm |",
		},
		"connectx7-ib": {"ibp24s0": "pf 0000:18:00.0 1:IN/ACTIVE[] | uverbs0 umad0:1 issm0:1 rdma_cm |"},
		"multiplane": {
			"mlx5_0": "pf 0000:3b:00.0 1:IN/ACTIVE[] | uverbs0 umad0:1 issm0:1 rdma_cm |",
			"smi1":   "pf 0000:3b:00.0 1:IN/ACTIVE[] 2:IN/ACTIVE[] 3:IN/ACTIVE[] 4:IN/ACTIVE[] | umad1:1 umad2:2 umad3:3 umad4:4 issm1:1 issm2:2 issm3:3 issm4:4 rdma_cm | NO_UVERBS",
		},
		"bond": {
			"mlx5_bond_0":  "pf 0000:7f:00.0 1:ET/ACTIVE[bond0 ens1f0np0] | uverbs0 umad0:1 issm0:1 rdma_cm |",
			"0000:7f:00.1": "pf 0000:7f:00.1 others[ens1f1np1] |  | NO_RDMA_DEVICE",
		},
		"vpi":        {"mlx4_0": "pf 0000:5e:00.0 1:IN/ACTIVE[ib0] 2:ET/ACTIVE[ens3d1] | uverbs0 umad0:1 umad1:2 issm0:1 issm1:2 rdma_cm |"},
		"ipoib-guid": {"mlx5_0": "pf a1b2:00:02.0 1:IN/ACTIVE[ib0] | uverbs0 umad0:1 issm0:1 rdma_cm |"},
		"switchdev": {
			"mlx5_0": "pf 0000:08:00.0 1:ET/ACTIVE[ens8f0np0] 2:ET/ACTIVE[] 3:ET/ACTIVE[] others[ens8f0npf0vf1 eth0] | uverbs0 umad0:1 issm0:1 rdma_cm |",
			"mlx5_2": "vf 0000:08:00.2 1:ET/ACTIVE[ens8f0v0] | uverbs2 umad2:1 issm2:1 rdma_cm |",
			"mlx5_3": "vf 0000:08:00.3 1:ET/ACTIVE[ens8f0v1] | uverbs3 umad3:1 issm3:1 rdma_cm |",
		},
		"bluefield": {
			"mlx5_0": "pf 0000:03:00.0 1:ET/ACTIVE[p0] others[en3f0pf0sf88 pf0hpf] | uverbs0 umad0:1 issm0:1 rdma_cm |",
			"mlx5_4": "sf 0000:03:00.0 mlx5_core.sf.2 1:ET/ACTIVE[enp3s0f0s88] | uverbs1 umad1:1 issm1:1 rdma_cm |",
		},
		"efa": {"rdmap16s27": "pf 0000:10:1b.0 1:UN/ACTIVE[] | uverbs0 rdma_cm |"},
		"irdma": {
			"rocep24s0f0": "pf 0000:18:00.0 1:ET/ACTIVE[ens1f0] | uverbs0 umad0:1 issm0:1 rdma_cm |",
			"iwp24s0f1":   "pf 0000:18:00.1 1:ET/ACTIVE[ens1f1] | uverbs1 rdma_cm |",
		},
		"erdma": {
			"erdma_0":      "pf 0000:00:06.0 1:ET/ACTIVE[eth0] | uverbs0 rdma_cm |",
			"0000:00:05.0": "pf 0000:00:05.0 others[eth0] |  | NO_RDMA_DEVICE",
		},
		"hfi1": {"hfi1_0": "pf 0000:d8:00.0 1:IN/ACTIVE[ib0] | uverbs0 umad0:1 issm0:1 rdma_cm |"},
		"mana": {"mana_0": "pf 7870:00:00.0 1:ET/ACTIVE[enP30832s1] | uverbs0 rdma_cm |"},
		"soft": {
			"rxe0":         "virtual 1:ET/ACTIVE[eth1] | uverbs0 umad0:1 rdma_cm |",
			"rxe1":         "virtual 1:ET/ACTIVE[dummy0] | uverbs1 umad1:1 rdma_cm |",
			"siw0":         "virtual 1:ET/ACTIVE[eth1] | uverbs2 rdma_cm |",
			"0000:00:03.0": "pf 0000:00:03.0 others[eth1] |  | NO_RDMA_DEVICE",
		},
		"virtio": {"roce0": "pf 0000:00:02.0 1:ET/ACTIVE[eth0] | uverbs0 umad0:1 rdma_cm |"},
	}
	for _, kind := range fakehost.Kinds() {
		t.Run(kind.Name, func(t *testing.T) {
			host, err := kind.Make(t.TempDir())
			must(t, err)
			s := scanOf(t, host)
			if len(want[kind.Name]) != len(s.GetDevices()) {
				t.Errorf("there are %d devices: %s", len(s.GetDevices()), namesOf(s))
			}
			for name, line := range want[kind.Name] {
				expect(t, name, summary(device(t, s, name)), line)
			}
		})
	}
}

func TestR33_DeviceForManagementOnlySaysSo(t *testing.T) {
	s := scanOf(t, kindOf(t, "multiplane"))
	if text := message(device(t, s, "smi1"), "NO_UVERBS"); !strings.Contains(text, "go with the other RDMA device") {
		t.Errorf("it says %q", text)
	}
}

// By node GUID ib0 would be nobody's: its hardware address has the port's.
func TestR32_IPoIBIsFoundWhateverTheNodeGUIDIs(t *testing.T) {
	d := device(t, scanOf(t, kindOf(t, "ipoib-guid")), "mlx5_0")
	expect(t, "node GUID", d.GetNodeGuid(), "0015:5dff:fe34:0283")
	expect(t, "net", nets(d.GetPorts()[0].GetNetDevices()), "ib0")
	expect(t, "its type", d.GetPorts()[0].GetNetDevices()[0].GetLinkType(), "infiniband")
}

func TestR36_UplinkWithAnEmptyGIDTableIsTold(t *testing.T) {
	host := kindOf(t, "switchdev")
	// The report's tree has no gid_attrs at all.
	must(t, os.RemoveAll(filepath.Join(host.DeviceDir("mlx5_0"), "ports/1/gid_attrs")))
	s := scanOf(t, host)
	pf := device(t, s, "mlx5_0")
	expect(t, "uplink", nets(pf.GetPorts()[0].GetNetDevices()), "ens8f0np0")
	expect(t, "device ID", pf.GetParent().GetDeviceId(), "101d")
	for _, n := range pf.GetOtherNetDevices() {
		expect(t, n.GetName()+"'s role", n.GetRole(), discoveryv1.NetDeviceRole_NET_DEVICE_ROLE_REPRESENTOR)
	}
	for i, name := range []string{"mlx5_2", "mlx5_3"} {
		p := device(t, s, name).GetParent()
		expect(t, name+"'s device ID", p.GetDeviceId(), "101e")
		expect(t, name+"'s PF", strings.Join(p.GetPfNetDevices(), " "), "ens8f0np0")
		expect(t, name+"'s index", p.GetVfIndex(), uint32(i))
	}
}

func TestR37_ScalableFunctionIsADeviceOfItsOwn(t *testing.T) {
	s := scanOf(t, kindOf(t, "bluefield"))
	expect(t, "devices", namesOf(s), "mlx5_0 mlx5_4")
	sf := device(t, s, "mlx5_4")
	p := sf.GetParent()
	expect(t, "bus", p.GetBus(), discoveryv1.Bus_BUS_AUXILIARY)
	expect(t, "auxiliary device", p.GetAuxiliaryName(), "mlx5_core.sf.2")
	expect(t, "vendor and device of the parent", p.GetVendorId()+":"+p.GetDeviceId(), "15b3:a2d6")
	expect(t, "PF", p.GetPfAddress(), "0000:03:00.0")
	expect(t, "PF's net", strings.Join(p.GetPfNetDevices(), " "), "p0")
	expect(t, "has an index", p.VfIndex != nil, false)
	expect(t, "has a NUMA node", p.NumaNode != nil, false)
}

// Without an ndevs entry (the link is down) the member still leads to its bond.
func TestR39_BondIsFoundWhileTheGIDTableIsEmpty(t *testing.T) {
	host := kindOf(t, "bond")
	write(t, host, "mlx5_bond_0", "ports/1/gid_attrs/ndevs/0", "")
	list := device(t, scanOf(t, host), "mlx5_bond_0").GetPorts()[0].GetNetDevices()
	expect(t, "nets", nets(list), "ens1f0np0")
	expect(t, "master", list[0].GetMaster(), "bond0")
	expect(t, "stacked", strings.Join(list[0].GetUppers(), " "), "bond0.100")
}

// Without rdma_ucm such a device lacks nothing that it could use; that it is said
// all the same is for those who ask for rdma_cm.
func TestDeviceWithoutConnectionManager(t *testing.T) {
	host := kindOf(t, "efa")
	must(t, host.RemoveRdmaCM())
	d := device(t, scanOf(t, host), "rdmap16s27")
	expect(t, "node type", d.GetNodeType(), discoveryv1.NodeType_NODE_TYPE_OTHER)
	expect(t, "link layer", d.GetPorts()[0].GetLinkLayer(), discoveryv1.LinkLayer_LINK_LAYER_UNSPECIFIED)
	expect(t, "files", files(d), "uverbs0")
	expect(t, "reasons", codes(d.GetReasons()), "NO_RDMA_CM")
}
