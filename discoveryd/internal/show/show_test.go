// What people and programs read.
//
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"sigs.k8s.io/yaml"

	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

func sample() *discoveryv1.Snapshot {
	net := func(names ...string) (list []*discoveryv1.NetDevice) {
		for _, name := range names {
			list = append(list, &discoveryv1.NetDevice{Name: name})
		}
		return list
	}
	chars := []*discoveryv1.CharDevice{{Path: "/dev/infiniband/uverbs0"}, {Path: "/dev/infiniband/rdma_cm"}}
	return &discoveryv1.Snapshot{
		InstanceId: "x", Generation: 7,
		Node: &discoveryv1.Node{Reasons: []*discoveryv1.Reason{{Code: discoveryv1.ReasonCode_REASON_CODE_NETNS_EXCLUSIVE, Message: "Exclusive."}}},
		Devices: []*discoveryv1.Device{
			{Parent: &discoveryv1.Parent{PciAddress: "0000:5f:00.0", VendorId: "8086", DeviceId: "15bb", Driver: "e1000e"}, OtherNetDevices: net("eno1"),
				Reasons: []*discoveryv1.Reason{{Code: discoveryv1.ReasonCode_REASON_CODE_NO_RDMA_DEVICE, Message: "None."}}},
			{Name: "mlx4_0", NodeGuid: "a:b", FirmwareVersion: "2.42", CharDevices: chars, Parent: &discoveryv1.Parent{
				PciAddress: "0000:3b:00.1", VendorId: "15b3", DeviceId: "1007", Driver: "mlx4_core", NumaNode: new(int32(1)),
				Function: discoveryv1.FunctionKind_FUNCTION_KIND_VF, PfAddress: "0000:3b:00.0", VfIndex: new(uint32(0))},
				Ports: []*discoveryv1.Port{
					{Number: 1, LinkLayer: discoveryv1.LinkLayer_LINK_LAYER_INFINIBAND, State: discoveryv1.PortState_PORT_STATE_ACTIVE,
						PhysState: discoveryv1.PhysState_PHYS_STATE_LINK_UP, Rate: "56 Gb/sec (4X FDR)", NetDevices: net("ib0", "ib1")},
					{Number: 2, LinkLayer: discoveryv1.LinkLayer_LINK_LAYER_ETHERNET, State: discoveryv1.PortState_PORT_STATE_DOWN},
				}},
			{Name: "rxe0", Parent: &discoveryv1.Parent{Function: discoveryv1.FunctionKind_FUNCTION_KIND_VIRTUAL},
				Reasons: []*discoveryv1.Reason{{Code: discoveryv1.ReasonCode_REASON_CODE_NO_PORTS, Message: "No port."}}},
		},
	}
}

