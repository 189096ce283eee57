// Tests of the peer's way: a pool of devices, shared by slots.
//
// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"slices"
	"testing"

	"google.golang.org/grpc/codes"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	v1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

func TestR24_WithoutRdmaCmThereIsNothingAndAReason(t *testing.T) {
	said := "/dev/infiniband/rdma_cm is missing; load the kernel module rdma_ucm"
	bare := hca(0, without(v1.CharDeviceKind_CHAR_DEVICE_KIND_RDMA_CM), reason(v1.ReasonCode_REASON_CODE_NO_RDMA_CM, said))
	r := build(t, pool(""), bare)
	wantIDs(t, r)
	wantLeftOut(t, r, "mlx5_0", "unusable: "+said)
	wantHint(t, r, said)
	_, err := r.Allocate([]string{"0"})
	wantCode(t, err, codes.FailedPrecondition)

	// Without the daemon's reason the missing file alone is enough.
	wantLeftOut(t, build(t, pool(""), hca(0, without(v1.CharDeviceKind_CHAR_DEVICE_KIND_RDMA_CM))), "mlx5_0", "unusable: "+said)
	// It appears: everything is there.
	wantIDs(t, build(t, pool(""), hca(0)), "0", "1", "2")
	// It isn't asked for: it isn't missed.
	r = build(t, pool(`,"charDevices":["uverbs"]`), bare)
	wantIDs(t, r, "0", "1", "2")
	if got := files(mustAllocate(t, r, "0")); !slices.Equal(got, []string{"uverbs0"}) {
		t.Errorf("files %q", got)
	}
}

func TestR43_PortStateCountsByPolicy(t *testing.T) {
	down, active := state(v1.PortState_PORT_STATE_DOWN), state(v1.PortState_PORT_STATE_ACTIVE)
	for _, tc := range []struct {
		name, health  string
		first, second func(*v1.Device)
		want          []string
		healthy       []bool
	}{
		{"present: both down", "present", down, down, []string{"0", "1", "2"}, []bool{true, true}},
		{"active: one down", "active", down, active, []string{"0", "1", "2"}, []bool{false, true}},
		{"active: both down", "active", down, down, []string{"-0", "-1", "-2"}, []bool{false, false}},
		{"active: both up", "active", active, active, []string{"0", "1", "2"}, []bool{true, true}},
		{"active: init is not active", "active", state(v1.PortState_PORT_STATE_INIT), state(v1.PortState_PORT_STATE_ARMED), []string{"-0", "-1", "-2"}, []bool{false, false}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := build(t, pool(`,"health":"`+tc.health+`"`), hca(0, tc.first), hca(1, tc.second))
			wantIDs(t, r, tc.want...)
			for i, h := range r.HCAs {
				if h.Healthy != tc.healthy[i] {
					t.Errorf("%s healthy: %v (%s)", h.Name, h.Healthy, h.Reason)
				}
			}
			// One that is down may come back while the pod lives: it is given too.
			if n := len(mustAllocate(t, r, "0").Devices); n != 7 {
				t.Errorf("%d files", n)
			}
		})
	}
	r := build(t, pool(`,"health":"active"`), hca(0, down))
	if got := r.HCAs[0].Reason; got != "no port is ACTIVE (port 1: DOWN)" {
		t.Errorf("reason %q", got)
	}
	wantHint(t, r, "all devices are unhealthy; mlx5_0: no port is ACTIVE")
}

func TestCarrierIsBelievedOnEthernetOnly(t *testing.T) {
	no, yes := false, true
	carrier := func(layer v1.LinkLayer, c *bool) func(*v1.Device) {
		return func(d *v1.Device) {
			d.Ports[0].LinkLayer, d.Ports[0].NetDevices[0].Carrier = layer, c
		}
	}
	for name, tc := range map[string]struct {
		layer   v1.LinkLayer
		carrier *bool
		healthy bool
	}{
		"RoCE without carrier":             {v1.LinkLayer_LINK_LAYER_ETHERNET, &no, false},
		"RoCE with carrier":                {v1.LinkLayer_LINK_LAYER_ETHERNET, &yes, true},
		"RoCE, carrier unknown":            {v1.LinkLayer_LINK_LAYER_ETHERNET, nil, true},
		"InfiniBand, IPoIB has no carrier": {v1.LinkLayer_LINK_LAYER_INFINIBAND, &no, true},
	} {
		r := build(t, pool(`,"health":"active"`), hca(0, carrier(tc.layer, tc.carrier)))
		if r.HCAs[0].Healthy != tc.healthy {
			t.Errorf("%s: healthy %v (%s)", name, r.HCAs[0].Healthy, r.HCAs[0].Reason)
		}
	}
}

