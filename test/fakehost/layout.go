// From the description of an HCA to the files and links that a kernel would show.
//
// SPDX-License-Identifier: Apache-2.0

package fakehost

import (
	"cmp"
	"path"
	"slices"
	"strconv"
	"strings"
)

// kind tells what an entry is.
type kind int

const (
	aDir kind = iota
	aFile
	aLink
	aNode
)

// entry is one thing in the tree. Entries are comparable, so that a change of an
// HCA is the difference of two layouts.
type entry struct {
	path string // below the root
	kind kind
	text string // of a file; target of a link; major:minor of a node
	keep bool   // stays when the HCA goes, as class and driver directories do
}

// layout collects entries.
type layout []entry

func (l *layout) dir(path string) { *l = append(*l, entry{path: path, kind: aDir, keep: true}) }

func (l *layout) file(dir, name, text string) {
	if text != "" && text != None {
		*l = append(*l, entry{path: path.Join(dir, name), kind: aFile, text: text})
	}
}

// link adds a relative link in the form that sysfs gives (fs/kernfs/symlink.c):
// up to a directory above the target's parent, then down again.
func (l *layout) link(from, target string) {
	*l = append(*l, entry{path: from, kind: aLink, text: path.Join(relative(path.Dir(from), path.Dir(target)), path.Base(target))})
}

// relative is the way from one directory to another; both are below the root.
func relative(from, to string) string {
	f, t := strings.Split(from, "/"), strings.Split(to, "/")
	for len(f) > 0 && len(t) > 0 && f[0] == t[0] {
		f, t = f[1:], t[1:]
	}
	return strings.Repeat("../", len(f)) + strings.Join(t, "/")
}

// device is an HCA in the tree and what happened to it.
type device struct {
	HCA
	unbound bool // its driver was taken away
	numVFs  int  // virtual functions of it in the tree
}

// function is the directory of the PCI function.
func (d device) function() string { return path.Join("sys/devices", d.Root, d.Bridge, d.PCI) }

// parent is the directory below which the RDMA and network devices hang.
func (d device) parent() string {
	if d.Virtual {
		return "sys/devices/virtual"
	}
	return path.Join(d.function(), d.Aux+d.Virtio)
}

// infiniband is the directory of the RDMA device.
func (d device) infiniband() string { return path.Join(d.parent(), "infiniband", d.Name) }

// layout is all that the tree holds of the device, in the order in which it
// should appear: attributes first, the links by which a scan comes to them last.
func (d device) layout() layout {
	var l layout
	l.dir("sys/class/net")
	if !d.Virtual {
		d.functionLayout(&l)
	}
	if !d.unbound {
		for _, n := range d.Nets {
			d.netLayout(&l, n)
		}
		if d.Name != "" {
			d.rdmaLayout(&l)
		}
	}
	slices.SortStableFunc(l, func(a, b entry) int { return cmp.Compare(rank(a.path), rank(b.path)) })
	return l
}

// rank orders entries for appearance; a later one leads to earlier ones.
func rank(p string) int {
	for i, prefix := range []string{"sys/devices/", "dev/", "sys/bus/", "sys/class/net", "sys/class/infiniband_", "sys/class/infiniband/"} {
		if strings.HasPrefix(p, prefix) {
			return i
		}
	}
	return 0
}

func (d device) functionLayout(l *layout) {
	fn := d.function()
	l.dir("sys/bus/pci/drivers")
	l.file(fn, "vendor", d.Vendor)
	l.file(fn, "device", d.Device)
	l.file(fn, "subsystem_vendor", d.SubVendor)
	l.file(fn, "subsystem_device", d.SubDevice)
	l.file(fn, "class", d.Class)
	l.file(fn, "numa_node", d.NUMA)
	if d.TotalVFs > 0 {
		l.file(fn, "sriov_totalvfs", strconv.Itoa(d.TotalVFs))
		l.file(fn, "sriov_numvfs", strconv.Itoa(d.numVFs))
	}
	if d.PF != "" {
		pf := path.Join(path.Dir(fn), d.PF)
		l.link(path.Join(fn, "physfn"), pf)
		l.link(path.Join(pf, "virtfn"+strconv.Itoa(d.VFIndex)), fn)
	}
	if d.Complete {
		l.link(path.Join(fn, "subsystem"), "sys/bus/pci")
		d.functionUevent(l)
	}
	d.driverLayout(l, fn, "pci", d.Driver)
	l.link(path.Join("sys/bus/pci/devices", d.PCI), fn)

	// The device between the function and its RDMA device, if there is one.
	switch sub := d.parent(); {
	case d.Aux != "":
		name, _, _ := strings.Cut(d.Aux, ".")
		l.file(sub, "sfnum", d.Aux[strings.LastIndex(d.Aux, ".")+1:])
		l.link(path.Join(sub, "subsystem"), "sys/bus/auxiliary")
		d.driverLayout(l, sub, "auxiliary", name+".sf")
		l.link(path.Join("sys/bus/auxiliary/devices", d.Aux), sub)
	case d.Virtio != "":
		l.link(path.Join(sub, "subsystem"), "sys/bus/virtio")
		d.driverLayout(l, sub, "virtio", "virtio_net")
		l.link(path.Join("sys/bus/virtio/devices", d.Virtio), sub)
	}
}

