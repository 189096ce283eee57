// Device files and network devices that belong to no HCA, and where to find
// things in the tree.
//
// SPDX-License-Identifier: Apache-2.0

package fakehost

import (
	"fmt"
	"path/filepath"
	"slices"
)

const cmPath = "dev/infiniband/rdma_cm"

// RemoveChar takes a file such as umad0 from /dev/infiniband while the kernel
// goes on telling of it in sysfs. An HCA that comes later does not bring it back.
func (h *Host) RemoveChar(name string) error {
	return h.locked(func() error {
		h.hidden[name] = true
		return h.remove(filepath.Join("dev/infiniband", name))
	})
}

// RestoreChar undoes RemoveChar.
func (h *Host) RestoreChar(name string) error {
	return h.locked(func() error {
		delete(h.hidden, name)
		for _, d := range h.devices {
			for _, e := range d.layout() {
				if e.kind == aNode && filepath.Base(e.path) == name {
					return h.put(e)
				}
			}
		}
		return fmt.Errorf("fake host has no character device %s", name)
	})
}

// AddRdmaCM loads rdma_ucm: /dev/infiniband/rdma_cm appears.
func (h *Host) AddRdmaCM() error {
	return h.locked(func() error {
		delete(h.hidden, "rdma_cm")
		return h.rdmaCM()
	})
}

// RemoveRdmaCM unloads rdma_ucm; an HCA that comes later does not bring it back.
func (h *Host) RemoveRdmaCM() error { return h.RemoveChar("rdma_cm") }

// rdmaCM puts the node-wide device file there.
func (h *Host) rdmaCM() error {
	return h.put(entry{path: cmPath, kind: aNode, text: "10:58"})
}

// AddNet adds a network device without hardware, such as a bond, a VLAN, or the
// dummy below a soft-RoCE device.
func (h *Host) AddNet(n Net) error {
	return h.locked(func() error {
		h.ifindex++
		n = n.withDefaults("1", h.ifindex, n.IfIndex != "" || n.MTU != "")
		var l layout
		l.dir("sys/class/net")
		device{HCA: HCA{Virtual: true}}.netLayout(&l, n)
		return h.replace(nil, l)
	})
}

// FunctionDir is the directory of the PCI function that the HCA is on; there a
// test may do what no verb does. Empty when there is no such HCA.
func (h *Host) FunctionDir(name string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if d := h.devices[name]; d != nil {
		return filepath.Join(h.root, d.function())
	}
	return ""
}

// DeviceDir is the directory of the RDMA device itself. Empty when there is no
// such HCA.
func (h *Host) DeviceDir(name string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if d := h.devices[name]; d != nil {
		return filepath.Join(h.root, d.infiniband())
	}
	return ""
}

// clone copies the description so that a change of one leaves the other alone.
func (c HCA) clone() HCA {
	c.Ports, c.Nets, c.Chars = slices.Clone(c.Ports), slices.Clone(c.Nets), slices.Clone(c.Chars)
	return c
}

// HCA is the description of a device as it is now, with all defaults filled in:
// to put it back after Remove, or to add one like it.
func (h *Host) HCA(name string) (HCA, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	d := h.devices[name]
	if d == nil {
		return HCA{}, false
	}
	return d.clone(), true
}