func printed(t *testing.T, format string, s *discoveryv1.Snapshot) string {
	t.Helper()
	write, err := Format(format)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := write(&out, s); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

const wantTable = `
NAME    KIND     PCI           NUMA  PORTS  LINK                 STATE        GB/S  NETDEV     FILES            REASONS
mlx4_0  vf       0000:3b:00.1  1     1-2    infiniband/ethernet  active/down  56/-  ib0,ib1/-  uverbs0,rdma_cm  -
rxe0    virtual  -             -     -      -                    -            -     -          -                NO_PORTS

Limits:
  (node)  NETNS_EXCLUSIVE  Exclusive.
  rxe0    NO_PORTS         No port.

Network functions without an RDMA device:
  PCI           ID         DRIVER  NUMA  NETDEV  REASONS
  0000:5f:00.0  8086:15bb  e1000e  -     eno1    NO_RDMA_DEVICE
`

func TestTable(t *testing.T) {
	if got := printed(t, "table", sample()); got != wantTable[1:] {
		t.Errorf("got\n%s\nwant\n%s", got, wantTable[1:])
	}
	for name, s := range map[string]*discoveryv1.Snapshot{"nothing": {}, "nil": nil} {
		if got := printed(t, "table", s); got != "No RDMA devices.\n" {
			t.Errorf("%s is %q", name, got)
		}
	}
}

// Programs cut lines into words: each cell of a device is one word.
func TestEachDeviceIsALineOfAsManyWords(t *testing.T) {
	lines := strings.Split(printed(t, "table", sample()), "\n")
	for _, line := range lines[:3] {
		if n := len(strings.Fields(line)); n != len(columns()) {
			t.Errorf("%d words in %q", n, line)
		}
	}
}

func TestWideTableHasMoreColumns(t *testing.T) {
	got := printed(t, "wide", sample())
	for _, word := range []string{"NODE GUID", "15b3:1007", "a:b", "2.42", "link-up", "0000:3b:00.0#0", "mlx4_core", "56 Gb/sec (4X FDR)", "Node: kernel -, RDMA name spaces -, modules -"} {
		if !strings.Contains(got, word) {
			t.Errorf("%q is not in\n%s", word, got)
		}
	}
	if _, rest, _ := strings.Cut(got, "mlx4_0"); strings.Count(strings.SplitN(rest, "\n", 2)[0], "56") != 1 {
		t.Errorf("the rate is there more than once in\n%s", got)
	}
}

func TestManyPortsDevicesAndReasonsStayReadable(t *testing.T) {
	s := &discoveryv1.Snapshot{}
	for n := range 12 {
		d := &discoveryv1.Device{Name: fmt.Sprintf("mlx5_%d", n), Parent: &discoveryv1.Parent{Function: discoveryv1.FunctionKind_FUNCTION_KIND_PF},
			Reasons: []*discoveryv1.Reason{{Code: discoveryv1.ReasonCode_REASON_CODE_NO_RDMA_CM, Message: "Missing."}}}
		s.Devices = append(s.Devices, d)
	}
	slices.SortFunc(s.Devices, func(a, b *discoveryv1.Device) int { return strings.Compare(a.GetName(), b.GetName()) })
	pf := s.Devices[0]
	for n := range uint32(130) {
		pf.Ports = append(pf.Ports, &discoveryv1.Port{Number: n + 1, State: discoveryv1.PortState_PORT_STATE_ACTIVE})
		for _, kind := range []string{"umad", "issm"} {
			pf.CharDevices = append(pf.CharDevices, &discoveryv1.CharDevice{Path: fmt.Sprintf("/dev/infiniband/%s%d", kind, n+n/65)})
		}
	}
	pf.Ports[0].State = discoveryv1.PortState_PORT_STATE_DOWN
	pf.OtherNetDevices = []*discoveryv1.NetDevice{{Name: "pf0vf0", Role: discoveryv1.NetDeviceRole_NET_DEVICE_ROLE_REPRESENTOR}}
	got := strings.Split(printed(t, "table", s), "\n")
	want := "mlx5_0 pf/switchdev - - 1-130 - down/active*129 - - umad0-64,66-130,issm0-64,66-130 NO_RDMA_CM"
	if line := strings.Join(strings.Fields(got[1]), " "); line != want {
		t.Errorf("got\n%s\nwant\n%s", line, want)
	}
	if !strings.HasPrefix(got[3], "mlx5_2 ") || !strings.HasPrefix(got[11], "mlx5_10 ") {
		t.Errorf("order: %q, %q", got[3], got[11])
	}
	if line := got[15]; line != "  mlx5_0,mlx5_1,mlx5_2 and 9 more  NO_RDMA_CM  Missing." {
		t.Errorf("reasons: %q", line)
	}
}

func TestJSONAndYAMLAreTheMessage(t *testing.T) {
	raw := printed(t, "json", sample())
	if !strings.Contains(raw, `"vf_index": 0`) || !strings.Contains(raw, `"generation": "7"`) || !strings.Contains(raw, `"ports": []`) {
		t.Errorf("got\n%s", raw)
	}
	fromYAML, err := yaml.YAMLToJSON([]byte(printed(t, "yaml", sample())))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"json": []byte(raw), "yaml": fromYAML} {
		got := &discoveryv1.Snapshot{}
		if err := protojson.Unmarshal(text, got); err != nil || !json.Valid(text) || !proto.Equal(got, sample()) {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
	if again := printed(t, "json", sample()); again != raw {
		t.Error("equal snapshots print differently")
	}
}

func TestUnknownFormat(t *testing.T) {
	if _, err := Format("xml"); err == nil || !strings.Contains(err.Error(), "json") {
		t.Errorf("got %v", err)
	}
}

func TestWordsForPeople(t *testing.T) {
	for rate, want := range map[string]string{
		"100 Gb/sec (4X EDR)": "100", "2.5 Gb/sec (1X SDR)": "2.5", "40 Gb/sec": "40", "": "-", "fast": "fast", "1 Gb/second": "1 Gb/second",
	} {
		if got := speed(&discoveryv1.Port{Rate: rate}); got != want {
			t.Errorf("the rate %q is shown as %q", rate, got)
		}
	}
	for _, test := range []struct {
		a, b string
		want int
	}{{"mlx5_2", "mlx5_10", -1}, {"mlx5_10", "mlx5_2", 1}, {"a", "a", 0}, {"a", "ab", -1}, {"a01", "a1", 0}, {"a1b", "a1", 1}, {"", "x", -1}, {"99999999999999999999", "100000000000000000000", -1}} {
		if got := natural(test.a, test.b); got != test.want {
			t.Errorf("%q and %q: %d", test.a, test.b, got)
		}
	}
}
