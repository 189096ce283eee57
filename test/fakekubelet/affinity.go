// SPDX-License-Identifier: Apache-2.0

package fakekubelet

// This file holds the choice among devices: near the NUMA hint first, the plugin's preference before the rest.

import (
	"errors"
	"slices"
)

// byAffinity splits the free IDs into those on a NUMA node of the hint and the rest, devices on other nodes before those without any node.
// Without a hint nothing is near (filterByAffinity of devicemanager/manager.go).
func byAffinity(free []string, list []Device, hint []int64) (near, rest []string) {
	if len(hint) == 0 {
		return nil, free
	}
	nodes := make(map[string][]int64, len(list))
	for _, d := range list {
		nodes[d.ID] = d.NUMANodes
	}
	var without []string
	for _, id := range free {
		switch {
		case len(nodes[id]) == 0:
			without = append(without, id)
		case slices.ContainsFunc(nodes[id], func(n int64) bool { return slices.Contains(hint, n) }):
			near = append(near, id)
		default:
			rest = append(rest, id)
		}
	}
	return near, append(rest, without...)
}

// fill adds IDs of from to chosen until there are need, leaving out doubles and what allowed does not have.
func fill(chosen, from, allowed []string, need int) []string {
	for _, id := range from {
		if len(chosen) >= need {
			break
		}
		if slices.Contains(allowed, id) && !slices.Contains(chosen, id) {
			chosen = append(chosen, id)
		}
	}
	return chosen
}

func isNotAnnounced(err error) bool { return errors.Is(err, ErrNotAnnounced) }
