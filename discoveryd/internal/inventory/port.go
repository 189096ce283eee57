// The ports of an RDMA device.
//
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/rdma-relay/rdma-relay/discoveryd/internal/sysfs"
	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

// readPorts fills in the ports of the RDMA device in dir.
func (v *view) readPorts(dir *sysfs.Dir, f *facts) {
	for _, n := range portNumbers(dir, f) {
		f.device.Ports = append(f.device.Ports, readPort(dir, n, &f.broken))
	}
}

// portNumbers are the numbers of the device's ports, sorted.
func portNumbers(dir *sysfs.Dir, f *facts) (numbers []uint32) {
	if onlyOne(dir) {
		return []uint32{1}
	}
	ports, err := dir.Open("ports")
	if err != nil {
		if !sysfs.Absent(err) {
			f.broken.add("ports", err)
		}
		return nil
	}
	defer ports.Close()
	names, err := ports.Names()
	if err != nil {
		f.broken.add("ports", err)
	}
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
	return numbers
}

// onlyOne tells whether there is port 1 and no other, as on most devices, without
// listing ports: a directory has one link more for each directory in it
// (fs/kernfs/inode.c, kernfs_refresh_inode). Where that isn't so, or not known, it
// says no.
func onlyOne(dir *sysfs.Dir) bool {
	const none = 2 // its name, and "." in it
	ports, err := dir.Stat("ports")
	if err != nil || ports.Mode&unix.S_IFMT != unix.S_IFDIR || ports.Nlink != none+1 {
		return false
	}
	first, err := dir.Stat("ports/1")
	return err == nil && first.Mode&unix.S_IFMT == unix.S_IFDIR
}

// readPort reads one port of the device in dir. Its state may be a question to the
// firmware.
func readPort(dir *sysfs.Dir, number uint32, broken *notes) *discoveryv1.Port {
	port := &discoveryv1.Port{Number: number}
	at := portDir(number)
	a := &attrs{from: dir, dir: at, label: at, broken: broken}
	a.needed("link_layer", func(text string) (ok bool) { port.LinkLayer, ok = linkLayer(text); return })
	a.needed("state", func(text string) (ok bool) { port.State, ok = portState(text); return })
	a.parsed("phys_state", func(text string) (ok bool) { port.PhysState, ok = physState(text); return })
	port.Rate = a.text("rate")
	return port
}

// portDir is where a port's attributes are.
func portDir(number uint32) string { return "ports/" + strconv.Itoa(int(number)) }

// portPrefix begins the names of a port's attributes.
func portPrefix(number uint32) string { return portDir(number) + "/" }

// gidNet is the network device of the port's first GID: the port's own, or the
// bond that it is in. Empty if there is none. The further entries of the table,
// hundreds of them, are not looked at.
func gidNet(dir *sysfs.Dir, port uint32) string {
	text, err := dir.Text(portDir(port) + "/gid_attrs/ndevs/0")
	if err != nil || !isFileName(text) {
		return ""
	}
	return text
}
