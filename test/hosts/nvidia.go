// Hosts with adapters of Mellanox and NVIDIA.
//
// SPDX-License-Identifier: Apache-2.0

package hosts

import "github.com/rdma-relay/rdma-relay/test/fakehost"

func nvidia() []Host {
	return []Host{
		{
			Name:  "connectx4-lx-roce",
			About: "Two RoCE ports, each a function; one without a cable. The host of the report that this project began with (R1).",
			Facts: []string{
				"https://github.com/Mellanox/k8s-rdma-shared-dev-plugin/issues/48 (the resource rdma/mlnx_shared of one HCA)",
				"linux drivers/net/ethernet/mellanox/mlx5/core/main.c (15b3:1015 is ConnectX-4 Lx)",
			},
			kind: "connectx4-lx",
		},
		{
			Name:  "connectx7-ib-h100",
			About: "Six ConnectX-7 with InfiniBand; the fabric is used without IPoIB, so that there is no network device.",
			Facts: []string{
				"https://github.com/k8snetworkplumbingwg/sriov-network-operator/issues/784 (PCI addresses, class 0207, 15b3:1021, subsystem 15b3:0041, NUMA nodes)",
				"https://github.com/imbue-ai/cluster-health/issues/4 (a pure InfiniBand fabric without IPoIB)",
				"https://github.com/deepseek-ai/DeepEP/issues/38 (firmware 28.39.2048)",
			},
			hcas: []fakehost.HCA{
				connectx7(0, "41", "0"), connectx7(1, "54", "0"), connectx7(2, "9d", "1"),
				connectx7(3, "c1", "1"), connectx7(4, "d3", "1"), connectx7(5, "e5", "1"),
			},
		},
		{
			Name:  "gpu-node-bond",
			About: "A GPU node with four ConnectX-7 for InfiniBand, a BlueField-3, and two storage ports in bond0, which have one RDMA device (R39).",
			Facts: []string{
				"https://github.com/stepfun-ai/StepMesh/issues/15 (names, PCI addresses, network devices, NUMA nodes)",
				"https://github.com/deepseek-ai/DeepEP/issues/137 (mlx5_bond_0's GUIDs and firmware)",
			},
			hcas: []fakehost.HCA{
				gpuIB("mlx5_0", 0, "0e", "ibs108", "0"), gpuEth("mlx5_1", 1, "1f", 0, "ens12f0np0"), gpuEth("mlx5_2", 2, "1f", 1, "ens12f1np1"),
				gpuIB("mlx5_3", 3, "47", "ibs110", "0"), gpuIB("mlx5_4", 4, "86", "ibs112", "1"), gpuIB("mlx5_7", 7, "c3", "ibs114", "1"),
				{PCI: "0000:99:00.0", Root: "pci0000:97", Bridge: "0000:97:01.0", Name: "mlx5_bond_0", Index: 8, Device: "0x101f", NUMA: "1", Firmware: "26.39.1002",
					NodeGUID: "5c25:7303:0094:212a", Ports: []fakehost.Port{{LinkLayer: fakehost.Ethernet, Rate: edr25, GIDNets: []string{"bond0"}, GIDTypes: []string{"RoCE v2"}}},
					Nets: []fakehost.Net{{Name: "ens22f0np0", PhysPortName: "p0", Master: "bond0"}}},
				{PCI: "0000:99:00.1", Root: "pci0000:97", Bridge: "0000:97:01.0", Name: fakehost.None, Device: "0x101f", NUMA: "1",
					Nets: []fakehost.Net{{Name: "ens22f1np1", PhysPortName: "p1", Master: "bond0"}}},
			},
			nets: []fakehost.Net{{Name: "bond0", MTU: "9000", Carrier: "1", Uppers: []string{"bond0.1201"}}, {Name: "bond0.1201", MTU: "9000", Carrier: "1"}},
		},
		{
			Name:  "gpu-node-two-cards-bonded",
			About: "Ten RDMA devices; bondYW has a port of two cards each, so that either keeps its RDMA device (R39). Four ports are without a cable.",
			Facts: []string{
				"https://github.com/Mellanox/k8s-rdma-shared-dev-plugin/issues/97 (RDMA and network devices, which are up)",
				"https://github.com/Mellanox/k8s-rdma-shared-dev-plugin/issues/98 (ConnectX-6, NUMA nodes)",
			},
			hcas: []fakehost.HCA{
				unplugged(rail(0, "0000:12:00.0", "ens12f0np0")), unplugged(rail(1, "0000:12:00.1", "ens12f1np1")),
				rail(2, "0000:24:00.0", "ens24np0"), rail(3, "0000:25:00.0", "ens25np0"),
				bonded(rail(4, "0000:51:00.0", "ens17f0np0")), unplugged(rail(5, "0000:51:00.1", "ens17f1np1")),
				bonded(rail(6, "0000:a1:00.0", "ens18f0np0")), unplugged(rail(7, "0000:a1:00.1", "ens18f1np1")),
				rail(8, "0000:c1:00.0", "ens30np0"), rail(9, "0000:e1:00.0", "ens31np0"),
			},
			nets: []fakehost.Net{{Name: "bondYW", MTU: "1500", Carrier: "1"}},
		},
		{
			Name:  "bluefield2",
			About: "The Arm side of a BlueField-2: one scalable function with its representor, the representor of the x86 host, and uplinks whose GID table is empty (R36, R37).",
			Facts: []string{
				"https://github.com/MrBr-github/lshca/issues/62 (p0, pf0hpf, en3f0pf0sf0, enp3s0f0s0 on mlx5_core.sf.2)",
				"https://github.com/MrBr-github/lshca/issues/45 (firmware 24.33.1048, PSID MT_0000000539)",
				"https://github.com/Mellanox/scalablefunctions/issues/2 (no GIDs on a physical function in switchdev mode)",
				"https://github.com/k8snetworkplumbingwg/sriovnet/pull/48 (0000:03:00.0/mlx5_core.sf.4/mlx5_core.eth.4)",
			},
			hcas: []fakehost.HCA{
				bluefield(0), bluefield(1),
				{PCI: "0000:03:00.0", Aux: "mlx5_core.sf.2", Name: "mlx5_2", Index: 2, NodeGUID: "0000:0000:0000:0000", Firmware: "24.33.1048",
					Ports: []fakehost.Port{roce(edr100)}, Nets: fakehost.Nets("enp3s0f0s0")},
			},
		},
		{
			Name:  "connectx6dx-switchdev",
			About: "A physical function in switchdev mode with two virtual ones: eth0, the first name in its net/, is a representor (R36).",
			Facts: []string{
				"https://github.com/Mellanox/scalablefunctions/issues/2",
				"linux drivers/infiniband/hw/mlx5/ib_rep.c (a port of the uplink's RDMA device for each representor)",
			},
			kind: "switchdev",
		},
		{
			Name:  "connectx3-vpi",
			About: "One device, port 1 InfiniBand, port 2 Ethernet (R34).",
			Facts: []string{
				"https://github.com/canonical/lxd/pull/6060 (82:00.0, 15b3:1003, NUMA node 1, ib0 on port 0, enp130s0d1 on port 1, their addresses)",
				"https://github.com/canonical/lxd/issues/3983 (umad and issm for each port)",
			},
			hcas: []fakehost.HCA{{PCI: "0000:82:00.0", Root: "pci0000:80", Bridge: "0000:80:02.0", Name: "mlx4_0", Index: 0, Device: "0x1003", SubDevice: "0x0055", Class: "0x028000",
				Driver: "mlx4_core", NUMA: "1", Firmware: "2.42.5000", NodeGUID: "0002:c903:00a0:0090", SysImageGUID: "0002:c903:00a0:0093",
				Ports: []fakehost.Port{
					{LinkLayer: fakehost.InfiniBand, Rate: fdr56, GIDs: []string{"fe80:0000:0000:0000:0002:c903:00a0:0091"}},
					down(fakehost.Port{LinkLayer: fakehost.Ethernet, Rate: "10 Gb/sec (4X SDR)", GIDs: []string{"fe80:0000:0000:0000:0202:c9ff:fea0:0091"}, GIDNets: []string{"enp130s0d1"}}),
				},
				Nets: []fakehost.Net{
					{Name: "enp130s0d1", Type: "1", DevPort: "1", Address: "00:02:c9:a0:00:91", OperState: "down", Carrier: "0"},
					{Name: "ib0", Type: "32", DevPort: "0", MTU: "2044", Address: "80:00:0a:80:fe:80:00:00:00:00:00:00:00:02:c9:03:00:a0:00:91"},
				},
			}},
		},
		{
			Name:  "multiplane-xdr",
			About: "A multi-plane adapter: smi1, with a port for each plane, has no uverbs; mlx5_0 has no issm (R33).",
			Facts: []string{"https://github.com/Mellanox/rdmamap/pull/17 (umad0..4, issm1..4, 0000:0b:00.0 with class 020700, ibs192)"},
			hcas: []fakehost.HCA{
				{PCI: "0000:0b:00.0", Name: "mlx5_0", Index: 0, Device: "0x1023", Class: "0x020700", Ports: []fakehost.Port{ib("800 Gb/sec (4X XDR)")},
					Nets: []fakehost.Net{{Name: "ibs192", Type: "32", MTU: "4092"}}, Chars: fakehost.Chars(0, "uverbs", "umad")},
				{PCI: "0000:0b:00.0", Name: "smi1", Index: 1, Ports: []fakehost.Port{ib(hdr200), ib(hdr200), ib(hdr200), ib(hdr200)}, Nets: []fakehost.Net{}, Chars: planes()},
				{PCI: "0000:03:00.0", Name: fakehost.None, Vendor: "0x15ad", Device: "0x07b0", Driver: "vmxnet3", NUMA: "-1", Nets: fakehost.Nets("ens160")},
			},
		},
		{
			Name:  "azure-hpc",
			About: "A virtual machine with a virtual InfiniBand function, whose port GUID is not the node's, and an accelerated Ethernet one (R32).",
			Facts: []string{
				"https://github.com/Azure/azhpc-diagnostics/issues/59 (mlx5_ib0, node GUID 00155dfffe34072b, port GUID 00155dfffd34072b, firmware 20.28.4000; mlx5_an0)",
				"https://github.com/Azure/azhpc-images/pull/44 (firmware and GUID of the Ethernet function)",
				"https://github.com/Mellanox/rdmamap/issues/15",
			},
			hcas: []fakehost.HCA{
				{PCI: "0101:00:00.0", Root: "pci0101:00", Name: "mlx5_ib0", Index: 0, Device: "0x101c", Class: "0x020700", NUMA: "0", Firmware: "20.28.4000",
					NodeGUID: "0015:5dff:fe34:072b", SysImageGUID: "0c42:a103:00a5:8684",
					Ports: []fakehost.Port{{LinkLayer: fakehost.InfiniBand, Rate: hdr200, State: fakehost.StateInit, GIDs: []string{"fe80:0000:0000:0000:0015:5dff:fd34:072b"}}},
					Nets:  []fakehost.Net{{Name: "ib0", Type: "32", MTU: "2044", OperState: "down", Carrier: "0", Address: "00:00:09:29:fe:80:00:00:00:00:00:00:00:15:5d:ff:fd:34:07:2b"}}},
				{PCI: "5cf8:00:02.0", Root: "pci5cf8:00", Name: "mlx5_an0", Index: 1, Device: "0x1016", NUMA: "-1", Firmware: "14.25.8102", NodeGUID: "000d:3aff:feac:5a53", SysImageGUID: "0000:0000:0000:0000",
					Ports: []fakehost.Port{roce("40 Gb/sec (4X QDR)")}, Nets: []fakehost.Net{{Name: "enP23800s1", Master: "eth0"}}},
			},
			nets: []fakehost.Net{{Name: "eth0", MTU: "1500", Carrier: "1"}},
		},
	}
}

