// Network devices, and which port of an RDMA device each belongs to.
//
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"bytes"
	"errors"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rdma-relay/rdma-relay/discoveryd/internal/sysfs"
	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

// net is a network device of a function.
type net struct {
	fact    *discoveryv1.NetDevice
	devPort uint32 // counted from 0
}

// attachNets gives the ports their network devices, and the device the rest. own
// are those of the function.
//
// On a device with one port they are that port's. On others dev_port tells whose
// each is, and the port's first GID names the port's device (include/rdma/ib_cache.h);
// so it does for the bond that the port is in, and where the function has none of
// its own. GUIDs are no help: an IPoIB device's address has the port's GUID, not
// the node's.
func (v *view) attachNets(dir *sysfs.Dir, f *facts, own []*net) {
	ports := f.device.GetPorts()
	if len(ports) != 1 || len(own) == 0 || slices.ContainsFunc(own, func(n *net) bool { return n.fact.GetMaster() != "" }) {
		for _, port := range ports {
			if name := gidNet(dir, port.GetNumber()); name != "" {
				v.attach(port, name, own, f)
			}
		}
	}
	if len(ports) > 0 && f.device.GetParent().GetBus() == discoveryv1.Bus_BUS_NONE {
		if name, err := dir.Text("parent"); err == nil && isFileName(name) { // rxe has it
			v.attach(ports[0], name, own, f)
		}
	}
	for _, n := range own {
		if attached(f.device, n.fact) {
			continue
		}
		if port := n.portOf(ports); port != nil {
			addNet(port, n.fact)
		} else {
			f.device.OtherNetDevices = append(f.device.OtherNetDevices, n.fact)
		}
	}
	slices.SortFunc(f.device.OtherNetDevices, byName)
}

// attach gives the port the network device called name: one of own, or any other
// of the host, which is a bond if it has one of own among its members.
func (v *view) attach(port *discoveryv1.Port, name string, own []*net, f *facts) {
	role := discoveryv1.NetDeviceRole_NET_DEVICE_ROLE_UPLINK
	safe, _ := safeName(name)
	for _, n := range own {
		if n.fact.GetName() == safe {
			addNet(port, n.fact)
			return
		}
		if n.fact.GetMaster() == safe {
			role = discoveryv1.NetDeviceRole_NET_DEVICE_ROLE_BOND
		}
	}
	p, err := v.netPath(name)
	if err != nil {
		// In another network name space, or not recorded: the name is all there is.
		addNet(port, &discoveryv1.NetDevice{Name: safe, Role: role})
		return
	}
	n := v.readNet(p, f)
	if n == nil {
		return
	}
	n.fact.Role = role
	addNet(port, n.fact)
}

// portOf picks the port by dev_port; nil for what stands for another function.
func (n *net) portOf(ports []*discoveryv1.Port) *discoveryv1.Port {
	if n.fact.GetRole() != discoveryv1.NetDeviceRole_NET_DEVICE_ROLE_UPLINK {
		return nil
	}
	if len(ports) == 1 {
		return ports[0]
	}
	for _, port := range ports {
		if port.GetNumber() == n.devPort+1 {
			return port
		}
	}
	return nil
}

// addNet adds a network device to the port's, sorted, once.
func addNet(port *discoveryv1.Port, fact *discoveryv1.NetDevice) {
	i, found := slices.BinarySearchFunc(port.NetDevices, fact, byName)
	if !found {
		port.NetDevices = slices.Insert(port.NetDevices, i, fact)
	}
}

func byName(a, b *discoveryv1.NetDevice) int { return strings.Compare(a.GetName(), b.GetName()) }

func attached(d *discoveryv1.Device, fact *discoveryv1.NetDevice) bool {
	return slices.ContainsFunc(d.GetPorts(), func(p *discoveryv1.Port) bool {
		return slices.Contains(p.GetNetDevices(), fact)
	})
}

// netsOf reads the network devices that hang on the device at at.parent; where that
// has none they may be at a device above it, up to the PCI function. A scalable
// function's are its own: those above are its physical function's.
func (v *view) netsOf(l *listing, at location, f *facts) []*net {
	if at.pci == "" {
		return nil
	}
	for p := at.parent; len(p) >= len(at.pciPath); p = up(p) {
		if at := l.places[p]; at != nil && len(at.nets) > 0 {
			return v.readAll(at.nets, f)
		}
		if strings.Contains(at.auxiliary, ".sf.") {
			break
		}
	}
	return nil
}

