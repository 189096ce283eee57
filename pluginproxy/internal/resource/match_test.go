// Tests of selectors: who is taken, who is left out and by which rule.
//
// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	v1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

// selecting is an entry with these selectors.
func selecting(selectors string) string {
	return `{"resourceName":"hca","rdmaHcaMax":1,"selectors":{` + selectors + `}}`
}

func TestR34_APortOfEitherLinkLayerMatches(t *testing.T) {
	vpi := func(first, second v1.LinkLayer, netdevs ...string) *v1.Device {
		return hca(0, func(d *v1.Device) {
			d.Name = "mlx4_0"
			d.Ports = []*v1.Port{port(first, v1.PortState_PORT_STATE_ACTIVE, netdevs...), port(second, v1.PortState_PORT_STATE_ACTIVE)}
			d.Ports[1].Number = 2
		})
	}
	ib, eth := v1.LinkLayer_LINK_LAYER_INFINIBAND, v1.LinkLayer_LINK_LAYER_ETHERNET
	infiniband, ether := selecting(`"linkTypes":["infiniband"]`), selecting(`"linkTypes":["ether"]`)
	for _, netdevs := range [][]string{nil, {"ens0"}} {
		card := vpi(ib, eth, netdevs...)
		wantHCAs(t, build(t, infiniband, card), "mlx4_0")
		wantHCAs(t, build(t, ether, card), "mlx4_0")
		flipped := vpi(eth, eth, netdevs...)
		r := build(t, infiniband, flipped)
		wantHCAs(t, r)
		wantLeftOut(t, r, "mlx4_0", "linkTypes: ether is not one of infiniband")
		wantHCAs(t, build(t, ether, flipped), "mlx4_0")
	}
}

func TestR38_VirtualDevicesMatchByInterfaceAndNeverByPCI(t *testing.T) {
	dev := rxe("rxe0", "d0")
	wantHCAs(t, build(t, selecting(`"ifNames":["d0"]`), dev), "rxe0")
	wantHCAs(t, build(t, selecting(`"functions":["virtual"],"linkTypes":["ether"]`), dev), "rxe0")
	wantHCAs(t, build(t, selecting(`"rdmaDevices":["rxe0"]`), dev), "rxe0")
	// Not even where the stream says more than can be true.
	liar := hca(0, func(d *v1.Device) { d.Parent.Bus = v1.Bus_BUS_NONE; d.Name = "rxe1" })
	for _, key := range []string{`"vendors":["15b3"]`, `"deviceIDs":["1017"]`, `"drivers":["mlx5_core"]`, `"pciAddresses":["0000:3b:00.0"]`, `"numaNodes":[0]`} {
		r := build(t, selecting(key), dev, liar)
		wantHCAs(t, r)
		for _, name := range []string{"rxe0", "rxe1"} {
			wantLeftOut(t, r, name, ": nothing is not one of ")
		}
	}
}

func TestR39_ABondIsNamedByItselfItsMemberOrWhatIsStackedOnIt(t *testing.T) {
	bond := hca(0, func(d *v1.Device) {
		d.Name = "mlx5_bond_0"
		d.Ports[0].NetDevices = []*v1.NetDevice{
			{Name: "bond0", LinkType: "ether", Role: v1.NetDeviceRole_NET_DEVICE_ROLE_BOND, Uppers: []string{"bond0.100"}},
			{Name: "ens1f0np0", LinkType: "ether", Role: v1.NetDeviceRole_NET_DEVICE_ROLE_UPLINK, Master: "bond0", Uppers: []string{"bond0.100"}},
		}
	})
	second := hca(1, reason(v1.ReasonCode_REASON_CODE_NO_RDMA_DEVICE, "no RDMA device"), func(d *v1.Device) {
		d.Name, d.Ports, d.CharDevices = "", nil, nil
		d.OtherNetDevices = []*v1.NetDevice{{Name: "ens1f1np1", LinkType: "ether", Role: v1.NetDeviceRole_NET_DEVICE_ROLE_UPLINK}}
	})
	for _, name := range []string{"bond0", "ens1f0np0", "bond0.100"} {
		wantHCAs(t, build(t, selecting(`"ifNames":["`+name+`"]`), bond, second), "mlx5_bond_0")
	}
	r := build(t, selecting(`"ifNames":["ens1f1np1"]`), bond, second)
	wantHCAs(t, r)
	wantLeftOut(t, r, "0000:3c:00.0", "unusable: no RDMA device")
	wantLeftOut(t, r, "mlx5_bond_0", "ifNames: bond0, bond0.100, ens1f0np0 is not one of ens1f1np1")
}

