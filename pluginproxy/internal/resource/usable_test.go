// Tests of which devices can be used: the daemon's reasons and missing files.
//
// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"testing"

	v1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

func TestReasonsDecideWhatIsUsable(t *testing.T) {
	for code, usable := range map[v1.ReasonCode]bool{
		v1.ReasonCode_REASON_CODE_UNSPECIFIED:         false,
		v1.ReasonCode_REASON_CODE_NO_RDMA_DEVICE:      false,
		v1.ReasonCode_REASON_CODE_DRIVER_UNBOUND:      false,
		v1.ReasonCode_REASON_CODE_NO_UVERBS:           false,
		v1.ReasonCode_REASON_CODE_NO_RDMA_CM:          false,
		v1.ReasonCode_REASON_CODE_NO_UMAD:             true,
		v1.ReasonCode_REASON_CODE_DEVICE_FILE_MISSING: true,
		v1.ReasonCode_REASON_CODE_NOT_PERMITTED:       true,
		v1.ReasonCode_REASON_CODE_UNREADABLE:          false,
		v1.ReasonCode_REASON_CODE_NOT_ANSWERING:       true,
		v1.ReasonCode_REASON_CODE_NO_PORTS:            false,
		v1.ReasonCode_REASON_CODE_NETNS_EXCLUSIVE:     false,
		v1.ReasonCode_REASON_CODE_NO_RDMA_SUBSYSTEM:   false,
		v1.ReasonCode_REASON_CODE_TOO_MANY:            true,
		v1.ReasonCode(9999):                           false,
	} {
		r := build(t, pool(`,"health":"active"`), hca(0, reason(code, "the daemon's words")))
		if got := len(r.Devices) > 0; got != usable {
			t.Errorf("%v: usable %v", code, got)
			continue
		}
		if usable && (r.HCAs[0].Reason != "the daemon's words" || !r.HCAs[0].Healthy) {
			t.Errorf("%v: %+v", code, r.HCAs[0])
		}
		if !usable {
			wantLeftOut(t, r, "mlx5_0", "unusable: the daemon's words")
		}
	}
	wantLeftOut(t, build(t, pool(""), hca(0, reason(v1.ReasonCode_REASON_CODE_DRIVER_UNBOUND, ""))), "mlx5_0", "unusable: driver unbound")
}

func TestR41_OneBadFunctionDoesNotSpoilTheRest(t *testing.T) {
	bad := hca(1, reason(v1.ReasonCode_REASON_CODE_DRIVER_UNBOUND, "no driver is bound"), func(d *v1.Device) {
		d.Name, d.CharDevices, d.Ports, d.Parent.Driver = "", nil, nil, ""
	})
	r := build(t, pool(""), bad, hca(0), nil, &v1.Device{}, hca(2))
	wantHCAs(t, r, "mlx5_0", "mlx5_2")
	wantLeftOut(t, r, "0000:3c:00.0", "unusable: no driver is bound")
	wantHCAs(t, build(t, pool(""), hca(0), hca(1), hca(2)), "mlx5_0", "mlx5_1", "mlx5_2")
}

func TestDevicesWithoutUverbsAreUnusableWhateverIsAskedFor(t *testing.T) {
	bare := hca(0, without(v1.CharDeviceKind_CHAR_DEVICE_KIND_UVERBS), reason(v1.ReasonCode_REASON_CODE_DEVICE_FILE_MISSING, "uverbs0 is not in /dev"))
	wantLeftOut(t, build(t, pool(""), bare), "mlx5_0", "unusable: it has no uverbs file: uverbs0 is not in /dev")
	wantLeftOut(t, build(t, pool(`,"charDevices":["umad"]`), bare), "mlx5_0", "unusable: it has no uverbs file")
}

func TestDevicesWithNoneOfTheAskedFilesAreUnusable(t *testing.T) {
	noMAD := []func(*v1.Device){without(v1.CharDeviceKind_CHAR_DEVICE_KIND_UMAD), without(v1.CharDeviceKind_CHAR_DEVICE_KIND_ISSM)}
	wantLeftOut(t, build(t, pool(`,"charDevices":["umad","issm"]`), hca(0, noMAD...)), "mlx5_0", "unusable: it has none of the files [umad issm]")
	// Beside others they are left out in silence: the hardware hasn't got them.
	r := build(t, pool(""), hca(0, noMAD...))
	if got := files(mustAllocate(t, r, "0")); len(got) != 2 {
		t.Errorf("files %q", got)
	}
}

func TestR50_ExclusiveNameSpacesMakeEveryDeviceUnusable(t *testing.T) {
	said := "RDMA name spaces are exclusive; run: rdma system set netns shared"
	for name, node := range map[string]*v1.Node{
		"mode and reason": {NetnsMode: v1.NetnsMode_NETNS_MODE_EXCLUSIVE, Reasons: []*v1.Reason{{Code: v1.ReasonCode_REASON_CODE_NETNS_EXCLUSIVE, Message: said}}},
		"mode only":       {NetnsMode: v1.NetnsMode_NETNS_MODE_EXCLUSIVE},
	} {
		snap := snapshot(hca(0))
		snap.Node = node
		r := Build(conf(t, pool("")), snap, Options{})[0]
		wantIDs(t, r)
		wantLeftOut(t, r, "mlx5_0", "run: rdma system set netns shared")
		if len(r.Hints) == 0 {
			t.Errorf("%s: no hint", name)
		}
	}
}

func TestR51_ANodeWithoutRDMASaysSo(t *testing.T) {
	snap := snapshot()
	snap.Node = &v1.Node{Reasons: []*v1.Reason{{Code: v1.ReasonCode_REASON_CODE_NO_RDMA_SUBSYSTEM, Message: "the kernel has no RDMA subsystem"}}}
	r := Build(conf(t, pool("")), snap, Options{})[0]
	wantIDs(t, r)
	wantHint(t, r, "the node: the kernel has no RDMA subsystem")
	wantHint(t, r, "discoveryd sees no RDMA device on this node")
}

func TestPathsOutsideDevInfinibandAreNeverGiven(t *testing.T) {
	for _, path := range []string{"/dev/sda", "/dev/infiniband/../sda", "/dev/infiniband/", "/dev/infiniband/a/b", "uverbs0", "", "/dev/infinibandx", "/dev/infiniband/a\x00", "/dev/infiniband/a b"} {
		r := build(t, pool(""), hca(0, func(d *v1.Device) { d.CharDevices[0].Path = path }))
		wantIDs(t, r)
		wantLeftOut(t, r, "mlx5_0", "it has no uverbs file")
	}
}

func TestTwoDevicesThatCantBeToldApart(t *testing.T) {
	same := func(d *v1.Device) { d.Name = "mlx5_0" }
	r := build(t, pool(""), hca(0), hca(1, same))
	wantHCAs(t, r, "mlx5_0")
	wantLeftOut(t, r, "mlx5_0", "another device has the same name")

	one, other := rxe("rxe0", "d0"), rxe("rxe1", "d0")
	one.NodeGuid, other.NodeGuid = "0250:56ff:fe00:0001", "0250:56ff:fe00:0001"
	r = build(t, selecting(`"ifNames":["d0"]`), one, other)
	wantHCAs(t, r, "rxe0")
	wantLeftOut(t, r, "rxe1", "it can't be told from rxe0")
}
