// The list of slots: IDs, health and NUMA hints.
//
// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"slices"
	"strconv"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/config"
)

// slotGroup is a row of slots that are alike but for their number.
type slotGroup struct {
	base    string // the device's ID; empty for a pool
	slots   int    // 0: one slot, without a number
	healthy bool
	numa    int
}

// listKey tells pools with the same list.
type listKey slotGroup

// list makes the slots, or takes a list that is the same.
func (b *builder) list(r, previous *Resource) {
	r.shape = shape(r)
	if previous != nil && slices.Equal(previous.shape, r.shape) {
		r.Devices = previous.Devices
		return
	}
	if r.cfg.Sharing != config.SharingPool || len(r.shape) == 0 {
		r.Devices = slots(r.shape)
		return
	}
	key := listKey(r.shape[0])
	if b.lists[key] == nil {
		b.lists[key] = slots(r.shape)
	}
	r.Devices = b.lists[key]
}

// shape says what the list is made of.
func shape(r *Resource) []slotGroup {
	if len(r.hcas) == 0 || r.cfg.Max == 0 {
		return nil
	}
	if r.cfg.Sharing == config.SharingPool {
		return []slotGroup{poolShape(r)}
	}
	groups := make([]slotGroup, len(r.hcas))
	for i, f := range r.hcas {
		groups[i] = slotGroup{base: f.id, slots: r.cfg.Max, healthy: r.HCAs[i].Healthy, numa: hint(r.cfg, f)}
		if r.cfg.Sharing == config.SharingExclusive {
			groups[i].slots = 0
		}
	}
	return groups
}

// poolShape: a slot gives every device, so it is near a NUMA node only when all
// of them are, and healthy when one of them is.
func poolShape(r *Resource) slotGroup {
	g := slotGroup{slots: r.cfg.Max, numa: hint(r.cfg, r.hcas[0])}
	for i, f := range r.hcas {
		g.healthy = g.healthy || r.HCAs[i].Healthy
		if f.numa != g.numa {
			g.numa = unknownNUMA
		}
	}
	return g
}

func hint(cfg *config.Resource, f *facts) int {
	if !cfg.TopologyHints {
		return unknownNUMA
	}
	return f.numa
}

// groupBytes bounds what a device adds to the list, whatever its health becomes.
func groupBytes(cfg *config.Resource, f *facts) int64 {
	id := len(f.id)
	if cfg.Sharing == config.SharingPerDevice {
		id += 1 + len(strconv.Itoa(cfg.Max))
	}
	return int64(cfg.Max) * config.SlotBytes(id, cfg.TopologyHints)
}

// slots makes the devices of all groups. All of them and all of their IDs come
// from two pieces of memory, since there may be many thousand.
func slots(groups []slotGroup) []*pluginapi.Device {
	total := 0
	for _, g := range groups {
		total += max(g.slots, 1)
	}
	if total == 0 {
		return nil
	}
	names, ends := slotNames(groups, total)
	slab := make([]pluginapi.Device, total)
	devices := make([]*pluginapi.Device, total)
	at, start := 0, 0
	for _, g := range groups {
		var topology *pluginapi.TopologyInfo
		if g.numa != unknownNUMA {
			topology = &pluginapi.TopologyInfo{Nodes: []*pluginapi.NUMANode{{ID: int64(g.numa)}}}
		}
		health := pluginapi.Unhealthy
		if g.healthy {
			health = pluginapi.Healthy
		}
		for range max(g.slots, 1) {
			d := &slab[at]
			d.ID, d.Health, d.Topology = names[start:ends[at]], health, topology
			devices[at] = d
			start = ends[at]
			at++
		}
	}
	return devices
}

// slotNames writes all IDs into one string and says where each ends.
func slotNames(groups []slotGroup, total int) (names string, ends []int) {
	buf := make([]byte, 0, total*8)
	ends = make([]int, 0, total)
	for _, g := range groups {
		for n := range max(g.slots, 1) {
			buf = append(buf, g.base...)
			if g.slots > 0 {
				if g.base != "" {
					buf = append(buf, '-')
				}
				buf = strconv.AppendInt(buf, int64(n), 10)
			}
			ends = append(ends, len(buf))
		}
	}
	return string(buf), ends
}
