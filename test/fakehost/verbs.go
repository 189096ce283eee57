// What happens to HCAs: unplug, link loss, rename, driver, VFs, device files.
//
// SPDX-License-Identifier: Apache-2.0

package fakehost

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// Remove unplugs the HCA: the RDMA device goes and with it the function, unless
// another RDMA device is on it, and with a physical function its virtual ones.
// rdma_cm stays, as does the driver.
func (h *Host) Remove(name string) error {
	return h.locked(func() error { return h.unplug(name) })
}

func (h *Host) unplug(name string) error {
	d, err := h.find(name)
	if err != nil {
		return err
	}
	delete(h.devices, name)
	if h.function(d.PCI) == nil {
		for _, vf := range h.vfs(d.PCI) {
			if err := h.unplug(vf); err != nil {
				return err
			}
		}
	}
	if err := h.replace(d.layout(), nil); err != nil {
		return fmt.Errorf("remove %s: %w", name, err)
	}
	return h.countVFs(d.PF)
}

// Change alters the description of an HCA, which has all defaults filled in, and
// lets the tree follow. The HCA's name and place can't be changed by it.
func (h *Host) Change(name string, change func(*HCA)) error {
	return h.locked(func() error {
		d, err := h.find(name)
		if err != nil {
			return err
		}
		return h.change(d, func(d *device) { change(&d.HCA) })
	})
}

func (h *Host) change(d *device, change func(*device)) error {
	was, place := d.layout(), [...]string{d.Name, d.parent()}
	next := *d
	next.HCA = d.clone()
	change(&next)
	if place != [...]string{next.Name, next.parent()} {
		return fmt.Errorf("change %s: its name and place have to stay", d.key())
	}
	*d = next
	if err := h.replace(was, d.layout()); err != nil {
		return fmt.Errorf("change %s: %w", d.key(), err)
	}
	return nil
}

// SetPortState sets the state of a port, such as StateDown, and the physical
// state that goes with it where that is shown.
func (h *Host) SetPortState(name string, port int, state string) error {
	return h.changePort(name, port, func(p *Port) {
		p.State = state
		if p.PhysState != "" {
			p.PhysState = physState(state)
		}
	})
}

// SetLinkLayer switches a port between InfiniBand and Ethernet.
func (h *Host) SetLinkLayer(name string, port int, linkLayer string) error {
	return h.changePort(name, port, func(p *Port) { p.LinkLayer = linkLayer })
}

func (h *Host) changePort(name string, port int, change func(*Port)) error {
	return h.locked(func() error {
		d, err := h.find(name)
		if err != nil {
			return err
		}
		if port < 1 || port > len(d.Ports) {
			return fmt.Errorf("%s has no port %d", name, port)
		}
		return h.change(d, func(d *device) { change(&d.Ports[port-1]) })
	})
}

// SetCarrier plugs or pulls the cable of a network device: its carrier and its
// operstate. The state of a RoCE port follows on a real host; here that is
// SetPortState's.
func (h *Host) SetCarrier(net string, up bool) error {
	return h.locked(func() error {
		for _, d := range h.devices {
			for i := range d.Nets {
				if d.Nets[i].Name != net {
					continue
				}
				return h.change(d, func(d *device) {
					if d.Nets[i].Carrier, d.Nets[i].OperState = "0", "down"; up {
						d.Nets[i].Carrier, d.Nets[i].OperState = "1", "up"
					}
				})
			}
		}
		return fmt.Errorf("fake host has no network device %s", net)
	})
}

// Rename gives the RDMA device another name, as udev and `rdma dev set name` do.
// At no moment are both names in the class.
func (h *Host) Rename(name, to string) error {
	return h.locked(func() error {
		d, err := h.find(name)
		if err != nil {
			return err
		}
		if h.devices[to] != nil || d.Name == "" {
			return fmt.Errorf("rename %s: no such RDMA device, or %s is taken", name, to)
		}
		was, from := d.layout(), d.infiniband()
		delete(h.devices, name)
		d.Name = to
		h.devices[to] = d

		// As the kernel does, move the directory and leave its files alone.
		if err := h.remove(path.Join("sys/class/infiniband", name)); err != nil {
			return err
		}
		if err := os.Rename(filepath.Join(h.root, from), filepath.Join(h.root, d.infiniband())); err != nil {
			return err
		}
		for i, e := range was {
			if rest, ok := strings.CutPrefix(e.path, from+"/"); ok {
				was[i].path = path.Join(d.infiniband(), rest)
				h.users[was[i].path] = h.users[e.path]
				delete(h.users, e.path)
			}
		}
		return h.replace(was, d.layout())
	})
}

