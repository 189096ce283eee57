// Hosts with adapters of other makers, and of clouds.
//
// SPDX-License-Identifier: Apache-2.0

package hosts

import "github.com/rdma-relay/rdma-relay/test/fakehost"

func others() []Host {
	return []Host{
		{
			Name:  "efa",
			About: "AWS's Elastic Fabric Adapter: link layer unknown, no network device, no MADs, no connection manager.",
			Facts: []string{
				"https://github.com/linux-rdma/rdma-core/pull/884 (1d0f:efa0, link_layer Unknown, transport unspecified, GUIDs zero, firmware 0.0.0.0)",
				"https://github.com/amzn/amzn-drivers/issues/114 (rate 100, nothing but ib_uverbs)",
			},
			hcas: []fakehost.HCA{
				{PCI: "0000:00:07.0", Name: "efa_0", Index: 0, Vendor: "0x1d0f", Device: "0xefa0", SubDevice: "0xefa0", Driver: "efa", NodeType: "7: unspecified", Firmware: "0.0.0.0",
					NodeGUID: "0000:0000:0000:0000", Ports: []fakehost.Port{{LinkLayer: "Unknown", Rate: edr100, GIDs: []string{"fe80:0000:0000:0000:100b:f5ff:fe02:e2b0"}}},
					Nets: []fakehost.Net{}, Chars: fakehost.Chars(0, "uverbs")},
				{PCI: "0000:00:05.0", Name: fakehost.None, Vendor: "0x1d0f", Device: "0xec20", Driver: "ena", Nets: fakehost.Nets("ens5")},
			},
		},
		{
			Name:  "e810-irdma",
			About: "Intel E810: the RDMA device is on the PCI function though irdma binds to an auxiliary one; RoCE on the first port, iWARP on the second.",
			Facts: []string{"linux drivers/infiniband/hw/irdma (verbs.c: dev.parent; node type CA with RoCE, RNIC with iWARP)", "linux drivers/net/ethernet/intel/ice/ice_devids.h (8086:1592)"},
			kind:  "irdma",
		},
		{
			Name:  "erdma",
			About: "Alibaba's elastic RDMA: PCI class 00ff, and its network device is on another function.",
			Facts: []string{
				"the README of the out-of-tree erdma driver (1ded:107f)", "linux drivers/infiniband/hw/erdma/erdma_main.c (netdev found by MAC address, node type RNIC)",
				"https://github.com/open3fs/m3fs/pull/33",
			},
			kind: "erdma",
		},
		{
			Name:  "omni-path",
			About: "Omni-Path: a fabric controller (class 0208) with InfiniBand's link layer and IPoIB.",
			Facts: []string{
				"https://github.com/prometheus/node_exporter/issues/2023 (hfi1_0, one port, its files)",
				"https://github.com/cornelisnetworks/opa-psm2/issues/43 (named opap134s0 by udev; port GUID 0011750901841a24)",
			},
			hcas: []fakehost.HCA{{PCI: "0000:86:00.0", Root: "pci0000:85", Bridge: "0000:85:00.0", Name: "opap134s0", Index: 0, Vendor: "0x8086", Device: "0x24f0", Class: "0x020800", Driver: "hfi1",
				NUMA: "1", Firmware: "1.27.0", NodeGUID: "0011:7509:0184:1a24", Ports: []fakehost.Port{ib(edr100)}, Nets: []fakehost.Net{{Name: "ibp134s0", Type: "32", MTU: "2044"}}}},
		},
		{
			Name:  "mana",
			About: "Azure's MANA: no MADs, no NUMA node.",
			Facts: []string{"linux drivers/infiniband/hw/mana (node type CA, no MADs)", "linux drivers/net/ethernet/microsoft/mana (1414:00ba)"},
			kind:  "mana",
		},
	}
}
