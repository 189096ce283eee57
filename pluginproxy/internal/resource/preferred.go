// GetPreferredAllocation: which slots a container should best have.
//
// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"cmp"
	"slices"
	"strings"

	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/config"
)

// candidate is a device with the slots of it that a container can have.
type candidate struct {
	id    string
	numa  int
	free  []slot // sorted by number
	taken int    // slots that the container has already
}

type slot struct {
	id     string
	number int
}

// Preferred picks size slots of the available ones, those of mustInclude first. It
// never fails, since kubelet would fail the pod: IDs that are not known come last,
// and where too few are available it gives all. With spread a container gets as
// many different devices as there are, with pack as few; among equals those on the
// NUMA node that it is on already, or that can serve it alone. Equal questions
// have equal answers.
func (r *Resource) Preferred(available, mustInclude []string, size int) []string {
	if size <= 0 {
		return nil
	}
	p := &picker{r: r, size: size, must: make(map[string]bool, len(mustInclude)), devices: map[string]*candidate{}}
	for _, id := range mustInclude {
		p.take(id)
	}
	for _, id := range available {
		p.offer(id)
	}
	p.fill()
	return p.picked
}

// picker is the work of one answer.
type picker struct {
	r       *Resource
	size    int
	must    map[string]bool
	devices map[string]*candidate // by device ID; a pool has one, ""
	unknown []string
	picked  []string
}

func (p *picker) device(base string) *candidate {
	c := p.devices[base]
	if c == nil {
		c = &candidate{id: base, numa: unknownNUMA}
		if i, ok := p.r.byID[base]; ok {
			c.numa = p.r.hcas[i].numa
		}
		p.devices[base] = c
	}
	return c
}

// take gives the container a slot that it must have.
func (p *picker) take(id string) {
	if p.must[id] || len(p.picked) == p.size {
		return
	}
	p.must[id] = true
	p.picked = append(p.picked, id)
	if base, number := p.r.split(id); number >= 0 {
		p.device(base).taken++
	}
}

// offer notes a slot that the container can have.
func (p *picker) offer(id string) {
	if p.must[id] {
		return
	}
	base, number := p.r.split(id)
	if _, there := p.r.byID[base]; number < 0 || !there && p.r.cfg.Sharing != config.SharingPool {
		p.unknown = append(p.unknown, id)
		return
	}
	c := p.device(base)
	c.free = append(c.free, slot{id, number})
}

// fill picks the rest.
func (p *picker) fill() {
	candidates := make([]*candidate, 0, len(p.devices))
	for _, c := range p.devices {
		if len(c.free) > 0 {
			slices.SortFunc(c.free, func(a, b slot) int { return cmp.Compare(a.number, b.number) })
			c.free = slices.Compact(c.free) // an ID may have been offered twice
			candidates = append(candidates, c)
		}
	}
	pack := p.r.cfg.Preference == config.PreferPack
	rank := p.rankNodes(candidates, pack)
	slices.SortFunc(candidates, func(a, b *candidate) int {
		load := cmp.Compare(len(b.free), len(a.free)) // spread: the emptiest first
		use := cmp.Compare(a.taken, b.taken)
		if pack {
			load, use = -load, -use
		}
		return cmp.Or(use, cmp.Compare(rank[a.numa], rank[b.numa]), load, strings.Compare(a.id, b.id))
	})
	if pack {
		p.pickPacked(candidates)
	} else {
		p.pickSpread(candidates)
	}
	slices.Sort(p.unknown)
	for _, id := range slices.Compact(p.unknown) {
		p.pick(id)
	}
}

func (p *picker) pick(id string) {
	if len(p.picked) < p.size {
		p.picked = append(p.picked, id)
	}
}

// pickPacked empties one device after the other.
func (p *picker) pickPacked(candidates []*candidate) {
	for _, c := range candidates {
		for _, s := range c.free {
			p.pick(s.id)
		}
	}
}

// pickSpread goes round: a device gets its next slot when no other has fewer.
func (p *picker) pickSpread(candidates []*candidate) {
	for level := 0; len(candidates) > 0 && len(p.picked) < p.size; level++ {
		rest := candidates[:0]
		for _, c := range candidates {
			if c.taken <= level {
				p.pick(c.free[0].id)
				c.free, c.taken = c.free[1:], c.taken+1
			}
			if len(c.free) > 0 {
				rest = append(rest, c)
			}
		}
		candidates = rest
	}
}

// rankNodes orders the NUMA nodes, the best first: those that the container is on
// already; then those that can serve the rest alone, with pack the fullest of them
// and with spread the emptiest; then those with most to give. Devices whose node is
// not known come last.
func (p *picker) rankNodes(candidates []*candidate, pack bool) map[int]int {
	type node struct{ numa, taken, devices, slots int }
	nodes := map[int]*node{}
	at := func(numa int) *node {
		if nodes[numa] == nil {
			nodes[numa] = &node{numa: numa}
		}
		return nodes[numa]
	}
	for _, c := range p.devices {
		at(c.numa).taken += c.taken
	}
	for _, c := range candidates {
		n := at(c.numa)
		n.slots += len(c.free)
		if c.taken == 0 {
			n.devices++
		}
	}
	need := p.size - len(p.picked)
	enough := func(n *node) int {
		if pack && n.slots >= need || !pack && n.devices >= need {
			return 0
		}
		return 1
	}
	ordered := make([]*node, 0, len(nodes))
	for _, n := range nodes {
		ordered = append(ordered, n)
	}
	slices.SortFunc(ordered, func(a, b *node) int {
		if (a.numa == unknownNUMA) != (b.numa == unknownNUMA) {
			return cmp.Compare(b.numa, a.numa)
		}
		give := cmp.Or(cmp.Compare(b.devices, a.devices), cmp.Compare(b.slots, a.slots))
		if pack {
			give = cmp.Compare(b.slots, a.slots)
			if enough(a) == 0 && enough(b) == 0 {
				give = -give
			}
		}
		return cmp.Or(cmp.Compare(b.taken, a.taken), cmp.Compare(enough(a), enough(b)), give, cmp.Compare(a.numa, b.numa))
	})
	rank := make(map[int]int, len(ordered))
	for i, n := range ordered {
		rank[n.numa] = i
	}
	return rank
}
