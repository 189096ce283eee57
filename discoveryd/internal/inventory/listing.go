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
	rdma []entry
	bare []entry // PCI functions without an RDMA device
	// What hangs on a device, by the path of that device.
	chars map[string]*group
	nets  map[string][]entry
	// below are the network devices by the PCI function that they, or the device
	// they hang on, are on.
	below map[string][]entry

	hasRDMA, hasVerbs, hasMAD bool
	cm                        *char
	netns                     discoveryv1.NetnsMode
	release                   string
}

// list reads the directories. An error means that nothing can be said.
func (v *view) list(netns func() (discoveryv1.NetnsMode, error)) (*listing, error) {
	l := &listing{
		release: v.kernelRelease(), cm: v.readCM(),
		chars: map[string]*group{}, nets: map[string][]entry{}, below: map[string][]entry{},
	}
	var err error
	if l.rdma, l.hasRDMA, err = v.entries(classRDMA, nil); err != nil {
		return nil, err
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
		l.nets[e.parent] = append(l.nets[e.parent], e)
		if function := locate(e.parent).pciPath; function != "" {
			l.below[function] = append(l.below[function], e)
		}
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
func (v *view) entries(class string, want func(name string) bool) (list []entry, has bool, err error) {
	dir, err := v.sys.OpenDir(class)
	if errors.Is(err, unix.ENOENT) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	defer dir.Close()
	names, err := dir.Names()
	if err != nil {
		return nil, false, err
	}
	if want != nil {
		names = slices.DeleteFunc(names, func(name string) bool { return !want(name) })
	}
	list = make([]entry, len(names))
	parallel(len(names), func(i int) {
		p, err := dir.Link(names[i])
		if errors.Is(err, unix.EINVAL) { // a recorded tree may have directories for links
			p, err = dir.Path()+"/"+names[i], nil
		}
		list[i] = entry{name: names[i], path: p, parent: v.parentOf(p), err: err}
	})
	return slices.DeleteFunc(list, func(e entry) bool { return errors.Is(e.err, unix.ENOENT) }), true, nil
}

// listChars adds the entries of a class whose names are of the kinds.
func (v *view) listChars(l *listing, class string, kinds ...discoveryv1.CharDeviceKind) (has bool, err error) {
	list, has, err := v.entries(class, func(name string) bool { return slices.Contains(kinds, charKind(name)) })
	for _, e := range list {
		if e.err != nil {
			continue // nobody knows whose it is; its owner will lack it
		}
		if l.chars[e.parent] == nil {
			l.chars[e.parent] = &group{}
		}
		l.chars[e.parent].entries = append(l.chars[e.parent].entries, e)
	}
	return has, err
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

// listFunctions finds the PCI functions that no RDMA device is on.
func (v *view) listFunctions(l *listing) (err error) {
	used := map[string]bool{}
	for _, e := range l.rdma {
		used[locate(e.parent).pci] = true
		if g := l.chars[e.parent]; g != nil {
			g.owners++
		}
	}
	l.bare, _, err = v.entries(busPCI, func(name string) bool { return isPCIAddress(name) && !used[name] })
	return err
}

// location is what a path in sys/devices tells.
type location struct {
	pci       string // address of the innermost PCI function on the way
	pciPath   string
	pcieRoot  string
	auxiliary string // name of an auxiliary device below the function
	parent    string // the whole path
}

// locate takes apart the path of the device that RDMA and network devices hang on,
// such as devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0/virtio1.
func locate(parent string) location {
	at := location{parent: parent}
	if !strings.HasPrefix(parent, "devices/") {
		return at
	}
	end := 0
	for name := range strings.SplitSeq(parent, "/") {
		end += len(name)
		switch {
		case isPCIRoot(name) && at.pcieRoot == "":
			at.pcieRoot = name
		case isPCIAddress(name):
			at.pci, at.pciPath, at.auxiliary = name, parent[:end], ""
		case at.pci != "" && isAuxiliary(name):
			at.auxiliary = name
		}
		end++ // the slash
	}
	return at
}

// virtual tells whether there is no device: what hangs on nothing does so on
// devices/virtual.
func (at location) virtual() bool {
	return at.parent == "devices/virtual" || !strings.HasPrefix(at.parent, "devices/")
}
