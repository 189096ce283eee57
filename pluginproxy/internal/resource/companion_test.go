// Tests of functions with more than one RDMA device.
//
// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"fmt"
	"slices"
	"testing"

	v1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

// planes is the second RDMA device of the function of hca(n): four ports, and umad
// and issm files from 11 on.
func planes(n int, changes ...func(*v1.Device)) *v1.Device {
	d := hca(n, func(d *v1.Device) {
		d.Name, d.Ports, d.CharDevices = "smi1", nil, nil
		for i := range uint32(4) {
			p := port(v1.LinkLayer_LINK_LAYER_INFINIBAND, v1.PortState_PORT_STATE_ACTIVE)
			p.Number = i + 1
			d.Ports = append(d.Ports, p)
			d.CharDevices = append(d.CharDevices,
				node(v1.CharDeviceKind_CHAR_DEVICE_KIND_UMAD, fmt.Sprintf("umad%d", 11+i)),
				node(v1.CharDeviceKind_CHAR_DEVICE_KIND_ISSM, fmt.Sprintf("issm%d", 11+i)))
		}
		d.CharDevices = append(d.CharDevices, node(v1.CharDeviceKind_CHAR_DEVICE_KIND_RDMA_CM, "rdma_cm"))
	})
	for _, change := range changes {
		change(d)
	}
	return d
}

func TestR33_EachNodeOfAFunctionIsGivenOnce(t *testing.T) {
	noUverbs := reason(v1.ReasonCode_REASON_CODE_NO_UVERBS, "There is no uverbs device.")
	withUverbs := func(d *v1.Device) {
		d.CharDevices = append(d.CharDevices, node(v1.CharDeviceKind_CHAR_DEVICE_KIND_UVERBS, "uverbs9"))
	}
	first := func(d *v1.Device) { d.Name = "aaa" }
	all := []string{"uverbs0", "rdma_cm", "umad0", "umad11", "umad12", "umad13", "umad14", "issm0", "issm11", "issm12", "issm13", "issm14"}
	for name, test := range map[string]struct {
		planes *v1.Device
		want   []string
	}{
		"without uverbs":                    {planes(0, noUverbs), all},
		"without uverbs, and first by name": {planes(0, noUverbs, first), all},
		"with uverbs":                       {planes(0, withUverbs), append([]string{"uverbs9"}, all...)},
		"unreadable":                        {planes(0, noUverbs, reason(v1.ReasonCode_REASON_CODE_UNREADABLE, "garbage")), []string{"uverbs0", "rdma_cm", "umad0", "issm0"}},
		"on another function":               {planes(7, noUverbs), []string{"uverbs0", "rdma_cm", "umad0", "issm0"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, sharing := range []string{"pool", "perDevice"} {
				r := build(t, pool(`,"sharing":"`+sharing+`"`), hca(0), test.planes)
				wantHCAs(t, r, "mlx5_0")
				if len(r.Devices) != 3 {
					t.Errorf("%s: %d slots, want rdmaHcaMax", sharing, len(r.Devices))
				}
				answer := mustAllocate(t, r, r.Devices[0].ID)
				got, want := files(answer), slices.Clone(test.want)
				slices.Sort(got)
				slices.Sort(want)
				if !slices.Equal(got, want) {
					t.Errorf("%s: a container gets %q, want %q", sharing, got, want)
				}
				if names := answer.Envs["RDMADEVICE_RDMA_HCA"]; names != "mlx5_0" {
					t.Errorf("%s: it is told of %q", sharing, names)
				}
			}
		})
	}
	r := build(t, selecting(`"rdmaDevices":["smi1"]`), hca(0), planes(0, noUverbs))
	wantHCAs(t, r)
	wantLeftOut(t, r, "smi1", "its files are given with those of mlx5_0")
	r = build(t, selecting(`"rdmaDevices":["smi1"]`), planes(0, noUverbs))
	wantLeftOut(t, r, "smi1", "There is no uverbs device.")
}
