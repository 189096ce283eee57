// One line for each kind of change.
//
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

// lines logs the difference, without times and levels' padding.
func lines(before, after *discoveryv1.Snapshot) string {
	var out bytes.Buffer
	Changes(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})), before, after)
	return out.String()
}

func device(name string, state discoveryv1.PortState, reasons ...*discoveryv1.Reason) *discoveryv1.Device {
	return &discoveryv1.Device{Name: name, Ports: []*discoveryv1.Port{{Number: 1, State: state}}, Reasons: reasons}
}

func snapshot(generation uint64, devices ...*discoveryv1.Device) *discoveryv1.Snapshot {
	return &discoveryv1.Snapshot{Generation: generation, Devices: devices}
}

var noCM = &discoveryv1.Reason{Code: discoveryv1.ReasonCode_REASON_CODE_NO_RDMA_CM, Message: "load rdma_ucm."}

const (
	up   = discoveryv1.PortState_PORT_STATE_ACTIVE
	down = discoveryv1.PortState_PORT_STATE_DOWN
)

func TestChanges(t *testing.T) {
	bare := &discoveryv1.Device{Parent: &discoveryv1.Parent{PciAddress: "0000:3b:00.0"}, Reasons: []*discoveryv1.Reason{noCM}}
	for _, test := range []struct {
		name          string
		before, after *discoveryv1.Snapshot
		want          string
	}{
		{"first", nil, snapshot(1, bare, device("a", up, noCM), device("b", up, noCM)), `
level=INFO msg="devices found" devices=a,b
level=WARN msg="devices limited" reason=NO_RDMA_CM devices=a,b why="load rdma_ucm."
level=INFO msg="snapshot published" generation=1 rdma_devices=2 functions_without_rdma=1
`},
		{"R24: the limit goes", snapshot(1, device("a", up, noCM), device("b", up, noCM)), snapshot(2, device("a", up), device("b", up, noCM)), `
level=INFO msg="limit is gone" reason=NO_RDMA_CM devices=a
level=INFO msg="snapshot published" generation=2 rdma_devices=2 functions_without_rdma=0
`},
		{"ports", snapshot(2, device("a", up), device("b", up)), snapshot(3, device("a", down), device("b", up)), `
level=INFO msg="port changed" device=a port=1 state=down before=active
level=INFO msg="snapshot published" generation=3 rdma_devices=2 functions_without_rdma=0
`},
		{"one for another", snapshot(3, device("a", down)), snapshot(4, device("c", up)), `
level=INFO msg="devices found" devices=c
level=INFO msg="devices gone" devices=a
level=INFO msg="snapshot published" generation=4 rdma_devices=1 functions_without_rdma=0
`},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := lines(test.before, test.after); got != strings.TrimPrefix(test.want, "\n") {
				t.Errorf("got\n%s\nwant%s", got, test.want)
			}
		})
	}
}

func TestNodesLimitIsToldToo(t *testing.T) {
	after := snapshot(1)
	after.Node = &discoveryv1.Node{Reasons: []*discoveryv1.Reason{{Code: discoveryv1.ReasonCode_REASON_CODE_NO_RDMA_SUBSYSTEM, Message: "none."}}}
	if got := lines(nil, after); !strings.Contains(got, `msg="devices limited" reason=NO_RDMA_SUBSYSTEM devices=(node) why=none.`) {
		t.Errorf("got %s", got)
	}
}

func TestManyChangesAreFewLines(t *testing.T) {
	before, after := snapshot(1), snapshot(2)
	for n := range 1000 {
		name := fmt.Sprintf("mlx5_%03d", n)
		before.Devices = append(before.Devices, device(name, up))
		after.Devices = append(after.Devices, device(name, down, noCM))
	}
	if got := lines(before, after); strings.Count(got, "\n") > maxPorts+5 || len(got) > 8<<10 {
		t.Errorf("%d lines, %d bytes", strings.Count(got, "\n"), len(got))
	}
}