// Renumber gives the HCA another uverbs device, as happens when a driver is
// loaded again. The old file goes before the new one comes.
func (h *Host) Renumber(name string, uverbs int) error {
	return h.Change(name, func(hca *HCA) {
		for i := range hca.Chars {
			if hca.Chars[i].Kind == "uverbs" {
				hca.Chars[i].Index = uverbs
			}
		}
	})
}

// UnbindDriver takes the driver from the HCA's function, and so its RDMA device,
// network devices and device files.
func (h *Host) UnbindDriver(name string) error { return h.setBound(name, false) }

// BindDriver undoes UnbindDriver.
func (h *Host) BindDriver(name string) error { return h.setBound(name, true) }

func (h *Host) setBound(name string, bound bool) error {
	return h.locked(func() error {
		d, err := h.find(name)
		if err != nil {
			return err
		}
		return h.change(d, func(d *device) { d.unbound = !bound })
	})
}

// AddVFs gives the physical function of the HCA n more virtual functions, at the
// addresses that follow it, with the first free RDMA names mlx5_N and indices,
// and returns the names.
func (h *Host) AddVFs(pf string, n int) ([]string, error) {
	var names []string
	err := h.locked(func() error {
		d, err := h.find(pf)
		if err != nil {
			return err
		}
		for range n {
			vf, err := h.nextVF(d)
			if err != nil {
				return err
			}
			if err := h.add(vf); err != nil {
				return err
			}
			names = append(names, vf.Name)
		}
		return nil
	})
	return names, err
}

// nextVF describes one more virtual function of pf. The device ID of a
// ConnectX's virtual functions is that of the physical one plus one.
func (h *Host) nextVF(pf *device) (HCA, error) {
	var bus string
	var slot, fn int
	if i := strings.LastIndexByte(pf.PCI, ':'); i > 0 {
		bus = pf.PCI[:i]
		if _, err := fmt.Sscanf(pf.PCI[i:], ":%x.%d", &slot, &fn); err != nil {
			return HCA{}, fmt.Errorf("PCI address %q: %w", pf.PCI, err)
		}
	}
	id, err := strconv.ParseUint(pf.Device, 0, 16)
	if err != nil {
		return HCA{}, fmt.Errorf("device ID of %s: %w", pf.Name, err)
	}
	vf := HCA{
		PF: pf.PCI, VFIndex: pf.numVFs, Complete: pf.Complete,
		Vendor: pf.Vendor, Device: fmt.Sprintf("%#04x", id+1), Class: pf.Class, Driver: pf.Driver, NUMA: pf.NUMA,
		Ports: []Port{{LinkLayer: Ethernet}},
	}
	if len(pf.Ports) > 0 {
		vf.Ports = []Port{{LinkLayer: pf.Ports[0].LinkLayer, Rate: pf.Ports[0].Rate}}
	}
	for devfn := slot<<3 + fn + 1; ; devfn++ {
		if devfn > 0xff {
			return HCA{}, fmt.Errorf("no free address for a virtual function of %s", pf.Name)
		}
		vf.PCI = fmt.Sprintf("%s:%02x.%d", bus, devfn>>3, devfn&7)
		if h.function(vf.PCI) == nil {
			break
		}
	}
	for used := true; used; {
		vf.Name = "mlx5_" + strconv.Itoa(vf.Index)
		if used = h.indexUsed(vf.Index) || h.devices[vf.Name] != nil; used {
			vf.Index++
		}
	}
	vf.Nets = Nets("ens" + strconv.Itoa(vf.Index))
	return vf, nil
}

// indexUsed tells whether a device has a character device with that number.
func (h *Host) indexUsed(index int) bool {
	for _, kind := range []string{"uverbs", "umad", "issm"} {
		if h.users[path.Join("dev/infiniband", kind+strconv.Itoa(index))] > 0 {
			return true
		}
	}
	return false
}
