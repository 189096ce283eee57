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
	l := &listing{release: v.kernelRelease(), cm: v.readCM(), places: map[string]*place{}, below: map[string][]entry{}}
	var err error
	if l.rdma, l.hasRDMA, err = v.entries(classRDMA, nil); err != nil {
		return nil, err
	}
	for _, e := range l.rdma {
		l.at(e.parent).rdma++
	}
	if l.hasVerbs, err = v.listChars(l, classVerbs, uverbs); err != nil {
		return nil, err
	}
	if l.hasMAD, err = v.listChars(l, classMAD, umad, issm); err != nil {
		return nil, err
	}
	nets, _, err := v.entries(classNet, nil)
	if err != nil {
		return nil, err
	}
	for _, e := range nets {
		at := l.at(e.parent)
		at.nets = append(at.nets, e)
	}
	if err := v.listFunctions(l); err != nil {
		return nil, err
	}
	if v.live {
		// A kernel without the answer is no error (R51): the mode is not known.
		l.netns, _ = netns()
	}
	return l, nil
}

// entries are the links in a class's directory whose names want takes; nil takes
// all. has tells whether the class exists.
func (v *view) entries(class string, want func(name []byte) bool) (list []entry, has bool, err error) {
	dir, names, err := v.class(class, want)
	if dir == nil {
		return nil, false, err
	}
	defer dir.Close()
	return v.follow(dir, names), true, nil
}

// class opens a class's directory and gives the names that want takes. The
// directory is nil if there is none.
func (v *view) class(class string, want func(name []byte) bool) (*sysfs.Dir, []string, error) {
	dir, err := v.sys.OpenDir(class)
	if errors.Is(err, unix.ENOENT) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	names, err := dir.Match(want)
	if err != nil {
		dir.Close()
		return nil, nil, err
	}
	return dir, names, nil
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

// listChars adds the entries of a class whose names are of the kinds. issmN is at
// the same place as umadN (drivers/infiniband/core/user_mad.c, ib_umad_init_port):
// its link need not be read.
func (v *view) listChars(l *listing, class string, kinds ...discoveryv1.CharDeviceKind) (has bool, err error) {
	dir, names, err := v.class(class, func(name []byte) bool { return slices.Contains(kinds, charKind(string(name))) })
	if dir == nil {
		return false, err
	}
	defer dir.Close()
	hasTwin := func(name, kind, twin string) (string, bool) {
		number, is := strings.CutPrefix(name, kind)
		if !is {
			return "", false
		}
		_, found := slices.BinarySearch(names, twin+number)
		return twin + number, found
	}
	links := slices.DeleteFunc(slices.Clone(names), func(name string) bool { _, has := hasTwin(name, "issm", "umad"); return has })
	for _, e := range v.follow(dir, links) {
		if e.err != nil {
			continue // nobody knows whose it is; its owner will lack it
		}
		p := l.at(e.parent)
		p.chars = append(p.chars, e)
		if name, has := hasTwin(e.name, "umad", "issm"); has {
			p.chars = append(p.chars, entry{name: name, path: up(e.path) + "/" + name, parent: e.parent})
		}
	}
	return true, nil
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
func (v *view) listFunctions(l *listing) (err error) {
	used := map[string]bool{}
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
	l.bare, _, err = v.entries(busPCI, func(name []byte) bool { return !used[string(name)] && isPCIAddress(string(name)) })
	return err
}
