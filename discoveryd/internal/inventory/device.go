// One RDMA device, or one PCI function that has none, read from its own files.
//
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"errors"
	"path"
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
	parent string   // path of the parent, by which strange character devices are told apart
	broken notes    // attributes that are strange
	excess []string // what there was too much of
}

// readDevice reads the RDMA device that e leads to.
func (v *view) readDevice(e entry) *facts {
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
	a := &attrs{dir: dir, broken: &f.broken}
	a.parsed("node_type", func(text string) (ok bool) { d.NodeType, ok = nodeType(text); return })
	a.parsed("node_guid", func(text string) (ok bool) { d.NodeGuid, ok = guid(text); return })
	a.parsed("sys_image_guid", func(text string) (ok bool) { d.SysImageGuid, ok = guid(text); return })
	d.FirmwareVersion = a.text("fw_ver")

	at := v.home(dir)
	f.parent = at.parent
	d.Parent = v.readParent(at, &f.broken)
	v.readPorts(dir, f)
	v.attachNets(dir, at, f)
	return f
}

// unread is what can be said of a device without reading any file of it.
func unread(e entry) *facts {
	name, clean := safeName(e.name)
	f := &facts{device: &discoveryv1.Device{Name: name, Parent: &discoveryv1.Parent{}}}
	if !clean {
		f.broken.add("name", errNonsense)
	}
	if e.err != nil {
		return f
	}
	at := locate(e.path)
	f.parent = at.parent
	setPlace(f.device.Parent, at, virtual(e.path))
	return f
}

// home tells where the RDMA device in dir sits. In a recorded tree its directory
// may stand in the class itself; its link named device leads to the parent then.
func (v *view) home(dir *sysfs.Dir) location {
	at := locate(dir.Path())
	if strings.HasPrefix(dir.Path(), "devices/") {
		return at
	}
	if parent, err := v.sys.Resolve(path.Join(dir.Path(), "device")); err == nil {
		at = locate(path.Join(parent, "infiniband", path.Base(dir.Path())))
	}
	return at
}

// setPlace fills in what the path alone tells.
func setPlace(p *discoveryv1.Parent, at location, none bool) {
	p.PciAddress, p.PcieRoot = at.pci, at.pcieRoot
	switch {
	case at.auxiliary != "":
		p.Bus = discoveryv1.Bus_BUS_AUXILIARY
		p.AuxiliaryName, _ = safeName(at.auxiliary)
	case at.pci != "":
		p.Bus = discoveryv1.Bus_BUS_PCI
	case none:
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

// readBare reads a PCI function without an RDMA device. It is for the snapshot
// only if it is a network function.
func (v *view) readBare(e entry, hasNet bool) *facts {
	f := &facts{device: &discoveryv1.Device{}}
	at := locate(path.Join(e.path, "infiniband", "none"))
	if e.err != nil || at.pci != e.name {
		f.gone = true
		return f
	}
	dir, err := v.sys.OpenDir(at.pciPath)
	if err != nil {
		f.gone = true
		return f
	}
	defer dir.Close()
	class, _ := dir.Text("class")
	class, _ = hexID(class, 6)
	if !hasNet && !strings.HasPrefix(class, pciNetwork) && !strings.HasPrefix(class, pciInfiniBand) {
		f.gone = true
		return f
	}
	f.parent = at.parent
	f.device.Parent = v.readParent(at, &f.broken)
	v.attachOther(at, f)
	return f
}