func TestR44_TheCountIsTheSharingLimit(t *testing.T) {
	entry := `{"resourceName":"hca","rdmaHcaMax":8,"selectors":{"vendors":["15b3"]}}`
	for hcas, slots := range map[int]int{0: 0, 1: 8, 8: 8} {
		var devices []*v1.Device
		for i := range hcas {
			devices = append(devices, hca(i))
		}
		r := build(t, entry, devices...)
		if len(r.Devices) != slots || len(r.HCAs) != hcas {
			t.Errorf("%d HCAs: %d slots, %d HCAs told", hcas, len(r.Devices), len(r.HCAs))
		}
	}
}

func TestR45_APodGetsTheFilesOfItsPoolOnly(t *testing.T) {
	a := `{"resourceName":"a","rdmaHcaMax":4,"selectors":{"rdmaDevices":["mlx5_1"]}}`
	b := `{"resourceName":"b","rdmaHcaMax":4,"selectors":{"rdmaDevices":["mlx5_2","mlx5_3"]}}`
	rs := Build(conf(t, a, b), snapshot(hca(0), hca(1), hca(2), hca(3)), Options{})
	wantA := []string{"uverbs1", "rdma_cm", "umad1", "issm1"}
	wantB := []string{"uverbs2", "uverbs3", "rdma_cm", "umad2", "umad3", "issm2", "issm3"}
	if got := files(mustAllocate(t, rs[0], "0")); !slices.Equal(got, wantA) {
		t.Errorf("pool a gives %q", got)
	}
	for _, request := range [][]string{{"3"}, {"0", "1", "2"}} {
		answer := mustAllocate(t, rs[1], request...)
		if got := files(answer); !slices.Equal(got, wantB) {
			t.Errorf("pool b gives %q for %q", got, request)
		}
		for _, d := range answer.Devices {
			if d.HostPath != d.ContainerPath || d.Permissions != "rw" {
				t.Errorf("%+v", d)
			}
		}
	}
}

func TestContainersLearnWhatTheyGot(t *testing.T) {
	entry := `{"resourceName":"hca-a","resourcePrefix":"example.com","rdmaHcaMax":1,"selectors":{"ifNames":["ens1","ens0","d0"]}}`
	r := build(t, entry, hca(1), hca(0), rxe("rxe0", "d0"))
	want := map[string]string{
		"PCIDEVICE_EXAMPLE_COM_HCA_A":  "0000:3b:00.0,0000:3c:00.0",
		"RDMADEVICE_EXAMPLE_COM_HCA_A": "mlx5_0,mlx5_1,rxe0",
	}
	got := mustAllocate(t, r, "0").Envs
	if len(got) != len(want) {
		t.Errorf("variables %v", got)
	}
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s=%s, want %s", name, got[name], value)
		}
	}
}

func TestR46_AllocateRefusesWhatItCantGive(t *testing.T) {
	r := build(t, pool(""), hca(0))
	for _, tc := range []struct {
		ids  []string
		code codes.Code
		say  string
	}{
		{[]string{"999999"}, codes.NotFound, `"999999"`},
		{[]string{"3"}, codes.NotFound, `"3"`},
		{[]string{"00"}, codes.NotFound, `"00"`},
		{[]string{"-1"}, codes.NotFound, `"-1"`},
		{[]string{"+1"}, codes.NotFound, `"+1"`},
		{[]string{""}, codes.NotFound, `""`},
		{[]string{"0", "x"}, codes.NotFound, `"x"`},
		{[]string{"99999999999999999999999"}, codes.NotFound, "9999"},
		{[]string{"0", "0"}, codes.InvalidArgument, `"0" stands twice`},
		{[]string{}, codes.InvalidArgument, "no device ID"},
		{nil, codes.InvalidArgument, "no device ID"},
	} {
		answer, err := r.Allocate(tc.ids)
		if answer != nil {
			t.Errorf("Allocate %q answers %v", tc.ids, answer)
		}
		wantCode(t, err, tc.code, "rdma/hca", tc.say)
	}
	mustAllocate(t, r, "0", "1", "2")

	_, err := build(t, pool("")).Allocate([]string{"0"})
	wantCode(t, err, codes.FailedPrecondition, "rdma/hca", `"0"`, "no RDMA device is there now")
	_, err = build(t, `{"resourceName":"hca","rdmaHcaMax":0,"selectors":{"vendors":["15b3"]}}`, hca(0)).Allocate([]string{"0"})
	wantCode(t, err, codes.NotFound, "rdma/hca")
}

