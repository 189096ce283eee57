// What a scan tells of devices of all kinds.
//
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
	"github.com/rdma-relay/rdma-relay/test/fakehost"
)

func TestAllFactsOfOneHCA(t *testing.T) {
	host := newHost(t, fakehost.HCA{
		PCI: "0000:3b:00.0", Root: "pci0000:3a", Bridge: "0000:3a:00.0", Name: "mlx5_0", Complete: true,
		Vendor: "0x15B3", Device: "0x1021", SubVendor: "0x15b3", SubDevice: "0x0041", NUMA: "1", Firmware: "28.43.2026",
		NodeGUID: "A088:c203:0018:1000", SysImageGUID: "a088:c203:0018:1000",
		Ports: []fakehost.Port{{State: fakehost.StateActive, PhysState: "5: LinkUp", Rate: "400 Gb/sec (4X NDR)"}},
		Nets:  []fakehost.Net{{Name: "ens1np0", IfIndex: "7", MTU: "9000", Carrier: "1"}},
		Chars: []fakehost.Char{{Kind: "uverbs", Index: 0}, {Kind: "umad", Index: 3, Port: 1}},
	})
	want := &discoveryv1.Device{}
	must(t, prototext.Unmarshal([]byte(`
		name: "mlx5_0" node_guid: "a088:c203:0018:1000" sys_image_guid: "a088:c203:0018:1000"
		firmware_version: "28.43.2026" node_type: NODE_TYPE_CA
		parent {
			bus: BUS_PCI pci_address: "0000:3b:00.0" vendor_id: "15b3" device_id: "1021"
			subsystem_vendor_id: "15b3" subsystem_device_id: "0041" class: "020000" driver: "mlx5_core"
			numa_node: 1 pcie_root: "pci0000:3a" function: FUNCTION_KIND_PF
		}
		ports {
			number: 1 link_layer: LINK_LAYER_ETHERNET state: PORT_STATE_ACTIVE phys_state: PHYS_STATE_LINK_UP
			rate: "400 Gb/sec (4X NDR)"
			net_devices {
				name: "ens1np0" ifindex: 7 link_type: "ether" oper_state: "up" carrier: true mtu: 9000
				role: NET_DEVICE_ROLE_UPLINK
			}
		}
		char_devices { kind: CHAR_DEVICE_KIND_UVERBS path: "/dev/infiniband/uverbs0" major: 231 minor: 192 }
		char_devices { kind: CHAR_DEVICE_KIND_UMAD path: "/dev/infiniband/umad3" major: 231 minor: 3 port: 1 }
	`), want))
	got := device(t, scanOf(t, host), "mlx5_0")
	// rdma_cm's number is the host's own affair.
	cm := got.CharDevices[len(got.CharDevices)-1]
	expect(t, "last character device", cm.GetPath(), "/dev/infiniband/rdma_cm")
	want.CharDevices = append(want.CharDevices, cm)
	if !proto.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", prototext.Format(got), prototext.Format(want))
	}
}

func TestR33_EveryPortAndEveryDeviceOfAFunctionHasItsFiles(t *testing.T) {
	multi := fakehost.HCA{PCI: "0000:3b:00.0", Name: "smi1", Index: 1, Nets: []fakehost.Net{},
		Ports: make([]fakehost.Port, 4), Chars: fakehost.Chars(1, "uverbs")}
	for port := 1; port <= 4; port++ {
		multi.Chars = append(multi.Chars, fakehost.Char{Kind: "umad", Index: port, Port: port}, fakehost.Char{Kind: "issm", Index: port, Port: port})
	}
	classic := fakehost.HCA{PCI: "0000:5e:00.0", Name: "mlx4_0", Index: 5, Ports: make([]fakehost.Port, 2), Chars: []fakehost.Char{
		{Kind: "uverbs", Index: 5}, {Kind: "umad", Index: 10, Port: 1}, {Kind: "umad", Index: 9, Port: 2},
	}}
	s := scanOf(t, newHost(t, hca(0), multi, classic))
	expect(t, "devices", namesOf(s), "mlx4_0 mlx5_0 smi1")
	expect(t, "files of mlx5_0", files(device(t, s, "mlx5_0")), "uverbs0 umad0:1 issm0:1 rdma_cm")
	expect(t, "files of smi1", files(device(t, s, "smi1")), "uverbs1 umad1:1 umad2:2 umad3:3 umad4:4 issm1:1 issm2:2 issm3:3 issm4:4 rdma_cm")
	expect(t, "files of mlx4_0", files(device(t, s, "mlx4_0")), "uverbs5 umad9:2 umad10:1 rdma_cm")
	expect(t, "function of smi1", device(t, s, "smi1").GetParent().GetPciAddress(), "0000:3b:00.0")
}

