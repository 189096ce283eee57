// How the hosts are used, and what public reports ask of that.
//
// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"slices"
	"testing"
)

// configs are typical configurations for the hosts.
var configs = map[string][]entry{
	"connectx4-lx-roce": {pool("mlnx_shared", "vendors", "15b3"), pool("first", "ifNames", "ens1f0np0"), pool("by_id", "deviceIDs", "1015"), pool("fabric", "linkTypes", "infiniband")},
	"connectx7-ib-h100": {pool("fabric", "linkTypes", "infiniband"), pool("roce", "linkTypes", "ether"), pool("near", "rdmaDevices", "mlx5_0", "mlx5_1"),
		{ResourceName: "each", RdmaHcaMax: 1, Sharing: "exclusive", Selectors: map[string]any{"deviceIDs": []string{"1021"}}}},
	"gpu-node-bond": {pool("fabric", "linkTypes", "infiniband"), pool("storage", "ifNames", "bond0"), pool("member", "ifNames", "ens22f0np0"), pool("other_member", "ifNames", "ens22f1np1"),
		pool("vlan", "ifNames", "bond0.1201"), pool("dpu", "deviceIDs", "a2dc")},
	"gpu-node-two-cards-bonded": {pool("rails", "ifNames", "ens24np0", "ens25np0", "ens30np0", "ens31np0"), pool("bond", "ifNames", "bondYW"), pool("member", "ifNames", "ens17f0np0"),
		{ResourceName: "active", RdmaHcaMax: 1, Sharing: "perDevice", Health: "active", Selectors: map[string]any{"drivers": []string{"mlx5_core"}}}},
	"bluefield2": {pool("sf", "ifNames", "enp3s0f0s0"), pool("uplink", "ifNames", "p0"), pool("representor", "ifNames", "en3f0pf0sf0"), pool("host_representor", "ifNames", "pf0hpf"),
		{ResourceName: "functions", RdmaHcaMax: 2, Selectors: map[string]any{"vendors": []string{"15b3"}, "functions": []string{"sf"}}}},
	"connectx6dx-switchdev": {pool("vfs", "deviceIDs", "101e"), pool("uplink", "ifNames", "ens8f0np0"), pool("representor", "ifNames", "eth0"), pool("of_pf", "pfNames", "ens8f0np0#0"),
		{ResourceName: "not_pf", RdmaHcaMax: 2, Selectors: map[string]any{"vendors": []string{"15b3"}}, Exclude: map[string]any{"deviceIDs": []string{"101d"}}}},
	"connectx3-vpi":  {pool("fabric", "linkTypes", "infiniband"), pool("roce", "linkTypes", "ether"), pool("by_driver", "drivers", "mlx4_core"), pool("by_ib0", "ifNames", "ib0")},
	"multiplane-xdr": {pool("all", "vendors", "15b3"), pool("by_net", "ifNames", "ibs192"), pool("planes", "rdmaDevices", "smi1"), {ResourceName: "mads", RdmaHcaMax: 2, CharDevices: []string{"umad", "issm"}, Selectors: map[string]any{"vendors": []string{"15b3"}}}},
	"azure-hpc":      {pool("fabric", "ifNames", "ib0"), pool("accelerated", "ifNames", "eth0"), pool("by_guid", "nodeGUIDs", "0015:5dff:fe34:072b"), pool("roce", "linkTypes", "ether")},
	"efa": {pool("efa", "vendors", "1d0f"), pool("by_driver", "drivers", "efa"), pool("roce", "linkTypes", "ether"),
		{ResourceName: "verbs_only", RdmaHcaMax: 2, CharDevices: []string{"uverbs"}, Selectors: map[string]any{"drivers": []string{"efa"}}}},
	"e810-irdma": {pool("intel", "vendors", "8086"), pool("by_driver", "drivers", "ice"), pool("iwarp", "ifNames", "ens1f1"), pool("roce", "linkTypes", "ether")},
	"erdma":      {pool("erdma", "vendors", "1ded"), pool("by_net", "ifNames", "eth0"), pool("roce", "linkTypes", "ether")},
	"omni-path":  {pool("opa", "drivers", "hfi1"), pool("fabric", "linkTypes", "infiniband"), pool("by_net", "ifNames", "ibp134s0")},
	"mana":       {pool("mana", "drivers", "mana"), pool("by_net", "ifNames", "enP30832s1")},
	"rxe-6.12":   {pool("soft", "functions", "virtual"), pool("by_net", "ifNames", "eth1"), each("rdmaDevices", "rxe0", "rxe1")},
}

// reports are what a pod must get of a host's resource, whatever else changes.
var reports = []struct {
	report, host, resource string
	// gets are the RDMA devices and the files; empty: there are no slots.
	gets string
}{
	{"R32", "azure-hpc", "fabric", "mlx5_ib0: uverbs0 rdma_cm umad0 issm0"},
	{"R33", "multiplane-xdr", "all", "mlx5_0: uverbs0 rdma_cm umad0 umad1 umad2 umad3 umad4 issm1 issm2 issm3 issm4"},
	{"R33", "connectx3-vpi", "by_driver", "mlx4_0: uverbs0 rdma_cm umad0 umad1 issm0 issm1"},
	{"R34", "connectx3-vpi", "fabric", "mlx4_0: uverbs0 rdma_cm umad0 umad1 issm0 issm1"},
	{"R34", "connectx3-vpi", "roce", "mlx4_0: uverbs0 rdma_cm umad0 umad1 issm0 issm1"},
	{"R36", "connectx6dx-switchdev", "not_pf", "mlx5_2,mlx5_3: uverbs2 uverbs3 rdma_cm umad2 umad3 issm2 issm3"},
	{"R36", "connectx6dx-switchdev", "uplink", "mlx5_0: uverbs0 rdma_cm umad0 issm0"},
	{"R36", "connectx6dx-switchdev", "representor", ""},
	{"R37", "bluefield2", "sf", "mlx5_2: uverbs2 rdma_cm umad2 issm2"},
	{"R37", "bluefield2", "functions", "mlx5_2: uverbs2 rdma_cm umad2 issm2"},
	{"R37", "bluefield2", "uplink", "mlx5_0: uverbs0 rdma_cm umad0 issm0"},
	{"R39", "gpu-node-bond", "storage", "mlx5_bond_0: uverbs8 rdma_cm umad8 issm8"},
	{"R39", "gpu-node-bond", "member", "mlx5_bond_0: uverbs8 rdma_cm umad8 issm8"},
	{"R39", "gpu-node-bond", "vlan", "mlx5_bond_0: uverbs8 rdma_cm umad8 issm8"},
	{"R39", "gpu-node-bond", "other_member", ""},
	{"R39", "gpu-node-two-cards-bonded", "bond", "mlx5_4,mlx5_6: uverbs4 uverbs6 rdma_cm umad4 umad6 issm4 issm6"},
	{"R39", "gpu-node-two-cards-bonded", "member", "mlx5_4: uverbs4 rdma_cm umad4 issm4"},
}

func TestReportsAreAboutHostsAndResources(t *testing.T) {
	for _, r := range reports {
		if !slices.ContainsFunc(configs[r.host], func(e entry) bool { return e.ResourceName == r.resource }) {
			t.Errorf("%s: no resource %s on %s", r.report, r.resource, r.host)
		}
	}
}
