// One RDMA device, or one PCI function that has none, read from its own files.
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

// facts are what one device's own files say. They are never changed once read.
type facts struct {
	gone bool // vanished meanwhile, or not for the snapshot
	// device lacks the character devices and the reasons; assemble.go adds them.
	device *discoveryv1.Device
	chars  []*char
	broken notes    // attributes that are strange
	excess []string // what there was too much of
	// hasCompany: there are other RDMA devices on the same place, which is hardware.
	hasCompany bool
}

// readDevice reads the RDMA device that e leads to.
func (v *view) readDevice(l *listing, e entry) *facts {
	f := unread(e)
	if e.err != nil {
		f.broken.add("device", e.err)
		return f
	}
	dir, err := v.sys.OpenDir(e.path)
	if err != nil {
		f.gone = sysfs.Absent(err) || errors.Is(err, unix.ENOTDIR)
		f.broken.add("device", err)
		return f
	}
	defer dir.Close()
	d := f.device
	a := &attrs{from: dir, broken: &f.broken}
	a.parsed("node_type", func(text string) (ok bool) { d.NodeType, ok = nodeType(text); return })
	d.NodeGuid = strings.ToLower(a.text("node_guid"))
	d.SysImageGuid = strings.ToLower(a.text("sys_image_guid"))
	d.FirmwareVersion = a.text("fw_ver")

	if dir.Path() != e.path { // by way of further links, in a recorded tree
		e.path, e.parent = dir.Path(), v.parentOf(dir.Path())
		d.Parent = &discoveryv1.Parent{}
		setPlace(d.Parent, locate(e.parent))
	}
	at := locate(e.parent)
	v.readParent(d.Parent, at, &f.broken)
	v.readPorts(dir, f)
	v.attachNets(dir, f, v.netsOf(l, at, f))
	if p := l.places[at.parent]; p != nil {
		f.hasCompany = p.rdma > 1 && !at.virtual()
		f.chars = v.charsOf(p, e.name, d.GetPorts())
	}
	if len(f.broken) > 0 && !v.sys.Exists(e.path) {
		f.gone = true // it went while it was read
	}
	return f
}

// unread is what can be said of a device without reading any file of it.
func unread(e entry) *facts {
	name, clean := safeName(e.name)
	f := &facts{device: &discoveryv1.Device{Name: name, Parent: &discoveryv1.Parent{}}}
	if !clean {
		f.broken.add("name", errNonsense)
	}
	if e.err == nil {
		setPlace(f.device.Parent, locate(e.parent))
	}
	return f
}

// setPlace fills in what the path alone tells.
func setPlace(p *discoveryv1.Parent, at location) {
	p.PciAddress, p.PcieRoot = at.pci, at.pcieRoot
	switch {
	case at.auxiliary != "":
		p.Bus = discoveryv1.Bus_BUS_AUXILIARY
		p.AuxiliaryName, _ = safeName(at.auxiliary)
	case at.pci != "":
		p.Bus = discoveryv1.Bus_BUS_PCI
	case at.virtual():
		p.Bus = discoveryv1.Bus_BUS_NONE
		p.Function = discoveryv1.FunctionKind_FUNCTION_KIND_VIRTUAL
	}
}

// The first digits of the PCI classes in which RDMA functions are found
// (include/linux/pci_ids.h): network controllers, and serial bus controllers of
// the sub-class InfiniBand.
const (
	pciNetwork    = "02"
	pciInfiniBand = "0c06"
)

// readBare reads a PCI function without an RDMA device. It is for the snapshot only
// if it is a network function.
func (v *view) readBare(l *listing, e entry) *facts {
	f := &facts{device: &discoveryv1.Device{Parent: &discoveryv1.Parent{}}}
	at := locate(e.path)
	if f.gone = e.err != nil || at.pci != e.name; f.gone {
		return f
	}
	class, err := v.sys.Text(e.path + "/class")
	if f.gone = sysfs.Absent(err); f.gone {
		return f
	}
	class, _ = hexID(class, 6)
	nets := l.below[e.path]
	if len(nets) == 0 && !strings.HasPrefix(class, pciNetwork) && !strings.HasPrefix(class, pciInfiniBand) {
		f.gone = true
		return f
	}
	setPlace(f.device.Parent, at)
	v.readParent(f.device.Parent, at, &f.broken)
	for _, n := range v.readAll(nets, f) {
		f.device.OtherNetDevices = append(f.device.OtherNetDevices, n.fact)
	}
	slices.SortFunc(f.device.OtherNetDevices, byName)
	return f
}
