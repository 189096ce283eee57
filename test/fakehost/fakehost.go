// Package fakehost writes the part of a host's /sys and /dev that tells of its
// RDMA devices into a directory, and changes it the way a kernel would: for
// tests, benchmarks and the demo. It needs neither root nor hardware.
//
// What it writes by default is the smallest tree that public reports are tried
// with; with HCA.Complete it is what real kernels (6.1, 6.12) showed.
//
// SPDX-License-Identifier: Apache-2.0
package fakehost

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// Host is a fake host tree. Its methods may be called at the same time, and while
// others read the tree.
type Host struct {
	root  string
	plain bool // no real device nodes

	mu      sync.Mutex
	devices map[string]*device // by RDMA name; by PCI address where there is none
	users   map[string]int     // how many devices an entry belongs to
	hidden  map[string]bool    // device files that were taken away
	ifindex int                // the last network interface index given out
}

// Option changes what New makes.
type Option func(*Host) error

// PlainFiles makes every device file an empty regular file, for root too.
func PlainFiles() Option {
	return func(h *Host) error { h.plain = true; return nil }
}

// KernelRelease records the kernel's release in proc/sys/kernel/osrelease.
func KernelRelease(release string) Option {
	return func(h *Host) error {
		return h.put(entry{path: "proc/sys/kernel/osrelease", kind: aFile, text: release})
	}
}

// New starts a tree in dir, made if need be, with an empty sys/ and dev/: a host
// whose kernel has no RDMA at all.
func New(dir string, options ...Option) (*Host, error) {
	h := &Host{
		root:    dir,
		devices: map[string]*device{},
		users:   map[string]int{},
		hidden:  map[string]bool{},
		ifindex: 1, // lo
	}
	err := h.locked(func() error {
		for _, sub := range []string{"sys/devices", "dev", tempDir} {
			if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
				return err
			}
		}
		for _, option := range options {
			if err := option(h); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("make fake host: %w", err)
	}
	return h, nil
}

// Root is the directory to give to --host-root.
func (h *Host) Root() string { return h.root }

// Add puts an HCA into the tree, with the driver bound and its device files
// there, rdma_cm among them. A function that was added without an RDMA device
// gets one by adding it once more with a name. A second RDMA device on the same
// function, or a scalable function, takes the facts of the function as they are.
func (h *Host) Add(hca HCA) error {
	return h.locked(func() error { return h.add(hca) })
}

func (h *Host) add(hca HCA) error {
	d := &device{HCA: hca.withDefaults(h.ifindex + 1)}
	h.ifindex += len(d.Nets)
	switch {
	case d.PCI == "" && !d.Virtual:
		return errors.New("add HCA: neither a PCI address nor virtual")
	case d.Virtual && d.Name == "":
		return errors.New("add HCA: virtual, and without a name")
	case d.Virtual:
		d.PCI = ""
	}
	var was layout
	if bare := h.devices[d.PCI]; bare != nil && d.PCI != "" {
		was = bare.layout()
		delete(h.devices, d.PCI)
	}
	key := d.key()
	if h.devices[key] != nil {
		return fmt.Errorf("add HCA: %s is there already", key)
	}
	if d.PF != "" {
		pf := h.function(d.PF)
		if pf == nil {
			return fmt.Errorf("add HCA: %s has no physical function %s", key, d.PF)
		}
		d.Root, d.Bridge = pf.Root, pf.Bridge
	}
	if other := h.function(d.PCI); other != nil {
		d.share(other)
	}
	h.devices[key] = d
	if err := h.replace(was, d.layout()); err != nil {
		return fmt.Errorf("add HCA: %w", err)
	}
	if d.Name != "" {
		if err := h.rdmaCM(); err != nil {
			return fmt.Errorf("add HCA: %w", err)
		}
	}
	return h.countVFs(d.PF)
}

// key is what the device is known by.
func (d *device) key() string {
	if d.Name != "" {
		return d.Name
	}
	return d.PCI
}

// share takes over the facts of a function that another device is on as well.
func (d *device) share(other *device) {
	d.Vendor, d.Device, d.Class, d.NUMA = other.Vendor, other.Device, other.Class, other.NUMA
	d.SubVendor, d.SubDevice, d.Driver = other.SubVendor, other.SubDevice, other.Driver
	d.Root, d.Bridge, d.Complete = other.Root, other.Bridge, other.Complete
	d.PF, d.VFIndex, d.TotalVFs, d.numVFs = other.PF, other.VFIndex, other.TotalVFs, other.numVFs
}

// function is a device on the PCI function with that address, nil if there is
// none.
func (h *Host) function(pci string) *device {
	if pci == "" {
		return nil
	}
	var found *device
	for _, d := range h.devices {
		// The function's own device before those on a device between.
		if d.PCI == pci && (found == nil || d.Aux+d.Virtio == "") {
			found = d
		}
	}
	return found
}

// vfs are the devices on virtual functions of the physical one at pf.
func (h *Host) vfs(pf string) []string {
	var keys []string
	for key, d := range h.devices {
		if pf != "" && d.PF == pf {
			keys = append(keys, key)
		}
	}
	return keys
}

// countVFs brings sriov_numvfs of a physical function up to date.
func (h *Host) countVFs(pf string) error {
	functions := map[string]bool{}
	for _, key := range h.vfs(pf) {
		functions[h.devices[key].PCI] = true
	}
	for _, d := range h.devices {
		if pf == "" || d.PCI != pf || d.numVFs == len(functions) {
			continue
		}
		if err := h.change(d, func(d *device) { d.numVFs = len(functions) }); err != nil {
			return err
		}
	}
	return nil
}

// find is the device with that RDMA name, or PCI address where it has no name.
func (h *Host) find(name string) (*device, error) {
	d := h.devices[name]
	if d == nil {
		return nil, fmt.Errorf("fake host has no device %s", name)
	}
	return d, nil
}