func TestR32_AnIPoIBInterfaceSelectsItsDevice(t *testing.T) {
	ipoib := hca(0, func(d *v1.Device) {
		d.NodeGuid = "0015:5dff:fe34:0283" // the port's, which ib0 has, is another
		d.Ports = []*v1.Port{port(v1.LinkLayer_LINK_LAYER_INFINIBAND, v1.PortState_PORT_STATE_ACTIVE, "ib0")}
		d.Ports[0].NetDevices[0].LinkType = "infiniband"
	})
	wantHCAs(t, build(t, selecting(`"ifNames":["ib0"],"linkTypes":["infiniband"]`), ipoib, hca(1)), "mlx5_0")
}

func TestR36_AnUplinkInSwitchdevModeCanBeExcluded(t *testing.T) {
	uplink := hca(0, func(d *v1.Device) {
		d.OtherNetDevices = []*v1.NetDevice{{Name: "eth0", LinkType: "ether", Role: v1.NetDeviceRole_NET_DEVICE_ROLE_REPRESENTOR}}
	})
	vf := hca(1, func(d *v1.Device) {
		d.Parent.DeviceId, d.Parent.Function, d.Parent.PfNetDevices = "1018", v1.FunctionKind_FUNCTION_KIND_VF, []string{"ens0"}
	})
	wantHCAs(t, build(t, pool(""), uplink, vf), "mlx5_0", "mlx5_1")
	for _, selectors := range []string{`"deviceIDs":["1018"]`, `"functions":["vf"]`, `"pfNames":["ens0"]`} {
		wantHCAs(t, build(t, selecting(selectors), uplink, vf), "mlx5_1")
	}
	wantHCAs(t, build(t, pool(`,"exclude":{"deviceIDs":["1017"]}`), uplink, vf), "mlx5_1")
}

func TestR37_AScalableFunctionIsSelectedApartFromItsParent(t *testing.T) {
	sf := hca(1, func(d *v1.Device) {
		d.Parent.Bus, d.Parent.Function = v1.Bus_BUS_AUXILIARY, v1.FunctionKind_FUNCTION_KIND_SF
		d.Parent.PciAddress, d.Parent.AuxiliaryName, d.Parent.PfNetDevices = "0000:3b:00.0", "mlx5_core.sf.2", []string{"ens0"}
		d.Ports[0].NetDevices[0].Name = "enp3s0f0s88"
	})
	for _, selectors := range []string{`"ifNames":["enp3s0f0s88"]`, `"pciAddresses":["0000:3b:00.0"],"functions":["sf"]`, `"pfNames":["ens0"]`} {
		wantHCAs(t, build(t, selecting(selectors), hca(0), sf), "mlx5_1")
	}
	wantHCAs(t, build(t, selecting(`"ifNames":["ens0"]`), hca(0), sf), "mlx5_0")
	wantHCAs(t, build(t, pool(""), hca(0), sf), "mlx5_0", "mlx5_1") // by the parent's vendor
}

func TestARepresentorNamesNoDevice(t *testing.T) {
	pf := hca(0, func(d *v1.Device) {
		d.OtherNetDevices = []*v1.NetDevice{{Name: "pf0vf0", LinkType: "ether", Role: v1.NetDeviceRole_NET_DEVICE_ROLE_REPRESENTOR}}
	})
	r := build(t, selecting(`"ifNames":["pf0vf0"]`), pf)
	wantHCAs(t, r)
	wantHint(t, r, "pf0vf0")
}

