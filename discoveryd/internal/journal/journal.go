// Package journal says in the log what has changed on the host: a line for each
// kind of change with the devices that it concerns, and none for a scan that found
// nothing new.
//
// SPDX-License-Identifier: Apache-2.0
package journal

import (
	"cmp"
	"log/slog"
	"maps"
	"slices"
	"strings"

	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

// maxNamed is how many devices a line names at most, and maxPorts how many ports
// get a line for one snapshot.
const (
	maxNamed = 16
	maxPorts = 32
)

// Changes logs the difference between two snapshots; before is nil for the first.
func Changes(log *slog.Logger, before, after *discoveryv1.Snapshot) {
	was, is := devices(before), devices(after)
	if found := missing(is, was); len(found) > 0 {
		log.Info("devices found", "devices", some(found))
	}
	if gone := missing(was, is); len(gone) > 0 {
		log.Info("devices gone", "devices", some(gone))
	}
	limits(log, before, after)
	ports(log, was, is)
	log.Info("snapshot published", "generation", after.GetGeneration(), "rdma_devices", len(is),
		"functions_without_rdma", len(after.GetDevices())-len(is))
}

// devices are the RDMA devices by name. What has none is in the snapshot for those
// who ask, not for the log.
func devices(s *discoveryv1.Snapshot) map[string]*discoveryv1.Device {
	byName := map[string]*discoveryv1.Device{}
	for _, d := range s.GetDevices() {
		if d.GetName() != "" {
			byName[d.GetName()] = d
		}
	}
	return byName
}

// missing are the names in a that are not in b, sorted.
func missing(a, b map[string]*discoveryv1.Device) []string {
	var names []string
	for name := range a {
		if b[name] == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// limit is a reason that some devices have, or the node.
type limit struct {
	code    discoveryv1.ReasonCode
	message string
}

// node stands for the node among the names of devices.
const node = "(node)"

// limits logs the reasons that have come and gone.
func limits(log *slog.Logger, before, after *discoveryv1.Snapshot) {
	was, is := reasons(before), reasons(after)
	for _, l := range sorted(is) {
		if fresh := without(is[l], was[l]); len(fresh) > 0 {
			log.Warn("devices limited", "reason", code(l), "devices", some(fresh), "why", l.message)
		}
	}
	for _, l := range sorted(was) {
		if over := without(was[l], is[l]); len(over) > 0 {
			log.Info("limit is gone", "reason", code(l), "devices", some(over))
		}
	}
}

// reasons are the names of those that have each reason.
func reasons(s *discoveryv1.Snapshot) map[limit][]string {
	by := map[limit][]string{}
	add := func(name string, list []*discoveryv1.Reason) {
		for _, r := range list {
			l := limit{r.GetCode(), r.GetMessage()}
			by[l] = append(by[l], name)
		}
	}
	add(node, s.GetNode().GetReasons())
	for _, d := range s.GetDevices() {
		if d.GetName() != "" {
			add(d.GetName(), d.GetReasons())
		}
	}
	return by
}

func sorted(by map[limit][]string) []limit {
	return slices.SortedFunc(maps.Keys(by), func(a, b limit) int {
		return cmp.Or(cmp.Compare(a.code, b.code), strings.Compare(a.message, b.message))
	})
}

// without are the names in a that are not in b; both are sorted.
func without(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(name string) bool {
		_, found := slices.BinarySearch(b, name)
		return found
	})
}

// ports logs the ports whose state has changed.
func ports(log *slog.Logger, was, is map[string]*discoveryv1.Device) {
	lines := 0
	for _, name := range slices.Sorted(maps.Keys(is)) {
		old := was[name].GetPorts()
		for i, port := range is[name].GetPorts() {
			if i >= len(old) || old[i].GetNumber() != port.GetNumber() || old[i].GetState() == port.GetState() {
				continue
			}
			if lines++; lines <= maxPorts {
				log.Info("port changed", "device", name, "port", port.GetNumber(), "state", state(port), "before", state(old[i]))
			}
		}
	}
	if lines > maxPorts {
		log.Info("more ports changed", "ports", lines-maxPorts)
	}
}

func state(p *discoveryv1.Port) string {
	return strings.ToLower(strings.TrimPrefix(p.GetState().String(), "PORT_STATE_"))
}

func code(l limit) string { return strings.TrimPrefix(l.code.String(), "REASON_CODE_") }

// some names the first few.
func some(names []string) string {
	if len(names) > maxNamed {
		names = append(slices.Clone(names[:maxNamed]), "…")
	}
	return strings.Join(names, ",")
}