func TestR52_NUMAHintsOnlyWhereTheyAreTrue(t *testing.T) {
	unknown := func(d *v1.Device) { d.Parent.NumaNode = nil }
	node := func(n int64) *int64 { return &n }
	for name, tc := range map[string]struct {
		keys    string
		devices []*v1.Device
		want    *int64
	}{
		"node 0":              {"", []*v1.Device{hca(0, numa(0))}, node(0)},
		"both on node 1":      {"", []*v1.Device{hca(0, numa(1)), hca(1, numa(1))}, node(1)},
		"unknown":             {"", []*v1.Device{hca(0, unknown)}, nil},
		"minus one":           {"", []*v1.Device{hca(0, numa(-1))}, nil},
		"no real node":        {"", []*v1.Device{hca(0, numa(1024))}, nil},
		"pool over two nodes": {"", []*v1.Device{hca(0, numa(0)), hca(1, numa(1))}, nil},
		"one of two unknown":  {"", []*v1.Device{hca(0, numa(0)), hca(1, unknown)}, nil},
		"switched off":        {`,"topologyHints":false`, []*v1.Device{hca(0, numa(0))}, nil},
		"virtual": {`,"exclude":{"functions":["pf"]}`, []*v1.Device{hca(0, func(d *v1.Device) {
			d.Parent.Function = v1.FunctionKind_FUNCTION_KIND_VF
		})}, node(0)},
	} {
		r := build(t, pool(tc.keys), tc.devices...)
		if len(r.Devices) != 3 {
			t.Errorf("%s: %d slots", name, len(r.Devices))
		}
		for _, d := range r.Devices {
			var got []*pluginapi.NUMANode
			if d.Topology != nil {
				got = d.Topology.Nodes
			}
			switch {
			case tc.want == nil && d.Topology != nil:
				t.Errorf("%s: topology %v", name, d.Topology)
			case tc.want != nil && (len(got) != 1 || got[0].ID != *tc.want):
				t.Errorf("%s: topology %v, want node %d", name, d.Topology, *tc.want)
			}
		}
	}
}

func TestStaleMakesAllUnhealthyAndTakesNothingAway(t *testing.T) {
	r := Build(conf(t, pool("")), snapshot(hca(0)), Options{Stale: true})[0]
	wantIDs(t, r, "-0", "-1", "-2")
	wantHint(t, r, "nothing was heard of discoveryd")
	if r.HCAs[0].Healthy || r.HCAs[0].Reason == "" {
		t.Errorf("%+v", r.HCAs[0])
	}
	mustAllocate(t, r, "0")
}

func TestListsThatHaveNotChangedAreShared(t *testing.T) {
	cfg := conf(t, pool(""), `{"resourceName":"b","rdmaHcaMax":3,"selectors":{"ifNames":["ens0"]}}`,
		`{"resourceName":"c","sharing":"perDevice","rdmaHcaMax":2,"selectors":{"ifNames":["ens1"]}}`)
	first := Build(cfg, snapshot(hca(0), hca(1)), Options{})
	if &first[0].Devices[0] != &first[1].Devices[0] {
		t.Error("two pools with the same list have two")
	}
	second := Build(cfg, snapshot(hca(0), hca(1), hca(2)), Options{Previous: first})
	for i := range second {
		if &first[i].Devices[0] != &second[i].Devices[0] {
			t.Errorf("%s: an equal list was made anew", second[i].Name)
		}
	}
	third := Build(cfg, snapshot(hca(0, numa(1)), hca(1, state(v1.PortState_PORT_STATE_DOWN))), Options{Previous: second})
	wantIDs(t, third[2], "-0000:3c:00.0-0", "-0000:3c:00.0-1")
	if third[1].Devices[0].Topology.Nodes[0].ID != 1 {
		t.Error("a list with another NUMA node was taken from before")
	}
}

func TestAPoolThatIsSwitchedOffSaysSo(t *testing.T) {
	r := build(t, `{"resourceName":"hca","rdmaHcaMax":0,"selectors":{"vendors":["15b3"]}}`, hca(0))
	wantIDs(t, r)
	wantHCAs(t, r, "mlx5_0")
	wantHint(t, r, "switched off")
}