// connectx7 is an HCA of the H100 node.
func connectx7(n int, bus, numa string) fakehost.HCA {
	return fakehost.HCA{PCI: "0000:" + bus + ":00.0", Root: "pci0000:" + bus[:1] + "0", Bridge: "0000:" + bus[:1] + "0:01.0", Name: "mlx5_" + string(rune('0'+n)), Index: n,
		Device: "0x1021", SubDevice: "0x0041", Class: "0x020700", NUMA: numa, Firmware: "28.39.2048", NodeGUID: "58a2:e103:002a:0" + bus + "8",
		Ports: []fakehost.Port{ib(ndr400)}, Nets: []fakehost.Net{}}
}

// gpuIB and gpuEth are HCAs of the GPU node.
func gpuIB(name string, index int, bus, net, numa string) fakehost.HCA {
	return fakehost.HCA{PCI: "0000:" + bus + ":00.0", Root: "pci0000:" + bus[:1] + "5", Bridge: "0000:" + bus[:1] + "5:01.0", Name: name, Index: index,
		Device: "0x1021", SubDevice: "0x0041", Class: "0x020700", NUMA: numa, Firmware: "28.39.1002", NodeGUID: "5c25:7303:00" + bus + ":0001",
		Ports: []fakehost.Port{down(ib("10 Gb/sec (4X SDR)"))}, Nets: []fakehost.Net{{Name: net, Type: "32", MTU: "4092", OperState: "down", Carrier: "0"}}}
}

