// Warnings of what can never match: the file is right, and can't be what its author
// wants. What depends on the node's devices is told by package resource.
//
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"slices"
)

const (
	maxInterfaceName = 15 // IFNAMSIZ of include/uapi/linux/if.h, less the final NUL
	maxRDMAName      = 63 // IB_DEVICE_NAME_MAX of include/rdma/ib_verbs.h, less the final NUL
)

// tooLong warns of an entry with a name that is longer than what it names can have.
func (f *fields) tooLong(key, entry, name string, longest int, what string) {
	if len(name) > longest {
		f.d.warn(f.join(key), "%s can never match: %s has at most %d bytes", quote(entry), what, longest)
	}
}

// contradictions warns of selectors that no device can ever match.
func (d *decoder) contradictions(s *Selectors, path string) {
	if len(s.Functions) == 0 {
		return
	}
	only := func(kinds ...string) bool {
		return !slices.ContainsFunc(s.Functions, func(f string) bool { return !slices.Contains(kinds, f) })
	}
	everyVF := func(p PFName) bool { return len(p.VFs) == 0 }
	switch {
	case only(FunctionVirtual) && len(s.Vendors)+len(s.DeviceIDs)+len(s.Drivers)+len(s.PCIAddresses)+len(s.NUMANodes) > 0:
		d.warn(path, "can never match: a virtual device has no vendor, device ID, driver, PCI address or NUMA node")
	case only(FunctionVirtual, FunctionPF) && len(s.PFNames) > 0:
		d.warn(path, "can never match: pfNames takes virtual and scalable functions only (vf, sf)")
	case only(FunctionVirtual, FunctionPF, FunctionSF) && len(s.PFNames) > 0 && !slices.ContainsFunc(s.PFNames, everyVF):
		d.warn(path, "can never match: pfNames with a # takes virtual functions only (vf)")
	}
}

// excludesAll warns of an exclude that takes out whatever the selectors take. That is
// so when each key of it has all entries that the same key of the selectors has.
func (f *fields) excludesAll(r *Resource) {
	if r.Exclude.Empty() || r.Selectors.Empty() {
		return
	}
	s, e := &r.Selectors, &r.Exclude
	pfs := func(list []PFName) []string {
		var names []string
		for _, p := range list {
			names = append(names, p.String())
		}
		return names
	}
	if covered(s.Vendors, e.Vendors) && covered(s.DeviceIDs, e.DeviceIDs) && covered(s.Drivers, e.Drivers) && covered(s.IfNames, e.IfNames) &&
		covered(s.LinkTypes, e.LinkTypes) && covered(s.RDMADevices, e.RDMADevices) && covered(s.PCIAddresses, e.PCIAddresses) &&
		covered(pfs(s.PFNames), pfs(e.PFNames)) && covered(s.Functions, e.Functions) && covered(s.NUMANodes, e.NUMANodes) && covered(s.NodeGUIDs, e.NodeGUIDs) {
		f.d.warn(f.join(keyExclude), "takes out every device that the selectors take")
	}
}

// covered tells whether a device that fits the selectors' key must fit that of
// exclude: since this has no entry, or since it has all of those.
func covered[T comparable](selectors, exclude []T) bool {
	if len(exclude) == 0 {
		return true
	}
	return len(selectors) > 0 && !slices.ContainsFunc(selectors, func(entry T) bool { return !slices.Contains(exclude, entry) })
}

// leftNothing warns of a resource that selects what one before it does, where one of
// the two is exclusive: the first gets all.
func (d *decoder) leftNothing(resources []Resource) {
	first := map[string]int{} // by selectors
	for i := range resources {
		r := &resources[i]
		if r.Selectors.Empty() {
			continue
		}
		key := fmt.Sprintf("%+v %+v", r.Selectors, r.Exclude)
		before, doubled := first[key]
		if !doubled {
			first[key] = i
			continue
		}
		if r.Sharing == SharingExclusive || resources[before].Sharing == SharingExclusive {
			d.warn(fmt.Sprintf("%s[%d].%s", keyConfigList, i, keySelectors),
				"are those of %s[%d], which stands first and has all of the devices: one of the two is exclusive", keyConfigList, before)
		}
	}
}
