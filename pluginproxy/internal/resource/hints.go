// Hints: what an operator who wonders why a number is zero should be told.
//
// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/config"
)

// maxHints bounds the hints of a resource.
const maxHints = 32

// seen are the names of all devices of a snapshot.
type seen struct {
	ifNames, names, addresses, guids, pfNames map[string]bool
}

func newSeen(all []*facts) *seen {
	s := &seen{ifNames: map[string]bool{}, names: map[string]bool{}, addresses: map[string]bool{}, guids: map[string]bool{}, pfNames: map[string]bool{}}
	for _, f := range all {
		s.names[f.name], s.addresses[f.pci], s.guids[f.guid] = true, true, true
		for _, n := range f.ifNames {
			s.ifNames[n] = true
		}
		for _, n := range f.pfNames {
			s.pfNames[n] = true
		}
	}
	return s
}

// hints fills r.Hints; others are the resources that share devices with r.
func (b *builder) hints(r *Resource, others []string, rules []test) {
	h := &hintList{}
	b.missing(r, h)
	if len(r.Shared) > 0 {
		h.add("%s shared with %s", devices(len(r.Shared)), some(others))
	}
	taken(r, h)
	switch {
	case r.cfg.Max == 0:
		h.add("rdmaHcaMax is 0: the resource is switched off")
	case len(r.hcas) == 0:
		b.whyEmpty(r, rules, h)
	case b.opts.Stale:
		h.add("all devices are unhealthy: nothing was heard of discoveryd for too long")
	case !slices.ContainsFunc(r.HCAs, func(hca HCA) bool { return hca.Healthy }):
		h.add("all devices are unhealthy; %s: %s", r.HCAs[0].Name, r.HCAs[0].Reason)
	}
	r.Hints = h.list()
}

// missing names the entries of the selectors that no device of this node has, for
// the keys whose entries name one thing each (R57).
func (b *builder) missing(r *Resource, h *hintList) {
	s := &r.cfg.Selectors
	if len(s.IfNames)+len(s.RDMADevices)+len(s.PCIAddresses)+len(s.NodeGUIDs)+len(s.PFNames) == 0 {
		return
	}
	if b.seen == nil {
		b.seen = newSeen(b.all)
	}
	absent := func(key, what string, entries []string, there map[string]bool) {
		for _, e := range entries {
			if !there[e] {
				h.add("selectors.%s: this node has no %s %s", key, what, e)
			}
		}
	}
	absent("ifNames", "RDMA device with the network device", s.IfNames, b.seen.ifNames)
	absent("rdmaDevices", "RDMA device", s.RDMADevices, b.seen.names)
	absent("pciAddresses", "RDMA device at the PCI address", s.PCIAddresses, b.seen.addresses)
	absent("nodeGUIDs", "RDMA device with the node GUID", s.NodeGUIDs, b.seen.guids)
	for _, p := range s.PFNames {
		if !slices.ContainsFunc(b.all, func(f *facts) bool { return below(p, f) }) {
			h.add("selectors.pfNames: this node has no virtual or scalable function of %s", p)
		}
	}
}

// taken says which resources have devices that this one selects (R47).
func taken(r *Resource, h *hintList) {
	number := map[string]int{}
	var by []string // in the order of the devices
	for _, t := range r.Taken {
		if number[t.By] == 0 {
			by = append(by, t.By)
		}
		number[t.By]++
	}
	for _, name := range by {
		if r.cfg.Sharing == config.SharingExclusive {
			h.add("%s has %s selected here, and stands first in the file; this resource is exclusive", name, devices(number[name]))
		} else {
			h.add("%s has %s selected here, exclusively", name, devices(number[name]))
		}
	}
}

// whyEmpty says what keeps a resource at 0 devices.
func (b *builder) whyEmpty(r *Resource, rules []test, h *hintList) {
	for _, reason := range b.snap.GetNode().GetReasons()[:min(len(b.snap.GetNode().GetReasons()), maxHints)] {
		h.add("the node: %s", says(reason))
	}
	if len(b.all) == 0 {
		h.add("discoveryd sees no RDMA device on this node")
		return
	}
	unusable := map[string]int{}
	for _, l := range r.LeftOut {
		if reason, ok := strings.CutPrefix(l.Rule, unusablePrefix); ok {
			unusable[reason]++
		}
	}
	reasons := make([]string, 0, len(unusable))
	for reason := range unusable {
		reasons = append(reasons, reason)
	}
	slices.Sort(reasons)
	for _, reason := range reasons {
		h.add("%s selected but unusable: %s", devices(unusable[reason]), reason)
	}
	if len(unusable)+len(r.Taken) > 0 {
		return
	}
	for _, t := range rules {
		if t.single || !t.set(&r.cfg.Selectors) || slices.ContainsFunc(b.all, func(f *facts) bool { return t.ok(&r.cfg.Selectors, f) }) {
			continue
		}
		h.add("selectors.%s: no device has %s; there are %s", t.key, some(t.wants(&r.cfg.Selectors)), some(b.values(t)))
	}
	if len(h.all) == 0 {
		h.add("each selector fits some device, but no device fits all of them")
	}
}

// values are what the devices have of a key, sorted, each once.
func (b *builder) values(t test) []string {
	var all []string
	for _, f := range b.all {
		if got := t.has(f); got != "" {
			all = append(all, got)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func devices(n int) string {
	if n == 1 {
		return "1 device"
	}
	return strconv.Itoa(n) + " devices"
}

type hintList struct{ all []string }

func (h *hintList) add(format string, args ...any) {
	h.all = append(h.all, clip(fmt.Sprintf(format, args...)))
}

func (h *hintList) list() []string {
	if more := len(h.all) - maxHints; more > 0 {
		return append(h.all[:maxHints:maxHints], fmt.Sprintf("and %d hints more", more))
	}
	return h.all
}