// readAll reads network devices, and leaves out those that have vanished.
func (v *view) readAll(entries []entry, f *facts) []*net {
	if len(entries) > maxNetDevices {
		entries = entries[:maxNetDevices]
		f.excess = append(f.excess, "network devices")
	}
	var nets []*net
	for _, e := range entries {
		if e.err != nil {
			f.broken.add("net/"+e.name, e.err)
		} else if n := v.readNet(e.path, f); n != nil {
			nets = append(nets, n)
		}
	}
	return nets
}

// readNet reads the network device at p; nil if it has vanished.
func (v *view) readNet(p string, f *facts) *net {
	dir, err := v.sys.OpenDir(p)
	if err != nil {
		if !sysfs.Absent(err) {
			f.broken.add("net/"+path.Base(p), err)
		}
		return nil
	}
	defer dir.Close()
	name, clean := safeName(path.Base(p))
	fact := &discoveryv1.NetDevice{Name: name, Role: discoveryv1.NetDeviceRole_NET_DEVICE_ROLE_UPLINK}
	n := &net{fact: fact}
	a := &attrs{from: dir, label: "net/" + name, broken: &f.broken}
	if !clean {
		a.note("", errNonsense)
	}
	names, err := dir.Match(tellsMore)
	if err != nil {
		a.note("", err)
	}
	has := func(name string) bool { _, found := slices.BinarySearch(names, name); return found }
	a.parsed("ifindex", number(&fact.Ifindex))
	a.parsed("type", func(text string) (ok bool) { fact.LinkType, ok = linkType(text); return })
	fact.OperState = a.text("operstate")
	a.parsed("carrier", func(text string) bool {
		fact.Carrier = new(text == "1")
		return text == "0" || text == "1"
	})
	a.parsed("mtu", number(&fact.Mtu))
	if len(f.device.GetPorts()) > 1 {
		a.parsed("dev_port", number(&n.devPort))
	}
	if has("phys_port_name") {
		if port, _ := dir.Text("phys_port_name"); isRepresentor(port) {
			fact.Role = discoveryv1.NetDeviceRole_NET_DEVICE_ROLE_REPRESENTOR
		}
	}
	if has("master") {
		fact.Master = a.link("master")
	}
	fact.Uppers = v.uppers(names, fact.GetMaster(), f)
	return n
}

// upperPrefix begins the names of links to devices stacked on one (net/core/dev.c,
// netdev_adjacent_sysfs_add).
const upperPrefix = "upper_"

func isUpper(name []byte) bool { return bytes.HasPrefix(name, []byte(upperPrefix)) }

// tellsMore picks the entries of a network device's directory of which it is worth
// knowing that they are there.
func tellsMore(name []byte) bool {
	return string(name) == "phys_port_name" || string(name) == "master" || isUpper(name)
}

// uppers are the devices stacked on the one with these directory entries or on its
// master.
func (v *view) uppers(names []string, master string, f *facts) []string {
	if master != "" {
		if p, err := v.netPath(master); err == nil {
			above, _ := v.sys.Match(p, isUpper)
			names = append(names, above...)
		}
	}
	var uppers []string
	for _, name := range names {
		if upper, ok := strings.CutPrefix(name, upperPrefix); ok && upper != master {
			safe, _ := safeName(upper)
			uppers = append(uppers, safe)
		}
	}
	slices.Sort(uppers)
	uppers = slices.Compact(uppers)
	if len(uppers) > maxUppers {
		uppers = uppers[:maxUppers]
		f.excess = append(f.excess, "stacked network devices")
	}
	return uppers
}

// netPath is where the network device called name is.
func (v *view) netPath(name string) (string, error) {
	p := classNet + "/" + name
	target, err := v.sys.Link(p)
	if errors.Is(err, unix.EINVAL) { // a directory, in a recorded tree
		return p, nil
	}
	return target, err
}

// number parses a decimal number into a field.
func number(field *uint32) func(text string) bool {
	return func(text string) bool {
		n, err := strconv.ParseUint(text, 10, 32)
		if err == nil {
			*field = uint32(n)
		}
		return err == nil
	}
}