// hosts has one of each kind of function.
func everyFunction() []*v1.Device {
	below := func(kind v1.FunctionKind) func(*v1.Device) {
		return func(d *v1.Device) {
			d.Parent.Function, d.Parent.PfAddress, d.Parent.PfNetDevices = kind, "0000:3b:00.0", []string{"ens0"}
		}
	}
	vf := func(index uint32) func(*v1.Device) {
		return func(d *v1.Device) { d.Parent.VfIndex = &index; d.Parent.DeviceId = "1018" }
	}
	return []*v1.Device{
		hca(0), hca(1, numa(1)),
		hca(2, below(v1.FunctionKind_FUNCTION_KIND_VF), vf(0)),
		hca(3, below(v1.FunctionKind_FUNCTION_KIND_VF), vf(3)),
		hca(4, below(v1.FunctionKind_FUNCTION_KIND_SF), func(d *v1.Device) {
			d.Parent.Bus, d.Parent.PciAddress, d.Parent.AuxiliaryName = v1.Bus_BUS_AUXILIARY, "0000:3b:00.0", "mlx5_core.sf.2"
		}),
		rxe("rxe0", "eth0"),
	}
}

func TestSelectorsOrInsideAKeyAndBetweenKeys(t *testing.T) {
	for selectors, want := range map[string]string{
		`"vendors":["15b3","8086"]`:                                              "mlx5_0 mlx5_1 mlx5_2 mlx5_3 mlx5_4",
		`"deviceIDs":["1018"]`:                                                   "mlx5_2 mlx5_3",
		`"drivers":["mlx5_core"],"functions":["pf"]`:                             "mlx5_0 mlx5_1",
		`"functions":["vf","sf"]`:                                                "mlx5_2 mlx5_3 mlx5_4",
		`"functions":["virtual"]`:                                                "rxe0",
		`"ifNames":["ens0","ens1","eth0"]`:                                       "mlx5_0 mlx5_1 rxe0",
		`"ifNames":["ens0","ens1"],"numaNodes":[1]`:                              "mlx5_1",
		`"numaNodes":[0]`:                                                        "mlx5_0 mlx5_2 mlx5_3 mlx5_4",
		`"rdmaDevices":["mlx5_1","rxe0"]`:                                        "mlx5_1 rxe0",
		`"pciAddresses":["3b:00.0"]`:                                             "mlx5_0 mlx5_4",
		`"pciAddresses":["3b:00.0"],"functions":["pf"]`:                          "mlx5_0",
		`"pfNames":["ens0"]`:                                                     "mlx5_2 mlx5_3 mlx5_4",
		`"pfNames":["ens0#0-2"]`:                                                 "mlx5_2",
		`"pfNames":["ens0#1,3"]`:                                                 "mlx5_3",
		`"pfNames":["ens0#1-2","ens0#0"]`:                                        "mlx5_2",
		`"pfNames":["ens1"]`:                                                     "",
		`"nodeGUIDs":["0C42A10300C60001"]`:                                       "mlx5_1",
		`"vendors":["8086"]`:                                                     "",
		`"linkTypes":["infiniband"]`:                                             "",
		`"ifNames":["ens9"],"rdmaDevices":["mlx5_0"]`:                            "",
		`"vendors":["15b3"]},"exclude":{"functions":["vf"]`:                      "mlx5_0 mlx5_1 mlx5_4",
		`"vendors":["15b3"]},"exclude":{"functions":["vf"],"pfNames":["ens0#3"]`: "mlx5_0 mlx5_1 mlx5_2 mlx5_4",
		`"vendors":["15b3"]},"exclude":{"vendors":[]`:                            "mlx5_0 mlx5_1 mlx5_2 mlx5_3 mlx5_4",
	} {
		r := build(t, selecting(selectors), everyFunction()...)
		var got []string
		for _, h := range r.HCAs {
			got = append(got, h.Name)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s takes %q, want %q", selectors, got, want)
		}
		if len(r.HCAs)+len(r.LeftOut) != 6 {
			t.Errorf("%s: %d taken and %d left out of 6", selectors, len(r.HCAs), len(r.LeftOut))
		}
	}
}

