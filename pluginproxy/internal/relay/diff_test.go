// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"strings"
	"testing"

	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
	"github.com/rdma-relay/rdma-relay/test/fakedaemon"
)

func TestDifferencesNameWhatChanged(t *testing.T) {
	type devices = []*discoveryv1.Device
	change := func(change func(*discoveryv1.Device)) *discoveryv1.Device {
		d := fakedaemon.HCA(0)
		change(d)
		return d
	}
	faulty := change(func(d *discoveryv1.Device) {
		d.Reasons = []*discoveryv1.Reason{{Code: discoveryv1.ReasonCode_REASON_CODE_NOT_ANSWERING, Message: "It does not answer."}}
	})
	dark := change(func(d *discoveryv1.Device) { d.Ports[0].NetDevices[0].Carrier = nil })
	for name, test := range map[string]struct {
		before, after devices
		want          string
	}{
		"a port goes down":     {devices{fakedaemon.HCA(0)}, devices{fakedaemon.Down(fakedaemon.HCA(0))}, "mlx5_0 port 1 is DOWN, was ACTIVE"},
		"a carrier is lost":    {devices{fakedaemon.HCA(0)}, devices{dark}, "mlx5_0 port 1 has no carrier on ens0np0, had a carrier on ens0np0"},
		"plugged and pulled":   {devices{fakedaemon.HCA(0)}, devices{fakedaemon.HCA(1)}, "mlx5_1 appeared, mlx5_0 disappeared"},
		"a fault":              {devices{fakedaemon.HCA(0)}, devices{faulty}, "mlx5_0 has a fault: It does not answer."},
		"no more":              {devices{faulty}, devices{fakedaemon.HCA(0)}, "mlx5_0 has a fault no more: It does not answer."},
		"files":                {devices{fakedaemon.HCA(0)}, devices{change(func(d *discoveryv1.Device) { d.CharDevices = d.CharDevices[:1] })}, "mlx5_0 has 1 file, had 4"},
		"many":                 {nil, fakedaemon.HCAs(9), "mlx5_0 appeared, mlx5_1 appeared, mlx5_2 appeared, mlx5_3 appeared and 5 changes more"},
		"a rate":               {devices{fakedaemon.HCA(0)}, devices{change(func(d *discoveryv1.Device) { d.Ports[0].Rate = "1" })}, "other facts"},
		"without a name":       {nil, devices{change(func(d *discoveryv1.Device) { d.Name = "" })}, "0000:3b:00.0 appeared"},
		"nothing that is safe": {devices{nil, {}}, devices{{Ports: []*discoveryv1.Port{nil}}, nil}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := differences(fakedaemon.Snapshot("a", 1, test.before...), fakedaemon.Snapshot("a", 2, test.after...))
			if test.want != "" && got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
	if got := differences(nil, fakedaemon.Snapshot("a", 1, fakedaemon.HCAs(3)...)); got != "3 RDMA devices" {
		t.Errorf("the first: %q", got)
	}
	if got := differences(fakedaemon.Snapshot("a", 9), fakedaemon.Snapshot("b", 1)); got != "nothing else; discoveryd was started anew" {
		t.Errorf("a new daemon: %q", got)
	}
	exclusive := fakedaemon.Snapshot("a", 2)
	exclusive.Node.NetnsMode = discoveryv1.NetnsMode_NETNS_MODE_EXCLUSIVE
	if got := differences(fakedaemon.Snapshot("a", 1), exclusive); !strings.HasPrefix(got, "netns mode exclusive, was shared") {
		t.Errorf("netns: %q", got)
	}
}