func gpuEth(name string, index int, bus string, fn int, net string) fakehost.HCA {
	suffix := string(rune('0' + fn))
	return fakehost.HCA{PCI: "0000:" + bus + ":00." + suffix, Root: "pci0000:15", Bridge: "0000:15:01.0", Name: name, Index: index,
		Device: "0xa2dc", NUMA: "0", Firmware: "32.39.3804", NodeGUID: "c470:bd03:0072:0de" + suffix,
		Ports: []fakehost.Port{roce(hdr200)}, Nets: []fakehost.Net{{Name: net, PhysPortName: "p" + suffix}}}
}

// rail is a port of the node with ten; those from the sixth on are on NUMA node 1.
func rail(n int, pci, net string) fakehost.HCA {
	digit, bus := string(rune('0'+n)), pci[5:7]
	return fakehost.HCA{PCI: pci, Root: "pci0000:" + bus[:1] + "0", Bridge: "0000:" + bus[:1] + "0:01.0", Name: "mlx5_" + digit, Index: n, Device: "0x101b", NUMA: string(rune('0' + n/6)),
		Firmware: "20.35.1012", NodeGUID: "1070:fd03:0092:a4c" + digit, Ports: []fakehost.Port{roce(hdr200)}, Nets: []fakehost.Net{{Name: net}}}
}

