// Where things are: the device that RDMA devices and their files hang on, and what
// its path tells.
//
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"strings"
	"sync"
)

// place is a device that others hang on: a PCI function, a device on it, or
// devices/virtual for all that have none.
type place struct {
	rdma  int // how many RDMA devices are on it
	nets  []entry
	chars []entry

	once sync.Once
	read []*char // chars, where it takes reading to tell whose they are
}

// at is the place with that path.
func (l *listing) at(path string) *place {
	p := l.places[path]
	if p == nil {
		p = &place{}
		l.places[path] = p
	}
	return p
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