// driverLayout binds the device in dir to a driver of its bus.
func (d device) driverLayout(l *layout, dir, bus, driver string) {
	if d.unbound || driver == None {
		return
	}
	driverDir := path.Join("sys/bus", bus, "drivers", driver)
	l.dir(driverDir)
	l.link(path.Join(dir, "driver"), driverDir)
	if d.Complete {
		l.link(path.Join(driverDir, path.Base(dir)), dir)
	}
}

func (d device) netLayout(l *layout, n Net) {
	dir := path.Join(d.parent(), "net", n.Name)
	l.file(dir, "type", n.Type)
	l.file(dir, "operstate", n.OperState)
	l.file(dir, "carrier", n.Carrier)
	l.file(dir, "ifindex", n.IfIndex)
	l.file(dir, "dev_port", n.DevPort)
	l.file(dir, "address", n.Address)
	l.file(dir, "mtu", n.MTU)
	l.file(dir, "phys_port_name", n.PhysPortName)
	l.file(dir, "phys_switch_id", n.PhysSwitchID)
	if d.Complete {
		l.file(dir, "uevent", "INTERFACE="+n.Name+"\nIFINDEX="+n.IfIndex)
	}
	d.classLinks(l, "net", n.Name)

	// Stacked devices are virtual, and each knows the other by a link
	// (net/core/dev.c, netdev_adjacent_sysfs_add).
	uppers := n.Uppers
	if n.Master != "" {
		uppers = append(slices.Clip(uppers), n.Master)
		l.link(path.Join(dir, "master"), path.Join("sys/devices/virtual/net", n.Master))
	}
	for _, upper := range uppers {
		upperDir := path.Join("sys/devices/virtual/net", upper)
		l.link(path.Join(dir, "upper_"+upper), upperDir)
		l.link(path.Join(upperDir, "lower_"+n.Name), dir)
	}
}

// classLinks makes a device below the parent known in its class.
func (d device) classLinks(l *layout, class, name string) {
	dir := path.Join(d.parent(), class, name)
	if !d.Virtual {
		l.link(path.Join(dir, "device"), d.parent())
	}
	if d.Complete {
		l.link(path.Join(dir, "subsystem"), path.Join("sys/class", class))
	}
	l.link(path.Join("sys/class", class, name), dir)
}

func (d device) rdmaLayout(l *layout) {
	for _, class := range []string{"infiniband", "infiniband_verbs", "infiniband_mad"} {
		l.dir(path.Join("sys/class", class))
	}
	l.dir("dev/infiniband")

	dir := d.infiniband()
	l.file(dir, "node_type", d.NodeType)
	l.file(dir, "node_guid", d.NodeGUID)
	l.file(dir, "sys_image_guid", d.SysImageGUID)
	l.file(dir, "fw_ver", d.Firmware)
	l.file(dir, "parent", d.Parent)
	for i, port := range d.Ports {
		portDir := path.Join(dir, "ports", strconv.Itoa(i+1))
		l.file(portDir, "link_layer", port.LinkLayer)
		l.file(portDir, "state", port.State)
		l.file(portDir, "phys_state", port.PhysState)
		l.file(portDir, "rate", port.Rate)
		for j, gid := range port.GIDs {
			l.file(portDir, "gids/"+strconv.Itoa(j), gid)
		}
		for j, net := range port.GIDNets {
			l.file(portDir, "gid_attrs/ndevs/"+strconv.Itoa(j), net)
		}
		for j, gidType := range port.GIDTypes {
			l.file(portDir, "gid_attrs/types/"+strconv.Itoa(j), gidType)
		}
	}
	if d.Complete {
		l.file(dir, "uevent", "NAME="+d.Name)
	}
	d.classLinks(l, "infiniband", d.Name)
	for _, c := range d.Chars {
		d.charLayout(l, c)
	}
}

func (d device) charLayout(l *layout, c Char) {
	class := "infiniband_mad"
	if c.Kind == "uverbs" {
		class = "infiniband_verbs"
	}
	dir := path.Join(d.parent(), class, c.name())
	l.file(dir, "ibdev", d.Name)
	if c.Port > 0 {
		l.file(dir, "port", strconv.Itoa(c.Port))
	}
	if d.Complete {
		l.file(dir, "dev", c.number())
		l.file(dir, "uevent", c.uevent())
		l.link(path.Join("sys/dev/char", c.number()), dir)
	}
	d.classLinks(l, class, c.name())
	*l = append(*l, entry{path: path.Join("dev/infiniband", c.name()), kind: aNode, text: c.number()})
}
