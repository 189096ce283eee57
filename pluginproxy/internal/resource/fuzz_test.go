// Fuzz test of the whole step: any snapshot with any good configuration.
//
// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/config"
	v1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

// fuzzConfigs cover every key that Build looks at.
var fuzzConfigs = []string{
	pool(""), pool(`,"health":"active","recoverAfter":"5s"`), perDevice, exclusive,
	`{"resourceName":"a","rdmaHcaMax":2,"cdi":true,"selectors":{"functions":["pf","vf","sf","virtual"]},"exclude":{"ifNames":["ens1"]}},` +
		`{"resourceName":"b","sharing":"exclusive","selectors":{"pfNames":["ens0#0-3"],"numaNodes":[0]}},` +
		`{"resourceName":"c","rdmaHcaMax":40,"sharing":"perDevice","charDevices":["umad"],"selectors":{"nodeGUIDs":["0c42a10300c60000"],"rdmaDevices":["mlx5_0"]}}`,
}

func FuzzBuild(f *testing.F) {
	huge := hca(3, func(d *v1.Device) {
		d.Name, d.Parent.VendorId = strings.Repeat("x", 1<<12), strings.Repeat("y", 1<<12)
		d.Ports = append(d.Ports, nil, &v1.Port{}, &v1.Port{Number: 1 << 31, NetDevices: []*v1.NetDevice{nil, {}}})
		d.CharDevices = append(d.CharDevices, &v1.CharDevice{}, &v1.CharDevice{Kind: 77, Path: "/dev/infiniband/../mem"})
		d.Reasons = []*v1.Reason{{Code: 99, Message: strings.Repeat("z", 1<<12)}, {}}
	})
	huge.Ports[1] = &v1.Port{}
	huge.Ports[3].NetDevices[0] = &v1.NetDevice{}
	for i, snap := range []*v1.Snapshot{
		{}, snapshot(everyFunction()...), inCDI(hca(0), hca(1), rxe("rxe0", "ens1")), {Node: &v1.Node{Cdi: &v1.Cdi{Problem: "full"}}, Devices: []*v1.Device{hca(0)}}, snapshot(hca(0), hca(0), hca(1)), snapshot(huge, &v1.Device{}, &v1.Device{Parent: &v1.Parent{}}),
		{Node: &v1.Node{NetnsMode: 2, Reasons: []*v1.Reason{{}}}, Devices: []*v1.Device{hca(0, numa(-5)), hca(1, numa(1<<30))}},
	} {
		data, err := proto.Marshal(snap)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, uint8(i), "0")
	}
	f.Fuzz(func(t *testing.T, data []byte, which uint8, id string) {
		snap := &v1.Snapshot{}
		if proto.Unmarshal(data, snap) != nil {
			return
		}
		before := proto.Clone(snap)
		cfg := conf(t, fuzzConfigs[int(which)%len(fuzzConfigs)])
		rs := Build(cfg, snap, Options{Now: time.Unix(1, 0)})
		rs = Build(cfg, snap, Options{Now: time.Unix(2, 0), Previous: append(rs, nil)})
		for _, r := range rs {
			check(t, r, len(snap.GetDevices()))
			_, _ = r.Allocate([]string{id})
			_ = r.Preferred([]string{id, "0"}, []string{id}, 2)
		}
		if !proto.Equal(before, snap) {
			t.Errorf("the snapshot was changed: %s", protojson.Format(snap))
		}
	})
}

// check holds what kubelet and people are promised of every result.
func check(t *testing.T, r *Resource, devices int) {
	t.Helper()
	list := &pluginapi.ListAndWatchResponse{Devices: r.Devices}
	if data, err := proto.Marshal(list); err != nil || len(data) > config.MaxListBytes {
		t.Errorf("list of %d bytes, %v", len(data), err)
	}
	if len(r.HCAs)+len(r.LeftOut) > devices {
		t.Errorf("%d devices and %d left out of %d", len(r.HCAs), len(r.LeftOut), devices)
	}
	for _, text := range append([]string{""}, r.Hints...) {
		if len(text) > 1000 {
			t.Errorf("hint of %d bytes", len(text))
		}
	}
	for _, l := range r.LeftOut {
		if len(l.Device)+len(l.Rule) > 10000 {
			t.Errorf("left out with %d bytes", len(l.Device)+len(l.Rule))
		}
	}
	seen := map[string]bool{}
	for i, d := range r.Devices {
		if len(d.ID) > config.MaxIDBytes || d.ID == "" || seen[d.ID] {
			t.Fatalf("ID %q", d.ID)
		}
		seen[d.ID] = true
		if i%1000 != 0 {
			continue
		}
		answer, err := r.Allocate([]string{d.ID})
		if err != nil && r.cfg.CDI && d.Health != pluginapi.Healthy {
			continue // it has no CDI name
		}
		if err != nil {
			t.Fatalf("listed and refused: %v", err)
		}
		if len(answer.Devices)+len(answer.CdiDevices) == 0 {
			t.Errorf("%s gives nothing", d.ID)
		}
		if _, err := proto.Marshal(answer); err != nil {
			t.Errorf("answer for %s: %v", d.ID, err)
		}
		for _, f := range answer.Devices {
			if name, ok := strings.CutPrefix(f.HostPath, "/dev/infiniband/"); !ok || strings.ContainsAny(name, "/\x00 ") {
				t.Errorf("path %q", f.HostPath)
			}
		}
	}
}

func TestTextsThatAreNoUTF8HarmNothing(t *testing.T) {
	// They can't come over gRPC; a caller in this process could make them.
	bad := "a\xff"
	r := build(t, pool(""), hca(0), hca(1, func(d *v1.Device) { d.Name = bad }), hca(2, func(d *v1.Device) { d.Parent.PciAddress = bad }),
		hca(3, func(d *v1.Device) { d.CharDevices[0].Path = "/dev/infiniband/" + bad }), hca(4, func(d *v1.Device) { d.Parent.VendorId = bad }))
	wantHCAs(t, r, "mlx5_0")
	check(t, r, 5)
}

func TestASnapshotOfTooManyDevicesIsBounded(t *testing.T) {
	devices := make([]*v1.Device, maxDevices+100)
	for i := range devices {
		devices[i] = hca(i)
	}
	r := build(t, pool(""), devices...)
	if n := len(r.HCAs) + len(r.LeftOut); n != maxDevices {
		t.Errorf("%d devices looked at", n)
	}
}
