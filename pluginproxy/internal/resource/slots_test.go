// Tests of the slots of perDevice and exclusive: IDs, health, Allocate.
//
// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/config"
	v1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

const (
	perDevice = `{"resourceName":"hca","sharing":"perDevice","rdmaHcaMax":2,"selectors":{"linkTypes":["ether"]}}`
	exclusive = `{"resourceName":"hca","sharing":"exclusive","selectors":{"linkTypes":["ether"]}}`
)

func TestSlotsBelongToTheirDevice(t *testing.T) {
	down := hca(1, state(v1.PortState_PORT_STATE_DOWN), numa(1))
	r := build(t, perDevice, hca(0), down)
	wantIDs(t, r, "0000:3b:00.0-0", "0000:3b:00.0-1", "-0000:3c:00.0-0", "-0000:3c:00.0-1")
	for i, d := range r.Devices {
		if node := d.Topology.GetNodes(); len(node) != 1 || node[0].ID != int64(i/2) {
			t.Errorf("%s: topology %v", d.ID, d.Topology)
		}
	}
	r = build(t, exclusive, hca(0), down)
	wantIDs(t, r, "0000:3b:00.0", "-0000:3c:00.0")

	// Each slot gives its one device.
	r = build(t, perDevice, hca(0), hca(1), hca(2))
	answer := mustAllocate(t, r, "0000:3c:00.0-1", "0000:3d:00.0-0", "0000:3c:00.0-0")
	if got := files(answer); !slices.Equal(got, []string{"uverbs1", "uverbs2", "rdma_cm", "umad1", "umad2", "issm1", "issm2"}) {
		t.Errorf("files %q", got)
	}
	if got := answer.Envs["PCIDEVICE_RDMA_HCA"] + " " + answer.Envs["RDMADEVICE_RDMA_HCA"]; got != "0000:3c:00.0,0000:3d:00.0 mlx5_1,mlx5_2" {
		t.Errorf("environment %q", got)
	}
}

func TestIDsFollowTheHardware(t *testing.T) {
	before := ids(build(t, perDevice, everyFunction()...))
	// After a reboot: other names, other file numbers, other order of the scan, and
	// other devices beside them.
	after := everyFunction()
	slices.Reverse(after)
	for i, d := range after {
		if d.GetParent().GetBus() != v1.Bus_BUS_NONE {
			d.Name = fmt.Sprintf("rocep%d", i)
		}
		d.CharDevices[0].Path = fmt.Sprintf("/dev/infiniband/uverbs%d", 90+i)
	}
	after = append(after, hca(99))
	var got []string
	for _, id := range ids(build(t, perDevice, after...)) {
		if slices.Contains(before, id) {
			got = append(got, id)
		}
	}
	slices.Sort(got)
	want := slices.Sorted(slices.Values(before))
	if !slices.Equal(got, want) {
		t.Errorf("IDs after  %q\nIDs before %q", got, want)
	}
	for _, id := range before {
		if len(id) > config.MaxIDBytes {
			t.Errorf("ID %q is too long", id)
		}
	}
}

func TestADeviceThatComesBackHasItsIDsBack(t *testing.T) {
	all := ids(build(t, perDevice, hca(0), hca(1)))
	gone := build(t, perDevice, hca(0))
	wantIDs(t, gone, all[:2]...)
	_, err := gone.Allocate([]string{all[2]})
	wantCode(t, err, codes.FailedPrecondition, "rdma/hca", all[2], "its RDMA device is not there now")
	wantIDs(t, build(t, perDevice, hca(0), hca(1)), all...)
}

func TestAllocateRefusesIDsThatAreNotOfTheResource(t *testing.T) {
	for _, id := range []string{"0", "0000:3b:00.0", "0000:3b:00.0-2", "0000:3b:00.0-01", "-0", "", strings.Repeat("0", 64) + "-0"} {
		_, err := build(t, perDevice, hca(0)).Allocate([]string{id})
		wantCode(t, err, codes.NotFound, "rdma/hca")
	}
	_, err := build(t, exclusive, hca(0)).Allocate([]string{""})
	wantCode(t, err, codes.NotFound, "rdma/hca")
	_, err = build(t, exclusive, hca(0)).Allocate([]string{"0000:3c:00.0"})
	wantCode(t, err, codes.FailedPrecondition, "rdma/hca")
}

func TestAVirtualDeviceIsNamedByItsGUID(t *testing.T) {
	guid := func(d *v1.Device) { d.NodeGuid = "0250:56ff:fe00:0001" }
	first, second := rxe("rxe0", "eth0"), rxe("rxe1", "eth0.7")
	guid(first)
	wantIDs(t, build(t, exclusive, first, second), "guid-0250-56ff-fe00-0001", "name-rxe1")
	// Two of one MAC address: the second would be taken for the first.
	guid(second)
	r := build(t, exclusive, second, first)
	wantHCAs(t, r, "rxe0")
	wantLeftOut(t, r, "rxe1", "it can't be told from rxe0")
}

func TestTheListOfManyDevicesStaysReadable(t *testing.T) {
	entry := `{"resourceName":"hca","sharing":"perDevice","rdmaHcaMax":10000,"selectors":{"vendors":["15b3"]}}`
	var devices []*v1.Device
	for i := range 20 {
		devices = append(devices, hca(i))
	}
	r := build(t, entry, devices...)
	size := proto.Size(&pluginapi.ListAndWatchResponse{Devices: r.Devices})
	if size > config.MaxListBytes || len(r.HCAs) < 8 || len(r.HCAs)+len(r.LeftOut) != 20 {
		t.Errorf("%d devices of 20 make %d bytes", len(r.HCAs), size)
	}
	wantLeftOut(t, r, r.LeftOut[0].Device, "the list would be bigger than kubelet reads")
}

func TestPermissionsAreTheConfigured(t *testing.T) {
	for _, d := range mustAllocate(t, build(t, pool(`,"permissions":"rwm"`), hca(0)), "0").Devices {
		if d.Permissions != "rwm" {
			t.Errorf("%+v", d)
		}
	}
}