func TestR34_PortsOfOneDeviceDifferAndFlip(t *testing.T) {
	host := newHost(t, fakehost.HCA{PCI: "0000:3b:00.0", Name: "mlx4_0",
		Ports: []fakehost.Port{{LinkLayer: fakehost.InfiniBand}, {LinkLayer: fakehost.Ethernet, State: fakehost.StateDown}},
		Nets:  []fakehost.Net{{Name: "ib0", Type: "32", DevPort: "0"}, {Name: "ens1", DevPort: "1"}}})
	scanner := newScanner(t, host.Root())
	ports := device(t, scan(t, scanner), "mlx4_0").GetPorts()
	expect(t, "port 1", ports[0].GetLinkLayer(), discoveryv1.LinkLayer_LINK_LAYER_INFINIBAND)
	expect(t, "port 1's net", nets(ports[0].GetNetDevices()), "ib0")
	expect(t, "its type", ports[0].GetNetDevices()[0].GetLinkType(), "infiniband")
	expect(t, "port 2", ports[1].GetLinkLayer(), discoveryv1.LinkLayer_LINK_LAYER_ETHERNET)
	expect(t, "port 2's state", ports[1].GetState(), discoveryv1.PortState_PORT_STATE_DOWN)
	expect(t, "port 2's net", nets(ports[1].GetNetDevices()), "ens1")

	must(t, host.SetLinkLayer("mlx4_0", 1, fakehost.Ethernet))
	ports = device(t, scan(t, scanner), "mlx4_0").GetPorts()
	expect(t, "port 1 after the flip", ports[0].GetLinkLayer(), discoveryv1.LinkLayer_LINK_LAYER_ETHERNET)
}

func TestR38_VirtualDevicesHaveNoParent(t *testing.T) {
	host := newHost(t,
		fakehost.HCA{Name: "rxe0", Virtual: true, Parent: "d0", Index: 0, Complete: true},
		fakehost.HCA{Name: "siw0", Virtual: true, NodeType: "4: RNIC", Index: 1, Chars: fakehost.Chars(1, "uverbs"),
			Ports: []fakehost.Port{{GIDNets: []string{"d0"}}}},
		fakehost.HCA{Name: "siwlo", Virtual: true, NodeType: "4: RNIC", Index: 2, Chars: fakehost.Chars(2, "uverbs")},
	)
	must(t, host.AddNet(fakehost.Net{Name: "d0", MTU: "1500"}))
	s := scanOf(t, host)
	expect(t, "devices", namesOf(s), "rxe0 siw0 siwlo")
	for _, name := range []string{"rxe0", "siw0", "siwlo"} {
		d := device(t, s, name)
		if want := (&discoveryv1.Parent{Bus: discoveryv1.Bus_BUS_NONE, Function: discoveryv1.FunctionKind_FUNCTION_KIND_VIRTUAL}); !proto.Equal(d.GetParent(), want) {
			t.Errorf("%s: parent is %v", name, d.GetParent())
		}
		expect(t, name+" reasons", codes(d.GetReasons()), "")
	}
	rxe := device(t, s, "rxe0")
	expect(t, "rxe0's net", nets(rxe.GetPorts()[0].GetNetDevices()), "d0")
	expect(t, "its MTU", rxe.GetPorts()[0].GetNetDevices()[0].GetMtu(), uint32(1500))
	expect(t, "rxe0's files", files(rxe), "uverbs0 umad0:1 issm0:1 rdma_cm")
	expect(t, "siw0's net", nets(device(t, s, "siw0").GetPorts()[0].GetNetDevices()), "d0")
	expect(t, "siwlo's net", nets(device(t, s, "siwlo").GetPorts()[0].GetNetDevices()), "")
	expect(t, "siwlo's type", device(t, s, "siwlo").GetNodeType(), discoveryv1.NodeType_NODE_TYPE_RNIC)
}