func TestTheFirstRuleThatTurnsADeviceAwayIsTold(t *testing.T) {
	for selectors, want := range map[string]string{
		`"vendors":["8086"],"ifNames":["ens9"]`:                             "vendors: 15b3 is not one of 8086",
		`"vendors":["15b3"],"ifNames":["ens9","b"]`:                         "ifNames: ens0 is not one of b, ens9",
		`"pfNames":["ens7#0-3"]`:                                            "pfNames: nothing is not one of ens7#0-3",
		`"numaNodes":[1,2]`:                                                 "numaNodes: 0 is not one of 1, 2",
		`"vendors":["15b3"]},"exclude":{"ifNames":["ens0"],"numaNodes":[0]`: "exclude: matches its ifNames and numaNodes",
	} {
		wantLeftOut(t, build(t, selecting(selectors), hca(0)), "mlx5_0", want)
	}
}

func TestR47_OverlapIsAllowedAndReported(t *testing.T) {
	cfg := conf(t, `{"resourceName":"a","rdmaHcaMax":1,"selectors":{"vendors":["15b3"]}}`,
		`{"resourceName":"b","rdmaHcaMax":1,"selectors":{"ifNames":["ens0"]}}`)
	rs := Build(cfg, snapshot(hca(0), hca(1)), Options{})
	wantHCAs(t, rs[0], "mlx5_0", "mlx5_1")
	wantHCAs(t, rs[1], "mlx5_0")
	for i, other := range []string{"rdma/b", "rdma/a"} {
		wantHint(t, rs[i], "1 device shared with "+other)
		if got := fmt.Sprint(rs[i].Shared); got != "[{mlx5_0 [rdma/a rdma/b]}]" {
			t.Errorf("shared: %s", got)
		}
	}
}

func TestR47_WhatIsExclusiveBelongsToTheFirst(t *testing.T) {
	x := `{"resourceName":"x","sharing":"exclusive","selectors":{"rdmaDevices":["mlx5_0","mlx5_1"]}}`
	y := `{"resourceName":"y","sharing":"exclusive","selectors":{"rdmaDevices":["mlx5_1","mlx5_2"]}}`
	p := `{"resourceName":"p","rdmaHcaMax":1,"selectors":{"vendors":["15b3"]}}`
	devices := []*v1.Device{hca(0), hca(1), hca(2), hca(3)}

	rs := Build(conf(t, x, y, p), snapshot(devices...), Options{})
	wantHCAs(t, rs[0], "mlx5_0", "mlx5_1")
	wantHCAs(t, rs[1], "mlx5_2")
	wantHCAs(t, rs[2], "mlx5_3")
	wantLeftOut(t, rs[1], "mlx5_1", "sharing: rdma/x has it exclusively")
	wantLeftOut(t, rs[2], "mlx5_2", "sharing: rdma/y has it exclusively")
	wantTaken(t, rs[0], "[]")
	wantTaken(t, rs[1], "[{mlx5_1 rdma/x}]")
	wantHint(t, rs[1], "rdma/x has 1 device selected here, and stands first in the file; this resource is exclusive")
	wantTaken(t, rs[2], "[{mlx5_0 rdma/x} {mlx5_1 rdma/x} {mlx5_2 rdma/y}]")
	wantHint(t, rs[2], "rdma/x has 2 devices selected here, exclusively")
	wantHint(t, rs[2], "rdma/y has 1 device selected here, exclusively")

	rs = Build(conf(t, p, x), snapshot(devices...), Options{})
	wantHCAs(t, rs[0], "mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3")
	wantHCAs(t, rs[1])
	wantLeftOut(t, rs[1], "mlx5_0", "sharing: rdma/p has it already, so it can't be exclusive")
	wantHint(t, rs[1], "rdma/p has 2 devices selected here, and stands first in the file; this resource is exclusive")
	if len(rs[1].Hints) != 1 {
		t.Errorf("hints %q", rs[1].Hints)
	}

	// A device that can't be used for a moment stays with its owner: one that takes
	// over would share it with pods that run.
	devices[0] = hca(0, reason(v1.ReasonCode_REASON_CODE_DRIVER_UNBOUND, "unbound"))
	rs = Build(conf(t, x, p), snapshot(devices...), Options{})
	wantLeftOut(t, rs[0], "mlx5_0", "unusable: unbound")
	wantLeftOut(t, rs[1], "mlx5_0", "sharing: rdma/x has it exclusively")
}

