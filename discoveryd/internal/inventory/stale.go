// What may differ from the last scan.
//
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"maps"
	"strings"
)

// Stale is what may differ from the last scan. The zero value is nothing.
type Stale struct {
	all     bool
	classes bool // the lists of what there is
	// What is known of: the things with these keys, those that hang on these devices,
	// and the RDMA devices with these names.
	keys, places, names set
}

type set map[string]struct{}

func (s set) has(key string) bool { _, has := s[key]; return has }

func (s set) and(other set) set {
	if len(s) == 0 {
		return other
	}
	both := maps.Clone(s)
	maps.Copy(both, other)
	return both
}

// Everything is the whole host.
func Everything() Stale { return Stale{all: true} }

// Classes is the lists of what there is: what has come is read, what is known of the
// others stands.
func Classes() Stale { return Stale{classes: true} }

// Places is what hangs on the devices at these paths in sysfs
// (devices/pci0000:3a/0000:3b:00.0), or is another part of the same PCI function.
func Places(paths map[string]struct{}) Stale { return Stale{classes: len(paths) > 0, places: paths} }

// Devices is the RDMA devices with these names.
func Devices(names map[string]struct{}) Stale { return Stale{classes: len(names) > 0, names: names} }

// Any tells whether it is anything at all.
func (s Stale) Any() bool { return s.all || s.classes || len(s.keys) > 0 }

// All tells whether it is the whole host.
func (s Stale) All() bool { return s.all }

// And is what is in any of the two.
func (s Stale) And(other Stale) Stale {
	return Stale{
		all: s.all || other.all, classes: s.classes || other.classes,
		keys: s.keys.and(other.keys), places: s.places.and(other.places), names: s.names.and(other.names),
	}
}

func (s *Stale) add(e entry) {
	if s.keys == nil {
		s.keys = set{}
	}
	s.keys[e.key()] = struct{}{}
}

// standing are what is known of things and not stale, by their keys.
type standing struct {
	Stale
	results    map[string]result
	functions  set // the PCI functions of the places, by path
	physical   set // the same, by address
	otherwhere []string
}

// standing finds out what of the last scan stands.
func (s *Scanner) standing(stale Stale) *standing {
	st := &standing{Stale: stale, results: map[string]result{}, functions: set{}, physical: set{}}
	if stale.all {
		return st
	}
	for _, r := range s.last.results {
		st.results[r.key()] = r
	}
	for p := range stale.places {
		if at := locate(p); at.pci != "" {
			st.functions[at.pciPath] = struct{}{}
			st.physical[at.pci] = struct{}{}
		} else {
			st.otherwhere = append(st.otherwhere, p)
		}
	}
	return st
}

// find is what is known of e, if that stands. A function with an RDMA device now is
// another thing than the same without, as its key tells.
func (st *standing) find(e entry) (answer[*facts], bool) {
	r, known := st.results[e.key()]
	if !known || e.err != nil || r.err != nil || !r.answer.fresh || r.answer.value.gone || st.keys.has(e.key()) || st.names.has(e.name) {
		return answer[*facts]{}, false
	}
	parent := r.answer.value.device.GetParent()
	if st.physical.has(parent.GetPfAddress()) { // its uplinks are among the facts
		return answer[*facts]{}, false
	}
	at := locate(e.path)
	if at.pci != "" {
		return r.answer, !st.functions.has(at.pciPath)
	}
	for _, p := range st.otherwhere {
		if strings.HasPrefix(e.path, p+"/") {
			return answer[*facts]{}, false
		}
	}
	return r.answer, true
}