func TestStrangeFileOfManyOwnersSpoilsNobodyElse(t *testing.T) {
	host := newHost(t, fakehost.HCA{Name: "rxe0", Virtual: true, Index: 0}, fakehost.HCA{Name: "rxe1", Virtual: true, Index: 1})
	writeFile(t, filepath.Join(host.Root(), "sys/devices/virtual/infiniband_verbs/uverbs0/ibdev"), "\xff")
	s := scanOf(t, host)
	expect(t, "its own", codes(device(t, s, "rxe0").GetReasons()), "NO_UVERBS")
	expect(t, "another", codes(device(t, s, "rxe1").GetReasons()), "")
}

func TestR38_VirtualDeviceRecordedAsADirectory(t *testing.T) {
	host := newHost(t)
	dir := filepath.Join(host.Root(), "sys/class/infiniband/rxe0")
	files := map[string]string{"node_type": "1: CA\n", "parent": "d0\n", "ports/1/state": "4: ACTIVE\n", "ports/1/link_layer": "Ethernet\n"}
	for name, text := range files {
		writeFile(t, filepath.Join(dir, name), text)
	}
	d := device(t, scanOf(t, host), "rxe0")
	expect(t, "bus", d.GetParent().GetBus(), discoveryv1.Bus_BUS_NONE)
	expect(t, "net", nets(d.GetPorts()[0].GetNetDevices()), "d0")
	expect(t, "reasons", codes(d.GetReasons()), "NO_UVERBS NO_RDMA_CM NO_UMAD")
}

func TestR52_UnknownNUMANodeIsAbsent(t *testing.T) {
	one, two, three := hca(0), hca(1), hca(2)
	one.NUMA, two.NUMA, three.NUMA = "-1", "1", fakehost.None
	s := scanOf(t, newHost(t, one, two, three))
	for name, want := range map[string]bool{"mlx5_0": false, "mlx5_1": true, "mlx5_2": false} {
		p := device(t, s, name).GetParent()
		expect(t, name+" has a NUMA node", p.NumaNode != nil, want)
	}
	expect(t, "mlx5_1's", device(t, s, "mlx5_1").GetParent().GetNumaNode(), int32(1))
}

func TestVirtualFunctionsKnowTheirPhysicalOne(t *testing.T) {
	host := newHost(t, fakehost.HCA{PCI: "0000:3b:00.0", Name: "mlx5_0", TotalVFs: 4, Nets: []fakehost.Net{
		{Name: "ens1f0np0", PhysPortName: "p0"}, {Name: "ens1f0npf0vf0", PhysPortName: "pf0vf0"}}})
	vfs, err := host.AddVFs("mlx5_0", 2)
	must(t, err)
	s := scanOf(t, host)
	for i, name := range vfs {
		p := device(t, s, name).GetParent()
		expect(t, name+" kind", p.GetFunction(), discoveryv1.FunctionKind_FUNCTION_KIND_VF)
		expect(t, name+" PF", p.GetPfAddress(), "0000:3b:00.0")
		expect(t, name+" has an index", p.VfIndex != nil, true)
		expect(t, name+" index", p.GetVfIndex(), uint32(i))
		expect(t, name+" PF nets", len(p.GetPfNetDevices()), 1)
		expect(t, name+" PF net", p.GetPfNetDevices()[0], "ens1f0np0")
	}
	pf := device(t, s, "mlx5_0")
	expect(t, "port's net", nets(pf.GetPorts()[0].GetNetDevices()), "ens1f0np0")
	expect(t, "other nets", nets(pf.GetOtherNetDevices()), "ens1f0npf0vf0")
	expect(t, "role", pf.GetOtherNetDevices()[0].GetRole(), discoveryv1.NetDeviceRole_NET_DEVICE_ROLE_REPRESENTOR)
}

