// Benchmarks of the step. Their names are stable: make bench compares them.
//
// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/config"
	v1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

// load is a node with many devices and a configuration of many resources. Half of
// the resources take all devices, the others what their interfaces name.
func load(b *testing.B, resources, slots, devices int, keys ...string) (*config.Config, *v1.Snapshot) {
	b.Helper()
	var entries []string
	for i := range resources {
		selectors := `"vendors":["15b3"]`
		if i%2 == 1 {
			selectors = fmt.Sprintf(`"ifNames":["ens%d","ens%d"]`, i, i+1)
		}
		entries = append(entries, fmt.Sprintf(`{"resourceName":"r%d","rdmaHcaMax":%d,"selectors":{%s}%s}`, i, slots, selectors, strings.Join(append([]string{""}, keys...), ",")))
	}
	snap := &v1.Snapshot{}
	for i := range devices {
		snap.Devices = append(snap.Devices, hca(i))
	}
	return conf(b, entries...), snap
}

func BenchmarkBuild(b *testing.B) {
	for _, size := range []struct{ resources, slots, devices int }{{1, 1000, 8}, {4, 1000, 8}, {64, 1000, 8}, {64, 100, 1024}} {
		cfg, snap := load(b, size.resources, size.slots, size.devices)
		name := fmt.Sprintf("resources=%d,slots=%d,devices=%d", size.resources, size.slots, size.devices)
		b.Run(name+"/first", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Build(cfg, snap, Options{})
			}
		})
		b.Run(name+"/again", func(b *testing.B) {
			previous := Build(cfg, snap, Options{})
			b.ReportAllocs()
			for b.Loop() {
				previous = Build(cfg, snap, Options{Previous: previous})
			}
		})
	}
}

// BenchmarkBuildPerDevice is a port of one device that goes down: 64 resources over
// 1,024 devices with four slots each, of which half have all devices, so that as many
// lists of 4,096 slots are to be made anew.
func BenchmarkBuildPerDevice(b *testing.B) {
	cfg, snap := load(b, 64, 4, 1024, `"sharing":"perDevice"`)
	previous := Build(cfg, snap, Options{})
	states := []v1.PortState{v1.PortState_PORT_STATE_DOWN, v1.PortState_PORT_STATE_ACTIVE}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		snap.Devices[512].Ports[0].State = states[i%2]
		previous = Build(cfg, snap, Options{Previous: previous})
	}
	if n := len(previous[0].Devices); n != 4096 {
		b.Fatal(n)
	}
}

// many is a resource with 10,000 IDs on 40 devices.
func many(b *testing.B, preference string) *Resource {
	b.Helper()
	var devices []*v1.Device
	for i := range 40 {
		devices = append(devices, hca(i, numa(int32(i%2))))
	}
	return build(b, `{"resourceName":"hca","sharing":"perDevice","preferredAllocation":"`+preference+`","rdmaHcaMax":250,"selectors":{"vendors":["15b3"]}}`, devices...)
}

func BenchmarkAllocate(b *testing.B) {
	perDevice := many(b, "spread")
	var poolDevices []*v1.Device
	for i := range 40 {
		poolDevices = append(poolDevices, hca(i))
	}
	pooled := build(b, strings.Replace(pool(""), `"rdmaHcaMax":3`, `"rdmaHcaMax":10000`, 1), poolDevices...)
	for name, r := range map[string]*Resource{"perDevice,ids=10000": perDevice, "pool,ids=10000": pooled} {
		b.Run(name, func(b *testing.B) {
			id := []string{r.Devices[len(r.Devices)-1].ID}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := r.Allocate(id); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkPreferred(b *testing.B) {
	for _, preference := range []string{"spread", "pack"} {
		r := many(b, preference)
		var available []string
		for _, d := range r.Devices {
			available = append(available, d.ID)
		}
		b.Run(preference+",available=10000,size=8", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if got := r.Preferred(available, nil, 8); len(got) != 8 {
					b.Fatal(got)
				}
			}
		})
	}
}
