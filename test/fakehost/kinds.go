// Hosts with each kind of RDMA hardware there is, laid out as the kernel's drivers
// do it, after public facts: drivers' sources, manuals and bug reports.
//
// SPDX-License-Identifier: Apache-2.0

package fakehost

import (
	"fmt"
	"slices"
)

// A Kind is a host with one kind of RDMA hardware.
type Kind struct {
	// Name is short and stable: connectx4-lx.
	Name string
	// About says what it is, in a few words.
	About string

	hcas []HCA
	nets []Net // without hardware
}

// Make builds the host in dir.
func (k Kind) Make(dir string, options ...Option) (*Host, error) {
	h, err := New(dir, append([]Option{KernelRelease("6.12.0")}, options...)...)
	if err != nil {
		return nil, err
	}
	for _, hca := range k.hcas {
		hca = hca.clone()
		hca.Complete = true
		if err := h.Add(hca); err != nil {
			return nil, fmt.Errorf("%s: %w", k.Name, err)
		}
	}
	for _, n := range k.nets {
		if err := h.AddNet(n); err != nil {
			return nil, fmt.Errorf("%s: %w", k.Name, err)
		}
	}
	return h, nil
}

// MakeKind builds the host of the kind with that name.
func MakeKind(dir, name string, options ...Option) (*Host, error) {
	kinds := Kinds()
	i := slices.IndexFunc(kinds, func(k Kind) bool { return k.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("there is no kind %q of host", name)
	}
	return kinds[i].Make(dir, options...)
}

// Kinds are all kinds.
func Kinds() []Kind {
	return slices.Concat(nvidiaKinds(), switchdevKinds(), otherKinds(), softKinds())
}

// roce and ib make a port of a rate.
func roce(rate string) Port { return Port{LinkLayer: Ethernet, Rate: rate} }
func ib(rate string) Port   { return Port{LinkLayer: InfiniBand, Rate: rate} }

// ports makes as many alike.
func ports(n int, port Port) []Port { return slices.Repeat([]Port{port}, n) }

// mads are the umad and issm devices of ports 1 to n, numbered from first on.
func mads(first, n int, kinds ...string) (chars []Char) {
	for port := 1; port <= n; port++ {
		for _, kind := range kinds {
			chars = append(chars, Char{Kind: kind, Index: first + port - 1, Port: port})
		}
	}
	return chars
}

func nvidiaKinds() []Kind {
	return []Kind{
		{Name: "connectx4-lx", About: "ConnectX-4 Lx, two RoCE ports, each a function of its own", hcas: []HCA{
			{PCI: "0000:3b:00.0", Root: "pci0000:3a", Bridge: "0000:3a:00.0", Name: "mlx5_0", Index: 0, Device: "0x1015", Firmware: "14.32.1010", NodeGUID: "0c42:a103:00c6:cf54",
				Ports: []Port{roce("25 Gb/sec (1X EDR)")}, Nets: []Net{{Name: "ens1f0np0", PhysPortName: "p0"}}},
			{PCI: "0000:3b:00.1", Root: "pci0000:3a", Bridge: "0000:3a:00.0", Name: "mlx5_1", Index: 1, Device: "0x1015", Firmware: "14.32.1010", NodeGUID: "0c42:a103:00c6:cf55",
				Ports: []Port{{LinkLayer: Ethernet, State: StateDown, PhysState: "3: Disabled", Rate: "25 Gb/sec (1X EDR)", GIDNets: []string{None}, GIDs: []string{None}}},
				Nets:  []Net{{Name: "ens1f1np1", PhysPortName: "p1", OperState: "down", Carrier: "0"}}},
		}},
		{Name: "connectx7-ib", About: "ConnectX-7 on InfiniBand, without IPoIB: no network device at all", hcas: []HCA{
			{PCI: "0000:18:00.0", Root: "pci0000:15", Bridge: "0000:15:01.0", Name: "ibp24s0", Index: 0, Device: "0x1021", SubDevice: "0x0041", Class: "0x020700", Firmware: "28.43.2026",
				NodeGUID: "a088:c203:0018:1000", Ports: []Port{ib("400 Gb/sec (4X NDR)")}, Nets: []Net{}},
		}},
		{Name: "multiplane", About: "a multi-plane card: a second RDMA device with the planes' management, without uverbs", hcas: []HCA{
			{PCI: "0000:3b:00.0", Name: "mlx5_0", Index: 0, Device: "0x1023", Class: "0x020700", Ports: []Port{ib("800 Gb/sec (4X XDR)")}, Nets: []Net{}},
			{PCI: "0000:3b:00.0", Name: "smi1", Index: 1, Ports: ports(4, ib("200 Gb/sec (1X XDR)")), Nets: []Net{}, Chars: mads(1, 4, "umad", "issm")},
		}},
		{Name: "bond", About: "RoCE LAG: two ports in bond0 have one RDMA device", hcas: []HCA{
			{PCI: "0000:7f:00.0", Name: "mlx5_bond_0", Index: 0, Device: "0x101d", Ports: []Port{{LinkLayer: Ethernet, Rate: "100 Gb/sec (4X EDR)", GIDNets: []string{"bond0"}, GIDTypes: []string{"RoCE v2"}}},
				Nets: []Net{{Name: "ens1f0np0", PhysPortName: "p0", Master: "bond0"}}},
			{PCI: "0000:7f:00.1", Name: None, Index: 1, Device: "0x101d", Nets: []Net{{Name: "ens1f1np1", PhysPortName: "p1", Master: "bond0"}}},
		}, nets: []Net{{Name: "bond0", MTU: "9000", Carrier: "1", Uppers: []string{"bond0.100"}}, {Name: "bond0.100", MTU: "9000", Carrier: "1"}}},
		{Name: "vpi", About: "ConnectX-3 VPI: port 1 InfiniBand, port 2 Ethernet, one device", hcas: []HCA{
			{PCI: "0000:5e:00.0", Name: "mlx4_0", Index: 0, Device: "0x1003", Class: "0x028000", Driver: "mlx4_core", NodeGUID: "0002:c903:0030:1230",
				Ports: []Port{ib("56 Gb/sec (4X FDR)"), {LinkLayer: Ethernet, Rate: "40 Gb/sec (4X QDR)", GIDNets: []string{"ens3d1"}}}, Chars: append(Chars(0, "uverbs"), mads(0, 2, "umad", "issm")...),
				Nets: []Net{{Name: "ens3d1", Type: "1", DevPort: "1"}, {Name: "ib0", Type: "32", DevPort: "0", MTU: "2044"}}},
		}},
		{Name: "ipoib-guid", About: "a virtual InfiniBand function whose port GUID is not the node's", hcas: []HCA{
			{PCI: "a1b2:00:02.0", Root: "pcia1b2:00", Name: "mlx5_0", Index: 0, Device: "0x101c", Class: "0x020700", NUMA: "-1", NodeGUID: "0015:5dff:fe34:0283",
				Ports: []Port{{LinkLayer: InfiniBand, Rate: "200 Gb/sec (4X HDR)", GIDs: []string{"fe80:0000:0000:0000:0015:5dff:fd34:0283"}}},
				Nets:  []Net{{Name: "ib0", Type: "32", MTU: "2044", Address: "00:00:01:48:fe:80:00:00:00:00:00:00:00:15:5d:ff:fd:34:02:83"}}},
		}},
	}
}

// switchdevKinds have an embedded switch whose ports the host sees: the uplink p0,
// and a representor for each function. With the switch on, the uplink's GID table is
// empty: RoCE goes through the functions.
func switchdevKinds() []Kind {
	const switchID = "54cf5400034208c8"
	uplink := Net{Name: "ens8f0np0", PhysPortName: "p0", PhysSwitchID: switchID}
	noGIDs := Port{LinkLayer: Ethernet, Rate: "100 Gb/sec (4X EDR)", GIDs: []string{"0000:0000:0000:0000:0000:0000:0000:0000"}, GIDNets: []string{None}}
	vf := func(n int) HCA {
		return HCA{PCI: fmt.Sprintf("0000:08:00.%d", n+2), PF: "0000:08:00.0", VFIndex: n, Name: fmt.Sprintf("mlx5_%d", n+2), Index: n + 2, Device: "0x101e",
			Ports: []Port{roce("100 Gb/sec (4X EDR)")}, Nets: Nets(fmt.Sprintf("ens8f0v%d", n))}
	}
	return []Kind{
		{Name: "switchdev", About: "ConnectX-6 Dx in switchdev mode: the physical function has representors of two virtual ones, and a port for each", hcas: []HCA{
			{PCI: "0000:08:00.0", Name: "mlx5_0", Index: 0, Device: "0x101d", TotalVFs: 8, Ports: ports(3, noGIDs), Chars: append(Chars(0, "uverbs"), mads(0, 1, "umad", "issm")...),
				Nets: []Net{{Name: "eth0", PhysPortName: "pf0vf0", PhysSwitchID: switchID}, {Name: "ens8f0npf0vf1", PhysPortName: "pf0vf1", PhysSwitchID: switchID}, uplink}},
			vf(0), vf(1),
		}},
		{Name: "bluefield", About: "BlueField's own host: a scalable function, its representor, and the one of the x86 host", hcas: []HCA{
			{PCI: "0000:03:00.0", Name: "mlx5_0", Index: 0, Device: "0xa2d6", Ports: []Port{noGIDs}, NUMA: "-1", Nets: []Net{
				{Name: "p0", PhysPortName: "p0", PhysSwitchID: switchID}, {Name: "pf0hpf", PhysPortName: "pf0", PhysSwitchID: switchID},
				{Name: "en3f0pf0sf88", PhysPortName: "pf0sf88", PhysSwitchID: switchID}}},
			{PCI: "0000:03:00.0", Aux: "mlx5_core.sf.2", Name: "mlx5_4", Index: 1, NodeGUID: "0000:0000:0000:0088", Ports: []Port{roce("100 Gb/sec (4X EDR)")}, Nets: Nets("enp3s0f0s88")},
		}},
	}
}

func otherKinds() []Kind {
	return []Kind{
		{Name: "efa", About: "Elastic Fabric Adapter: no network device, no MADs, no connection manager", hcas: []HCA{
			{PCI: "0000:10:1b.0", Name: "rdmap16s27", Index: 0, Vendor: "0x1d0f", Device: "0xefa1", SubDevice: "0xefa1", Driver: "efa", NUMA: "0", NodeType: "7: unspecified", Firmware: "0.0.0.0",
				NodeGUID: "0000:0000:0000:0000", Ports: []Port{{LinkLayer: "Unknown", Rate: "100 Gb/sec (4X EDR)"}}, Nets: []Net{}, Chars: Chars(0, "uverbs")},
		}},
		{Name: "irdma", About: "Intel E810 with irdma: RoCE and iWARP by configuration", hcas: []HCA{
			{PCI: "0000:18:00.0", Name: "rocep24s0f0", Index: 0, Vendor: "0x8086", Device: "0x1592", Driver: "ice", Firmware: "1.71", Ports: []Port{roce("100 Gb/sec (4X EDR)")}, Nets: Nets("ens1f0")},
			{PCI: "0000:18:00.1", Name: "iwp24s0f1", Index: 1, Vendor: "0x8086", Device: "0x1592", Driver: "ice", Firmware: "1.71", NodeType: "4: RNIC", Ports: []Port{roce("100 Gb/sec (4X EDR)")},
				Nets: Nets("ens1f1"), Chars: Chars(1, "uverbs")},
		}},
		{Name: "erdma", About: "Alibaba's erdma: PCI class 00ff, its network device on another function", hcas: []HCA{
			{PCI: "0000:00:05.0", Name: None, Vendor: "0x1af4", Device: "0x1000", Driver: "virtio-pci", Virtio: "virtio2", NUMA: "-1", Nets: Nets("eth0")},
			{PCI: "0000:00:06.0", Name: "erdma_0", Index: 0, Vendor: "0x1ded", Device: "0x107f", Class: "0x00ff00", Driver: "erdma", NUMA: "-1", NodeType: "4: RNIC",
				Ports: []Port{{LinkLayer: Ethernet, Rate: "100 Gb/sec (4X EDR)", GIDNets: []string{"eth0"}}}, Nets: []Net{}, Chars: Chars(0, "uverbs")},
		}},
		{Name: "hfi1", About: "Omni-Path: a fabric controller with IPoIB", hcas: []HCA{
			{PCI: "0000:d8:00.0", Name: "hfi1_0", Index: 0, Vendor: "0x8086", Device: "0x24f0", Class: "0x020800", Driver: "hfi1", NUMA: "1", Firmware: "1.27.0", NodeGUID: "0011:7501:0102:3f6a",
				Ports: []Port{ib("100 Gb/sec (4X EDR)")}, Nets: []Net{{Name: "ib0", Type: "32", MTU: "2044"}}},
		}},
		{Name: "mana", About: "Azure's MANA: RoCE on a function without a NUMA node, no MADs", hcas: []HCA{
			{PCI: "7870:00:00.0", Root: "pci7870:00", Name: "mana_0", Index: 0, Vendor: "0x1414", Device: "0x00ba", Driver: "mana", NUMA: "-1",
				Ports: []Port{roce("100 Gb/sec (4X EDR)")}, Nets: Nets("enP30832s1"), Chars: Chars(0, "uverbs")},
		}},
	}
}

// softKinds are RDMA devices without hardware of their own.
func softKinds() []Kind {
	rate := "2.5 Gb/sec (1X SDR)"
	return []Kind{
		{Name: "soft", About: "soft-RoCE on a PCI network device and on a dummy, siw on the first", hcas: []HCA{
			{PCI: "0000:00:03.0", Name: None, Vendor: "0x8086", Device: "0x10d3", Driver: "e1000e", NUMA: "-1", Nets: Nets("eth1")},
			{Name: "rxe0", Virtual: true, Parent: "eth1", Index: 0, NodeGUID: "5054:00ff:fe12:3401", Firmware: None, Ports: []Port{roce(rate)}, Chars: Chars(0, "uverbs", "umad")},
			{Name: "rxe1", Virtual: true, Parent: "dummy0", Index: 1, NodeGUID: "48af:ebff:feba:0256", Firmware: None, Ports: []Port{roce(rate)}, Chars: Chars(1, "uverbs", "umad")},
			{Name: "siw0", Virtual: true, Index: 2, NodeType: "4: RNIC", NodeGUID: "5054:00ff:fe12:3401", Firmware: None, Chars: Chars(2, "uverbs"),
				Ports: []Port{{LinkLayer: Ethernet, Rate: rate, GIDNets: []string{"eth1"}}}},
		}, nets: []Net{{Name: "dummy0", MTU: "1500"}}},
		{Name: "virtio", About: "an RDMA device on a virtio device: the PCI function is one level up", hcas: []HCA{
			{PCI: "0000:00:02.0", Virtio: "virtio1", Name: "roce0", Index: 0, Vendor: "0x1af4", Device: "0x1041", Driver: "virtio-pci", NUMA: "-1", Ports: []Port{roce(rate)}, Nets: Nets("eth0"), Chars: Chars(0, "uverbs", "umad")},
		}},
	}
}
