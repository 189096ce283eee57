// Snapshots, configurations and checks for this room's tests.
//
// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/config"
	v1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

// hca is a healthy RoCE device mlx5_<n> at 0000:<3b+n>:00.0 with the network
// device ens<n>, all files, NUMA node 0; the changes are made to it.
func hca(n int, changes ...func(*v1.Device)) *v1.Device {
	d := &v1.Device{
		Name:     fmt.Sprintf("mlx5_%d", n),
		NodeGuid: fmt.Sprintf("0c42:a103:00c6:%04x", n),
		Parent: &v1.Parent{
			Bus: v1.Bus_BUS_PCI, PciAddress: fmt.Sprintf("%04x:%02x:00.0", n>>8, (0x3b+n)&0xff),
			VendorId: "15b3", DeviceId: "1017", Driver: "mlx5_core", NumaNode: proto.Int32(0),
			Function: v1.FunctionKind_FUNCTION_KIND_PF,
		},
		Ports: []*v1.Port{port(v1.LinkLayer_LINK_LAYER_ETHERNET, v1.PortState_PORT_STATE_ACTIVE, fmt.Sprintf("ens%d", n))},
		CharDevices: []*v1.CharDevice{
			node(v1.CharDeviceKind_CHAR_DEVICE_KIND_UVERBS, fmt.Sprintf("uverbs%d", n)),
			node(v1.CharDeviceKind_CHAR_DEVICE_KIND_UMAD, fmt.Sprintf("umad%d", n)),
			node(v1.CharDeviceKind_CHAR_DEVICE_KIND_ISSM, fmt.Sprintf("issm%d", n)),
			node(v1.CharDeviceKind_CHAR_DEVICE_KIND_RDMA_CM, "rdma_cm"),
		},
	}
	for _, change := range changes {
		change(d)
	}
	return d
}

// rxe is a virtual device without a parent device.
func rxe(name, netdev string) *v1.Device {
	return hca(0, func(d *v1.Device) {
		d.Name, d.NodeGuid = name, ""
		d.Parent = &v1.Parent{Bus: v1.Bus_BUS_NONE, Function: v1.FunctionKind_FUNCTION_KIND_VIRTUAL}
		d.Ports[0].NetDevices[0].Name = netdev
	})
}

func port(layer v1.LinkLayer, state v1.PortState, netdevs ...string) *v1.Port {
	p := &v1.Port{Number: 1, LinkLayer: layer, State: state}
	for _, n := range netdevs {
		p.NetDevices = append(p.NetDevices, &v1.NetDevice{Name: n, LinkType: "ether", Role: v1.NetDeviceRole_NET_DEVICE_ROLE_UPLINK})
	}
	return p
}

func node(kind v1.CharDeviceKind, name string) *v1.CharDevice {
	return &v1.CharDevice{Kind: kind, Path: "/dev/infiniband/" + name}
}

func numa(n int32) func(*v1.Device) {
	return func(d *v1.Device) { d.Parent.NumaNode = &n }
}

func state(s v1.PortState) func(*v1.Device) {
	return func(d *v1.Device) { d.Ports[0].State = s }
}

func reason(code v1.ReasonCode, message string) func(*v1.Device) {
	return func(d *v1.Device) { d.Reasons = append(d.Reasons, &v1.Reason{Code: code, Message: message}) }
}

// without takes a kind of file away.
func without(kind v1.CharDeviceKind) func(*v1.Device) {
	return func(d *v1.Device) {
		d.CharDevices = slices.DeleteFunc(d.CharDevices, func(c *v1.CharDevice) bool { return c.GetKind() == kind })
	}
}

func snapshot(devices ...*v1.Device) *v1.Snapshot { return &v1.Snapshot{Devices: devices} }

// conf parses entries of configList.
func conf(t testing.TB, entries ...string) *config.Config {
	t.Helper()
	cfg, err := config.Parse([]byte(`{"configList":[`+strings.Join(entries, ",")+`]}`), "test")
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// pool is an entry that takes every Mellanox device, with other keys.
func pool(keys string) string {
	return `{"resourceName":"hca","rdmaHcaMax":3,"selectors":{"vendors":["15b3"]}` + keys + `}`
}

// build gives the only resource.
func build(t testing.TB, entry string, devices ...*v1.Device) *Resource {
	t.Helper()
	return Build(conf(t, entry), snapshot(devices...), Options{})[0]
}

// ids are the list's IDs; those of unhealthy slots have a minus before them.
func ids(r *Resource) []string {
	var out []string
	for _, d := range r.Devices {
		sign := ""
		if d.Health != pluginapi.Healthy {
			sign = "-"
		}
		out = append(out, sign+d.ID)
	}
	return out
}

func wantIDs(t *testing.T, r *Resource, want ...string) {
	t.Helper()
	if got := ids(r); !slices.Equal(got, want) {
		t.Errorf("%s: slots %q, want %q; left out %v, hints %q", r.Name, got, want, r.LeftOut, r.Hints)
	}
}

// wantHCAs wants the names of the HCAs.
func wantHCAs(t *testing.T, r *Resource, want ...string) {
	t.Helper()
	var got []string
	for _, h := range r.HCAs {
		got = append(got, h.Name)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s: HCAs %q, want %q; left out %v", r.Name, got, want, r.LeftOut)
	}
}

// wantLeftOut wants one device left out for the reason.
func wantLeftOut(t *testing.T, r *Resource, device, rule string) {
	t.Helper()
	for _, l := range r.LeftOut {
		if l.Device == device {
			if !strings.Contains(l.Rule, rule) {
				t.Errorf("%s left out by %q, want %q", device, l.Rule, rule)
			}
			return
		}
	}
	t.Errorf("%s is not left out: %v", device, r.LeftOut)
}

// wantHint wants exactly one hint that holds the text.
func wantHint(t *testing.T, r *Resource, text string) {
	t.Helper()
	n := 0
	for _, h := range r.Hints {
		if strings.Contains(h, text) {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d hints with %q in %q", n, text, r.Hints)
	}
}

func mustAllocate(t *testing.T, r *Resource, ids ...string) *pluginapi.ContainerAllocateResponse {
	t.Helper()
	answer, err := r.Allocate(ids)
	if err != nil {
		t.Fatalf("Allocate %q: %v", ids, err)
	}
	return answer
}

// files are the paths that a container gets.
func files(answer *pluginapi.ContainerAllocateResponse) []string {
	var out []string
	for _, d := range answer.Devices {
		out = append(out, strings.TrimPrefix(d.ContainerPath, "/dev/infiniband/"))
	}
	return out
}

func wantCode(t *testing.T, err error, code codes.Code, parts ...string) {
	t.Helper()
	if status.Code(err) != code {
		t.Errorf("error %v, want code %v", err, code)
	}
	for _, part := range parts {
		if !strings.Contains(fmt.Sprint(err), part) {
			t.Errorf("error %v lacks %q", err, part)
		}
	}
}