func wantTaken(t *testing.T, r *Resource, want string) {
	t.Helper()
	if got := fmt.Sprint(r.Taken); got != want {
		t.Errorf("%s: taken %s, want %s", r.Name, got, want)
	}
}

func TestR57_EachInterfaceThatDoesNotExistIsNamedOnce(t *testing.T) {
	ib := func(n int, name string) *v1.Device {
		return hca(n, func(d *v1.Device) {
			d.Ports[0] = port(v1.LinkLayer_LINK_LAYER_INFINIBAND, v1.PortState_PORT_STATE_ACTIVE, name)
		})
	}
	cfg := conf(t, `{"resourceName":"a","rdmaHcaMax":2,"selectors":{"ifNames":["ib0","ib1","ib99"]}}`,
		`{"resourceName":"b","rdmaHcaMax":2,"selectors":{"ifNames":["ib99"]}}`,
		`{"resourceName":"c","rdmaHcaMax":2,"selectors":{"ifNames":["ib0"]},"exclude":{"vendors":["8086"]}}`)
	rs := Build(cfg, snapshot(ib(0, "ib0"), ib(1, "ib1")), Options{})
	wantIDs(t, rs[0], "0", "1")
	wantHCAs(t, rs[0], "mlx5_0", "mlx5_1")
	wantIDs(t, rs[1])
	for _, r := range rs[:2] {
		wantHint(t, r, "ib99")
	}
	if len(rs[1].Hints) != 1 {
		t.Errorf("hints %q", rs[1].Hints)
	}
	wantIDs(t, rs[2], "0", "1")

	rs = Build(cfg, snapshot(ib(0, "ib0"), ib(1, "ib1"), ib(2, "ib99")), Options{})
	for _, r := range rs[:2] {
		for _, h := range r.Hints {
			if strings.Contains(h, "this node has no") {
				t.Errorf("%s: the warning has not gone: %q", r.Name, h)
			}
		}
		if len(r.Devices) != 2 {
			t.Errorf("%s: %d slots", r.Name, len(r.Devices))
		}
	}
}

func TestAnEmptyResourceSaysWhy(t *testing.T) {
	down := hca(0, func(d *v1.Device) { d.Parent.NumaNode = proto.Int32(1) })
	for selectors, want := range map[string]string{
		`"linkTypes":["infiniband"]`:                "selectors.linkTypes: no device has infiniband; there are ether",
		`"vendors":["8086"],"deviceIDs":["1017"]`:   "selectors.vendors: no device has 8086; there are 15b3",
		`"functions":["vf"]`:                        "selectors.functions: no device has vf; there are pf",
		`"rdmaDevices":["mlx5_9"]`:                  "selectors.rdmaDevices: this node has no RDMA device mlx5_9",
		`"pciAddresses":["0000:00:00.0"]`:           "this node has no RDMA device at the PCI address 0000:00:00.0",
		`"nodeGUIDs":["0000000000000009"]`:          "this node has no RDMA device with the node GUID 0000:0000:0000:0009",
		`"pfNames":["ens0#0-3"]`:                    "this node has no virtual or scalable function of ens0#0-3",
		`"ifNames":["ens0"],"rdmaDevices":["rxe0"]`: "each selector fits some device, but no device fits all of them",
	} {
		r := build(t, selecting(selectors), down, rxe("rxe0", "eth0"))
		wantHint(t, r, want)
		if len(r.Hints) != 1 {
			t.Errorf("%s: hints %q", selectors, r.Hints)
		}
	}
}
