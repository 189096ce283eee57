// What is there to be read: the entries of the kernel's classes and of the PCI
// bus, and the facts of the node. None of it asks a driver.
//
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"errors"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rdma-relay/rdma-relay/discoveryd/internal/sysfs"
	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

// The classes that tell of RDMA (drivers/infiniband/core).
const (
	classRDMA  = "class/infiniband"
	classVerbs = "class/infiniband_verbs"
	classMAD   = "class/infiniband_mad"
	classNet   = "class/net"
	classCM    = "class/misc/rdma_cm"
	busPCI     = "bus/pci/devices"
)

// entry is one thing to read.
type entry struct {
	name string
	// path is where the entry's link leads, and parent the device that hangs on.
	path   string
	parent string
	err    error // of the link
}

// listing is the host at one moment.
type listing struct {
	rdma   []entry
	bare   []entry           // PCI functions without an RDMA device
	places map[string]*place // by the device's path
	// below are the network devices on bare PCI functions and on devices on these, by
	// the function's path, sorted by name.
	below map[string][]entry

	hasRDMA, hasVerbs, hasMAD bool
	cm                        *char
	netns                     discoveryv1.NetnsMode
	release                   string
}

// list reads the directories. An error means that nothing can be said.
func (v *view) list(netns func() (discoveryv1.NetnsMode, error)) (*listing, error) {
	l := &listing{release: v.kernelRelease(), cm: v.readCM(), below: map[string][]entry{}}
	rdma, nets := &class{path: classRDMA}, &class{path: classNet}
	verbs, mad := &class{path: classVerbs, kinds: []kind{uverbs}}, &class{path: classMAD, kinds: []kind{umad, issm}}
	all := []*class{rdma, nets, verbs, mad}
	parallel(len(all), func(i int) { all[i].read(v) })
	for _, c := range all {
		if c.err != nil {
			return nil, c.err
		}
	}
	l.rdma, l.hasRDMA, l.hasVerbs, l.hasMAD = rdma.entries, rdma.has, verbs.has, mad.has
	l.places = make(map[string]*place, len(nets.entries))
	for _, e := range l.rdma {
		l.at(e.parent).rdma++
	}
	for _, e := range nets.entries {
		p := l.at(e.parent)
		p.nets = append(p.nets, e)
	}
	for _, c := range []*class{verbs, mad} {
		for _, e := range c.entries {
			if e.err == nil { // else nobody knows whose it is; its owner will lack it
				p := l.at(e.parent)
				if p.chars == nil {
					p.chars = make([]entry, 0, 3) // uverbs, umad, issm
				}
				p.chars = append(p.chars, e)
			}
		}
	}
	if err := v.listFunctions(l); err != nil {
		return nil, err
	}
	// The question alone makes the kernel load ib_core (its alias net-pf-16-proto-20),
	// so that a host without RDMA would get it, and one that unloads it again.
	if v.live && len(l.rdma)+len(verbs.entries) > 0 {
		// A kernel without the answer is no error (R51): the mode is not known.
		l.netns, _ = netns()
	}
	return l, nil
}

// class is a directory of links to read.
type class struct {
	path  string
	kinds []kind                 // of character devices that are wanted
	want  func(name []byte) bool // which names; nil is all

	has     bool // it exists
	entries []entry
	err     error
}

// read reads the class.
func (c *class) read(v *view) {
	dir, err := v.sys.OpenDir(c.path)
	if err != nil {
		if !errors.Is(err, unix.ENOENT) {
			c.err = err
		}
		return
	}
	defer dir.Close()
	c.has = true
	want := c.want
	if c.kinds != nil {
		want = func(name []byte) bool { return slices.Contains(c.kinds, charKind(string(name))) }
	}
	names, err := dir.Match(want)
	if err != nil {
		c.err = err
		return
	}
	if !slices.Contains(c.kinds, issm) {
		c.entries = v.follow(dir, names)
		return
	}
	// issmN is where umadN is (drivers/infiniband/core/user_mad.c,
	// ib_umad_init_port): its link need not be read.
	twin := func(name, kind, other string) (string, bool) {
		number, is := strings.CutPrefix(name, kind)
		if !is {
			return "", false
		}
		_, found := slices.BinarySearch(names, other+number)
		return other + number, found
	}
	links := make([]string, 0, len(names))
	for _, name := range names {
		if _, has := twin(name, "issm", "umad"); !has {
			links = append(links, name)
		}
	}
	c.entries = make([]entry, 0, len(names))
	for _, e := range v.follow(dir, links) {
		c.entries = append(c.entries, e)
		if name, has := twin(e.name, "umad", "issm"); has && e.err == nil {
			c.entries = append(c.entries, entry{name: name, path: up(e.path) + "/" + name, parent: e.parent})
		}
	}
}

// follow finds out where the links in a class's directory lead, and leaves out
// those that have vanished.
func (v *view) follow(dir *sysfs.Dir, names []string) []entry {
	list := make([]entry, len(names))
	parallel(len(names), func(i int) {
		p, err := dir.Link(names[i])
		if errors.Is(err, unix.EINVAL) { // a recorded tree may have directories for links
			p, err = dir.Path()+"/"+names[i], nil
		}
		list[i] = entry{name: names[i], path: p, parent: v.parentOf(p), err: err}
	})
	return slices.DeleteFunc(list, func(e entry) bool { return errors.Is(e.err, unix.ENOENT) })
}

// parentOf is the path of the device that the class entry at p hangs on. In a
// recorded tree the entry may stand in the class itself; its link named device leads
// to the parent then.
func (v *view) parentOf(p string) string {
	if !strings.HasPrefix(p, "devices/") {
		if parent, err := v.sys.Resolve(p + "/device"); err == nil {
			return parent
		}
	}
	return up(up(p))
}

// up is the directory that a canonical path is in.
func up(p string) string {
	i := strings.LastIndexByte(p, '/')
	if i < 0 {
		return "."
	}
	return p[:i]
}

// listFunctions finds the PCI functions that no RDMA device is on, and what network
// devices are below them.
func (v *view) listFunctions(l *listing) error {
	used := make(map[string]bool, len(l.rdma))
	for path, p := range l.places {
		if p.rdma > 0 {
			used[locate(path).pci] = true
		}
	}
	for path, p := range l.places {
		if len(p.nets) == 0 || p.rdma > 0 {
			continue
		}
		if at := locate(path); at.pci != "" && !used[at.pci] {
			l.below[at.pciPath] = append(l.below[at.pciPath], p.nets...)
		}
	}
	for _, nets := range l.below {
		slices.SortFunc(nets, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	}
	bus := &class{path: busPCI, want: func(name []byte) bool { return !used[string(name)] && isPCIAddress(string(name)) }}
	bus.read(v)
	l.bare = bus.entries
	return bus.err
}
