// Whatever bytes come as a snapshot, nothing behind the check may break.
//
// SPDX-License-Identifier: Apache-2.0

package subscribe

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/config"
	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/resource"
	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
	"github.com/rdma-relay/rdma-relay/test/fakedaemon"
)

// everything is a configuration with each kind of sharing and many selectors.
const everything = `{"configList":[
 {"resourceName":"pool","rdmaHcaMax":3,"selectors":{"vendors":["15b3"],"linkTypes":["ether"]}},
 {"resourceName":"any","rdmaHcaMax":2,"selectors":{"functions":["pf","vf","sf","virtual"]},"charDevices":["uverbs"],"health":"active","recoverAfter":"1s"},
 {"resourceName":"each","rdmaHcaMax":2,"sharing":"perDevice","selectors":{"functions":["pf","vf","sf","virtual"]},"charDevices":["umad","issm"],"preferredAllocation":"pack"},
 {"resourceName":"cdi","rdmaHcaMax":2,"sharing":"perDevice","selectors":{"numaNodes":[0,1]},"cdi":true},
 {"resourceName":"one","rdmaHcaMax":1,"sharing":"exclusive","selectors":{"pfNames":["ens1f0#0-3"],"functions":["vf"]},"exclude":{"rdmaDevices":["mlx5_1"]}}
]}`

func FuzzCheck(f *testing.F) {
	cfg, err := config.Parse([]byte(everything), "config.json")
	if err != nil {
		f.Fatal(err)
	}
	vf := fakedaemon.HCA(3)
	index := uint32(2)
	vf.Parent.Function, vf.Parent.VfIndex, vf.Parent.PfNetDevices = discoveryv1.FunctionKind_FUNCTION_KIND_VF, &index, []string{"ens1f0"}
	rxe := &discoveryv1.Device{
		Name: "rxe0", NodeGuid: "0250:56ff:fe00:0001",
		Parent:      &discoveryv1.Parent{Bus: discoveryv1.Bus_BUS_NONE, Function: discoveryv1.FunctionKind_FUNCTION_KIND_VIRTUAL},
		CharDevices: fakedaemon.HCA(9).CharDevices,
	}
	for _, s := range []*discoveryv1.Snapshot{
		{},
		fakedaemon.Snapshot("a", 1),
		fakedaemon.Snapshot("a", 1<<63, fakedaemon.HCAs(2)...),
		fakedaemon.Snapshot("a", 1, vf, rxe, fakedaemon.Down(fakedaemon.HCA(4)), fakedaemon.WithoutCM(fakedaemon.HCA(5))),
		fakedaemon.Snapshot("a", 1, fakedaemon.HCA(1), fakedaemon.HCA(1)),
		fakedaemon.Snapshot("a", 1, withFile("/dev/infiniband/../sda"), named("a,b\n\x1b[2J")),
		fakedaemon.Snapshot("a", 1, &discoveryv1.Device{Parent: &discoveryv1.Parent{}}, &discoveryv1.Device{Name: "bare", Parent: &discoveryv1.Parent{}}),
	} {
		seed, err := proto.Marshal(s)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s := &discoveryv1.Snapshot{}
		if proto.Unmarshal(data, s) != nil || Check(s) != nil {
			return
		}
		now := time.Unix(1, 0)
		before := resource.Build(cfg, s, resource.Options{Now: now})
		for _, r := range resource.Build(cfg, s, resource.Options{Now: now.Add(time.Second), Previous: before, Stale: true}) {
			useAsKubelet(t, r)
		}
	})
}

// useAsKubelet asks a resource for all that kubelet may ask for.
func useAsKubelet(t *testing.T, r *resource.Resource) {
	ids, seen, healthy := []string{}, map[string]bool{}, map[string]bool{}
	for _, d := range r.Devices {
		if d.ID == "" || seen[d.ID] || len(d.ID) > config.MaxIDBytes {
			t.Errorf("%s: bad or doubled ID %q", r.Name, d.ID)
		}
		seen[d.ID] = true
		healthy[d.ID] = d.Health == pluginapi.Healthy
		ids = append(ids, d.ID)
	}
	_ = r.Preferred(ids, nil, 1)
	_, _ = r.Allocate(nil)
	_, _ = r.Allocate([]string{"no such ID"})
	for _, id := range ids {
		answer, err := r.Allocate([]string{id})
		if err != nil && healthy[id] {
			t.Errorf("%s: ID %q is listed as healthy and refused: %v", r.Name, id, err)
		}
		if err != nil {
			continue
		}
		for _, d := range answer.GetDevices() {
			if filepath.Dir(filepath.Clean(d.GetHostPath())) != "/dev/infiniband" {
				t.Errorf("%s: gives out %q", r.Name, d.GetHostPath())
			}
		}
		for name, value := range answer.GetEnvs() {
			if strings.ContainsAny(fmt.Sprint(name, value), "\x00\n") {
				t.Errorf("%s: environment %q=%q", r.Name, name, value)
			}
		}
	}
}
