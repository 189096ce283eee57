// What is there to be read: the entries of the kernel's classes and of the PCI
// bus, and the facts of the node. None of it asks a driver.
//
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"errors"
	"path"
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
	// path is where the entry's link leads.
	path string
	err  error // of the link
}

// listing is the host at one moment.
type listing struct {
	rdma  []entry
	chars []entry // of both classes; the name alone tells the kind
	bare  []entry // PCI functions without an RDMA device

	hasRDMA, hasVerbs, hasMAD bool
	cm                        *char
	netns                     discoveryv1.NetnsMode
	release                   string
	netFunctions              map[string]bool // PCI addresses with a network device
}

// list reads the directories. An error means that nothing can be said.
func (v *view) list(netns func() (discoveryv1.NetnsMode, error)) (*listing, error) {
	l := &listing{release: v.kernelRelease(), netFunctions: map[string]bool{}}
	var err error
	if l.rdma, l.hasRDMA, err = v.entries(classRDMA, nil); err != nil {
		return nil, err
	}
	verbs, hasVerbs, err := v.entries(classVerbs, func(name string) bool { return charKind(name) == uverbs })
	if err != nil {
		return nil, err
	}
	mads, hasMAD, err := v.entries(classMAD, func(name string) bool { return charKind(name) == umad || charKind(name) == issm })
	if err != nil {
		return nil, err
	}
	l.hasVerbs, l.hasMAD = hasVerbs, hasMAD
	l.chars = append(verbs, mads...)
	l.cm = v.readCM()
	if err := v.listFunctions(l); err != nil {
		return nil, err
	}
	if v.live {
		// A kernel without the answer is no error (R51): the mode is not known.
		l.netns, _ = netns()
	}
	return l, nil
}

// entries are the links in a class's directory whose names want takes. has tells
// whether the class exists.
func (v *view) entries(class string, want func(name string) bool) (list []entry, has bool, err error) {
	names, err := v.sys.Names(class)
	if err != nil {
		return nil, false, err
	}
	for _, name := range names {
		if want != nil && !want(name) {
			continue
		}
		e := entry{name: name}
		e.path, e.err = v.sys.Readlink(path.Join(class, name))
		switch {
		case errors.Is(e.err, unix.EINVAL): // a recorded tree may have directories for links
			e.path, e.err = path.Join(class, name), nil
		case errors.Is(e.err, unix.ENOENT):
			continue // gone again
		}
		list = append(list, e)
	}
	return list, names != nil, nil
}

// listFunctions finds the PCI functions that no RDMA device is on.
func (v *view) listFunctions(l *listing) error {
	used := map[string]bool{}
	for _, e := range l.rdma {
		used[locate(e.path).pci] = true
	}
	nets, _, err := v.entries(classNet, nil)
	if err != nil {
		return err
	}
	for _, e := range nets {
		l.netFunctions[locate(e.path).pci] = true
	}
	functions, _, err := v.entries(busPCI, func(name string) bool { return isPCIAddress(name) && !used[name] })
	l.bare = functions
	return err
}

// location is what a path in sys/devices tells.
type location struct {
	pci       string // address of the innermost PCI function on the way
	pciPath   string
	pcieRoot  string
	auxiliary string // name of an auxiliary device below the function
	parent    string // path of the device that the entry belongs to
}

// locate takes apart the path of a class entry, such as
// devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0/infiniband/mlx5_0.
func locate(p string) location {
	at := location{parent: path.Dir(path.Dir(p))}
	if !strings.HasPrefix(p, "devices/") {
		return at
	}
	end := 0
	for name := range strings.SplitSeq(at.parent, "/") {
		end += len(name)
		switch {
		case isPCIRoot(name) && at.pcieRoot == "":
			at.pcieRoot = name
		case isPCIAddress(name):
			at.pci, at.pciPath, at.auxiliary = name, p[:end], ""
		case at.pci != "" && isAuxiliary(name):
			at.auxiliary = name
		}
		end++ // the slash
	}
	return at
}

// virtual tells whether no device is behind the entry at p.
func virtual(p string) bool {
	return strings.HasPrefix(p, "devices/virtual/") || !strings.HasPrefix(p, "devices/")
}
