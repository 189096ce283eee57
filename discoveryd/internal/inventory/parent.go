// The PCI function that a device sits on, and the physical function behind it.
//
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"bytes"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/rdma-relay/rdma-relay/discoveryd/internal/sysfs"
	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

// readParent fills in what the function that at names says; the place is there.
func (v *view) readParent(p *discoveryv1.Parent, at location, broken *notes) {
	if at.pci == "" {
		return
	}
	dir, err := v.sys.OpenDir(at.pciPath)
	if err != nil {
		broken.add("PCI function", err)
		return
	}
	defer dir.Close()
	a := &attrs{from: dir, label: at.pci, broken: broken}
	pf := v.readFunction(dir, a, p)
	if p.GetFunction() != discoveryv1.FunctionKind_FUNCTION_KIND_VF || !pf.common.copyTo(p) {
		before := len(*broken)
		readIDs(a, p)
		if p.GetFunction() == discoveryv1.FunctionKind_FUNCTION_KIND_VF && len(*broken) == before {
			pf.common.set(p)
		}
	}
	a.parsed("numa_node", func(text string) bool {
		n, err := strconv.ParseInt(text, 10, 32)
		if err == nil && n >= 0 {
			p.NumaNode = new(int32(n))
		}
		return err == nil
	})
	p.Driver = a.link("driver")
}

// readIDs reads the function's IDs and class. The kernel prints them all in modalias,
// too (drivers/pci/pci-sysfs.c). It does in uevent as well, but some kernels print
// that only when the driver's probe is over (device_lock in uevent_show, in 2024's
// stable releases), which takes a minute when the firmware hangs.
func readIDs(a *attrs, p *discoveryv1.Parent) {
	if text, err := a.from.Text(a.path("modalias")); err == nil && parseModalias(text, p) {
		return
	}
	a.parsed("vendor", func(text string) (ok bool) { p.VendorId, ok = hexID(text, 4); return })
	a.parsed("device", func(text string) (ok bool) { p.DeviceId, ok = hexID(text, 4); return })
	a.parsed("subsystem_vendor", func(text string) (ok bool) { p.SubsystemVendorId, ok = hexID(text, 4); return })
	a.parsed("subsystem_device", func(text string) (ok bool) { p.SubsystemDeviceId, ok = hexID(text, 4); return })
	a.parsed("class", func(text string) (ok bool) { p.Class, ok = hexID(text, 6); return })
}

// readFunction tells physical, virtual and scalable functions apart. It returns the
// physical function of the others.
func (v *view) readFunction(dir *sysfs.Dir, a *attrs, p *discoveryv1.Parent) *physical {
	pfPath, err := dir.Link("physfn")
	isVF := err == nil && isPCIAddress(path.Base(pfPath))
	if err == nil && !isVF {
		err = errNonsense
	}
	if err != nil && !sysfs.Absent(err) {
		a.note("physfn", err)
	}
	switch {
	case strings.Contains(p.GetAuxiliaryName(), ".sf."):
		p.Function = discoveryv1.FunctionKind_FUNCTION_KIND_SF
		pfPath = dir.Path()
	case isVF:
		p.Function = discoveryv1.FunctionKind_FUNCTION_KIND_VF
	default:
		p.Function = discoveryv1.FunctionKind_FUNCTION_KIND_PF
		return nil
	}
	p.PfAddress = path.Base(pfPath)
	pf := v.physical(pfPath)
	p.PfNetDevices = pf.uplinks
	if index, ok := pf.vfs[p.GetPciAddress()]; ok && isVF {
		p.VfIndex = new(index)
	}
	return pf
}

// ids are the PCI IDs that all virtual functions of a physical one have in common:
// the kernel gives them its own copies of one set (drivers/pci/iov.c,
// pci_iov_add_virtfn and pci_read_vf_config_common), so they are read once a scan.
type ids struct {
	from atomic.Pointer[discoveryv1.Parent] // a virtual function with the IDs
}

func (c *ids) set(p *discoveryv1.Parent) { c.from.Store(p) }

// copyTo gives p the IDs if they are known.
func (c *ids) copyTo(p *discoveryv1.Parent) bool {
	from := c.from.Load()
	if from == nil {
		return false
	}
	p.VendorId, p.DeviceId, p.Class = from.GetVendorId(), from.GetDeviceId(), from.GetClass()
	p.SubsystemVendorId, p.SubsystemDeviceId = from.GetSubsystemVendorId(), from.GetSubsystemDeviceId()
	return true
}

// physical is what virtual and scalable functions need to know of theirs. It is
// read once a scan: there may be a thousand of them.
type physical struct {
	once    sync.Once
	vfs     map[string]uint32 // PCI address → index
	uplinks []string
	common  ids
}

func (v *view) physical(pfPath string) *physical {
	value, ok := v.pfs.Load(pfPath)
	if !ok {
		value, _ = v.pfs.LoadOrStore(pfPath, &physical{})
	}
	pf := value.(*physical)
	pf.once.Do(func() {
		dir, err := v.sys.OpenDir(pfPath)
		if err != nil {
			return // the function itself, where it is a device, says what is wrong
		}
		defer dir.Close()
		pf.vfs = virtualFunctions(dir)
		pf.uplinks = uplinks(dir)
	})
	return pf
}

// virtualFunctions reads the links virtfn0, virtfn1 … of a physical function.
func virtualFunctions(dir *sysfs.Dir) map[string]uint32 {
	vfs := map[string]uint32{}
	names, _ := dir.Match(func(name []byte) bool { return bytes.HasPrefix(name, []byte("virtfn")) })
	for _, name := range names {
		index, isVF := strings.CutPrefix(name, "virtfn")
		n, err := strconv.ParseUint(index, 10, 32)
		if !isVF || err != nil {
			continue
		}
		if target, err := dir.Link(name); err == nil {
			vfs[path.Base(target)] = uint32(n)
		}
	}
	return vfs
}

// uplinks are the names of the function's own network devices.
func uplinks(dir *sysfs.Dir) []string {
	nets, err := dir.Open("net")
	if err != nil {
		return nil
	}
	defer nets.Close()
	names, _ := nets.Names()
	var own []string
	for _, name := range names {
		port, _ := nets.Text(name + "/phys_port_name")
		if safe, _ := safeName(name); !isRepresentor(port) && len(own) < maxNetDevices {
			own = append(own, safe)
		}
	}
	slices.Sort(own)
	return own
}
