// Every example of docs/config.md, served on a node that has what it names.
//
// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"fmt"
	"os"
	"regexp"
	"testing"

	"google.golang.org/protobuf/proto"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/config"
	v1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

// documented is a node with all that the examples name: four rails, one of their
// neighbours, virtual functions, a bond and an InfiniBand device, all in CDI.
func documented() *v1.Snapshot {
	at := func(n int, address string, changes ...func(*v1.Device)) *v1.Device {
		d := hca(n, changes...)
		d.Parent.PciAddress = address
		return d
	}
	var devices []*v1.Device
	for i, address := range []string{"0000:1a:00.0", "0000:3c:00.0", "0000:9a:00.0", "0000:bc:00.0", "0000:d1:00.0"} {
		devices = append(devices, at(i, address, numa(int32(i/2))))
	}
	for i := range 8 {
		devices = append(devices, at(10+i, fmt.Sprintf("0000:3b:00.%d", i), func(d *v1.Device) {
			d.Parent.Function, d.Parent.VfIndex = v1.FunctionKind_FUNCTION_KIND_VF, proto.Uint32(uint32(i))
			d.Parent.PfNetDevices = []string{"ens1f0"}
		}))
	}
	devices = append(devices,
		at(20, "0000:5e:00.0", func(d *v1.Device) {
			d.Ports[0].NetDevices[0].Name, d.Ports[0].NetDevices[0].Master = "ens1f0np0", "bond0"
		}),
		at(21, "0000:5f:00.0", func(d *v1.Device) {
			d.Ports = []*v1.Port{port(v1.LinkLayer_LINK_LAYER_INFINIBAND, v1.PortState_PORT_STATE_ACTIVE)}
		}))
	return inCDI(devices...)
}

func TestEveryExampleInTheDocsServesItsDevices(t *testing.T) {
	doc, err := os.ReadFile("../../../docs/config.md")
	if err != nil {
		t.Fatal(err)
	}
	// What each resource of the examples comes to on that node: HCAs and slots.
	want := map[string][2]int{
		"rdma/hca_shared":     {14, 63},
		"rdma/rail":           {4, 4},
		"rdma/hca_shared #2":  {3, 63},
		"rdma/fabric":         {1, 4},
		"rdma/vf":             {8, 32},
		"example.com/hca_cdi": {1, 63},
	}
	got := map[string][2]int{}
	all := regexp.MustCompile("(?s)```([a-z]*)\n(.*?)```").FindAllSubmatch(doc, -1)
	for _, m := range all {
		if language := string(m[1]); language != "json" && language != "yaml" {
			t.Errorf("an example in %q, which no test runs", language)
			continue
		}
		cfg, err := config.Parse(m[2], "docs/config.md")
		if err != nil {
			t.Error(err)
			continue
		}
		for _, r := range Build(cfg, documented(), Options{}) {
			name := r.Name
			if _, again := got[name]; again {
				name += " #2"
			}
			got[name] = [2]int{len(r.HCAs), len(r.Devices)}
			for _, d := range r.Devices {
				if d.Health != pluginapi.Healthy {
					t.Errorf("%s: slot %s is unhealthy", name, d.ID)
				}
				mustAllocate(t, r, d.ID)
			}
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the examples give\n%v, want\n%v", got, want)
	}
}
