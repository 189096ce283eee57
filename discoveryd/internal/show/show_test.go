// What people and programs read.
//
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"encoding/json"
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
NAME    PCI           KIND     DRIVER     NUMA  PORT  LINK        STATE   RATE                NETDEV   FILES
mlx4_0  0000:3b:00.1  vf       mlx4_core  1     1     infiniband  active  56 Gb/sec (4X FDR)  ib0,ib1  uverbs0,rdma_cm
                                                2     ethernet    down    -                   -
rxe0    -             virtual  -          -     -     -           -       -                   -        -

Limits:
  (node)  NETNS_EXCLUSIVE  Exclusive.
  rxe0    NO_PORTS         No port.

Network functions without an RDMA device:
  0000:5f:00.0  8086:15bb  e1000e  eno1
`

func TestTable(t *testing.T) {
	if got := printed(t, "table", sample()); got != wantTable[1:] {
		t.Errorf("got\n%s\nwant\n%s", got, wantTable[1:])
	}
	if got := printed(t, "table", &discoveryv1.Snapshot{}); got != "No RDMA devices.\n" {
		t.Errorf("nothing is %q", got)
	}
}

func TestWideTableHasMoreColumns(t *testing.T) {
	got := printed(t, "wide", sample())
	for _, word := range []string{"NODE GUID", "15b3:1007", "a:b", "2.42", "link-up", "0000:3b:00.0#0"} {
		if !strings.Contains(got, word) {
			t.Errorf("%q is not in\n%s", word, got)
		}
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