func unplugged(hca fakehost.HCA) fakehost.HCA {
	hca.Ports[0] = down(hca.Ports[0])
	hca.Nets[0].OperState, hca.Nets[0].Carrier = "down", "0"
	return hca
}

func bonded(hca fakehost.HCA) fakehost.HCA {
	hca.Ports[0].GIDNets, hca.Ports[0].GIDTypes = []string{"bondYW"}, []string{"RoCE v2"}
	hca.Nets[0].Master = "bondYW"
	return hca
}

// bluefield is one of the two physical functions of the BlueField-2.
func bluefield(fn int) fakehost.HCA {
	n := string(rune('0' + fn))
	const switchID = "5ad8170003a1420c"
	hca := fakehost.HCA{PCI: "0000:03:00." + n, Name: "mlx5_" + n, Index: fn, Device: "0xa2d6", SubDevice: "0x0082", NUMA: "-1", Firmware: "24.33.1048",
		NodeGUID: "0c42:a103:0017:d85" + n, SysImageGUID: "0c42:a103:0017:d850",
		Ports: []fakehost.Port{{LinkLayer: fakehost.Ethernet, Rate: edr100, GIDs: []string{"0000:0000:0000:0000:0000:0000:0000:0000"}, GIDNets: []string{fakehost.None}}},
		Nets:  []fakehost.Net{{Name: "p" + n, PhysPortName: "p" + n, PhysSwitchID: switchID}, {Name: "pf" + n + "hpf", PhysPortName: "pf" + n, PhysSwitchID: switchID}}}
	if fn == 0 {
		hca.Nets = append(hca.Nets, fakehost.Net{Name: "en3f0pf0sf0", PhysPortName: "pf0sf0", PhysSwitchID: switchID})
	}
	return hca
}

// planes are the files of smi1.
func planes() (chars []fakehost.Char) {
	for port := 1; port <= 4; port++ {
		chars = append(chars, fakehost.Char{Kind: "umad", Index: port, Port: port}, fakehost.Char{Kind: "issm", Index: port, Port: port})
	}
	return chars
}
