// The ports of an RDMA device.
//
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"slices"
	"strconv"

	"github.com/rdma-relay/rdma-relay/discoveryd/internal/sysfs"
	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

// readPorts fills in the ports of the RDMA device in dir.
func (v *view) readPorts(dir *sysfs.Dir, f *facts) {
	ports, err := dir.Open("ports")
	if err != nil {
		if !sysfs.Absent(err) {
			f.broken.add("ports", err)
		}
		return
	}
	defer ports.Close()
	names, err := ports.Names()
	if err != nil {
		f.broken.add("ports", err)
	}
	var numbers []uint32
	for _, name := range names {
		n, err := strconv.ParseUint(name, 10, 32)
		if err != nil || n == 0 || name[0] == '0' {
			f.broken.add("ports/"+name, errNonsense)
			continue
		}
		numbers = append(numbers, uint32(n))
	}
	slices.Sort(numbers)
	if len(numbers) > maxPorts {
		numbers = numbers[:maxPorts]
		f.excess = append(f.excess, "ports")
	}
	for _, n := range numbers {
		f.device.Ports = append(f.device.Ports, readPort(dir, n, &f.broken))
	}
}

// readPort reads one port of the device in dir. Its state may be a question to the
// firmware.
func readPort(dir *sysfs.Dir, number uint32, broken *notes) *discoveryv1.Port {
	port := &discoveryv1.Port{Number: number}
	prefix := portPrefix(number)
	a := &attrs{from: dir, prefix: prefix, label: prefix, broken: broken}
	a.needed("link_layer", func(text string) (ok bool) { port.LinkLayer, ok = linkLayer(text); return })
	a.needed("state", func(text string) (ok bool) { port.State, ok = portState(text); return })
	a.parsed("phys_state", func(text string) (ok bool) { port.PhysState, ok = physState(text); return })
	port.Rate = a.text("rate")
	return port
}

// portPrefix begins the names of a port's attributes.
func portPrefix(number uint32) string { return "ports/" + strconv.Itoa(int(number)) + "/" }

// gidNet is the network device of the port's first GID: the port's own, or the
// bond that it is in. Empty if there is none. The further entries of the table,
// hundreds of them, are not looked at.
func gidNet(dir *sysfs.Dir, port uint32) string {
	text, err := dir.Text(portPrefix(port) + "gid_attrs/ndevs/0")
	if err != nil || !isFileName(text) {
		return ""
	}
	return text
}