func TestFunctionOneLevelUp(t *testing.T) {
	s := scanOf(t, newHost(t,
		fakehost.HCA{PCI: "0000:00:02.0", Name: "roce0", Virtio: "virtio1", Driver: "virtio-pci", Nets: fakehost.Nets("eth0")},
		hca(1),
		fakehost.HCA{PCI: "0000:3b:00.1", Name: "mlx5_4", Index: 4, Aux: "mlx5_core.sf.2", Nets: fakehost.Nets("ens1f0s88")},
		fakehost.HCA{PCI: "0000:3b:00.1", Name: "mlx5_5", Index: 5, Aux: "mlx5_core.sf.3", Nets: []fakehost.Net{}},
	))
	virtio := device(t, s, "roce0")
	expect(t, "virtio's function", virtio.GetParent().GetPciAddress(), "0000:00:02.0")
	expect(t, "virtio's bus", virtio.GetParent().GetBus(), discoveryv1.Bus_BUS_PCI)
	expect(t, "virtio's driver", virtio.GetParent().GetDriver(), "virtio-pci")
	expect(t, "virtio's net", nets(virtio.GetPorts()[0].GetNetDevices()), "eth0")
	sf := device(t, s, "mlx5_4")
	expect(t, "R37: SF's bus", sf.GetParent().GetBus(), discoveryv1.Bus_BUS_AUXILIARY)
	expect(t, "SF's name", sf.GetParent().GetAuxiliaryName(), "mlx5_core.sf.2")
	expect(t, "SF's kind", sf.GetParent().GetFunction(), discoveryv1.FunctionKind_FUNCTION_KIND_SF)
	expect(t, "SF's PF", sf.GetParent().GetPfAddress(), "0000:3b:00.1")
	expect(t, "SF's net", nets(sf.GetPorts()[0].GetNetDevices()), "ens1f0s88")
	expect(t, "net of an SF without one", nets(device(t, s, "mlx5_5").GetPorts()[0].GetNetDevices()), "")
	expect(t, "PF's net", nets(device(t, s, "mlx5_1").GetPorts()[0].GetNetDevices()), "ens1")
}

func TestR39_BondIsThePortsToo(t *testing.T) {
	host := newHost(t, fakehost.HCA{PCI: "0000:7f:00.0", Name: "mlx5_bond_0", Ports: []fakehost.Port{{GIDNets: []string{"bond0"}}},
		Nets: []fakehost.Net{{Name: "ens1f0np0", Master: "bond0", Uppers: []string{"ens1f0np0.7"}}}},
		fakehost.HCA{PCI: "0000:7f:00.1", Index: 1, Nets: []fakehost.Net{{Name: "ens1f1np1", Master: "bond0"}}})
	must(t, host.AddNet(fakehost.Net{Name: "bond0", Uppers: []string{"bond0.100"}}))
	s := scanOf(t, host)
	list := device(t, s, "mlx5_bond_0").GetPorts()[0].GetNetDevices()
	expect(t, "nets", nets(list), "bond0 ens1f0np0")
	expect(t, "bond0's role", list[0].GetRole(), discoveryv1.NetDeviceRole_NET_DEVICE_ROLE_BOND)
	expect(t, "the member's master", list[1].GetMaster(), "bond0")
	expect(t, "the member's uppers", len(list[1].GetUppers()), 2)
	expect(t, "bond0's upper", list[0].GetUppers()[0], "bond0.100")
	expect(t, "the other function", codes(device(t, s, "0000:7f:00.1").GetReasons()), "NO_RDMA_DEVICE")
}

func TestRecordedKernelRelease(t *testing.T) {
	host, err := fakehost.New(t.TempDir(), fakehost.KernelRelease("6.12.0-test"))
	must(t, err)
	expect(t, "recorded", scanOf(t, host).GetNode().GetKernelRelease(), "6.12.0-test")
	expect(t, "not recorded", scanOf(t, newHost(t)).GetNode().GetKernelRelease(), "")
}

func TestPlainFilesAreDevicesInARecordedTree(t *testing.T) {
	host, err := fakehost.New(t.TempDir(), fakehost.PlainFiles())
	must(t, err)
	must(t, host.Add(hca(0)))
	d := device(t, scanOf(t, host), "mlx5_0")
	expect(t, "files", files(d), "uverbs0 umad0:1 issm0:1 rdma_cm")
	expect(t, "reasons", codes(d.GetReasons()), "")
	expect(t, "major", d.GetCharDevices()[0].GetMajor(), uint32(0))
}

func TestEqualStatesHaveEqualBytes(t *testing.T) {
	host, err := fakehost.GPUNode8(t.TempDir())
	must(t, err)
	marshal := func(s *discoveryv1.Snapshot) string {
		b, err := proto.MarshalOptions{Deterministic: true}.Marshal(s)
		must(t, err)
		return string(b)
	}
	scanner := newScanner(t, host.Root())
	first := marshal(scan(t, scanner))
	for range 20 {
		if marshal(scan(t, scanner)) != first || marshal(scanOf(t, host)) != first {
			t.Fatal("two scans of one state differ")
		}
	}
}
