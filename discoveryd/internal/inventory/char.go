// Character devices: what sysfs tells of each, and whether its file is there.
//
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

// kind is the kind of a character device.
type kind = discoveryv1.CharDeviceKind

// The kinds, short.
const (
	uverbs = discoveryv1.CharDeviceKind_CHAR_DEVICE_KIND_UVERBS
	umad   = discoveryv1.CharDeviceKind_CHAR_DEVICE_KIND_UMAD
	issm   = discoveryv1.CharDeviceKind_CHAR_DEVICE_KIND_ISSM
	rdmaCM = discoveryv1.CharDeviceKind_CHAR_DEVICE_KIND_RDMA_CM
	noChar = discoveryv1.CharDeviceKind_CHAR_DEVICE_KIND_UNSPECIFIED
)

// devDir is where the kernel makes the files, below /dev.
const devDir = "infiniband"

// charKind tells the kind from a class entry's name: uverbs0, umad0, issm0.
func charKind(name string) discoveryv1.CharDeviceKind {
	word := strings.TrimRight(name, "0123456789")
	if word == name {
		return noChar
	}
	switch word {
	case "uverbs":
		return uverbs
	case "umad":
		return umad
	case "issm":
		return issm
	}
	return noChar
}

// fileState tells what was found of a character device's file.
type fileState int

const (
	fileThere fileState = iota
	fileMissing
	fileForbidden
	fileOther // something else has the name, or another device
)

// char is one character device.
type char struct {
	ibdev  string // name of the RDMA device
	loaded bool   // rdma_cm: the module is there
	file   fileState
	broken notes
	fact   *discoveryv1.CharDevice
}

// charsOf are the character devices at p of the RDMA device called name, which has
// these ports. One that does not say whose it is is counted among them where there is
// no other owner; it may not spoil the devices that it has nothing to do with.
func (v *view) charsOf(p *place, name string, ports []*discoveryv1.Port) (chars []*char) {
	if p.obvious() {
		known := charFacts{ibdev: name}
		if len(ports) == 1 {
			known.port = &ports[0].Number
		}
		for _, e := range p.chars {
			chars = append(chars, v.readChar(e, known))
		}
		return chars
	}
	p.once.Do(func() { p.read = v.readChars(p.chars) })
	for _, c := range p.read {
		if c.ibdev == name || c.ibdev == "" && p.rdma == 1 {
			chars = append(chars, c)
		}
	}
	return chars
}

// obvious tells whether the character devices are those of the one RDMA device there
// is, without asking each: the kernel puts them where their RDMA device is
// (drivers/infiniband/core, ib_uverbs_add_one and ib_umad_init_port_dev). With
// exclusive network name spaces there may be an RDMA device that is not seen here;
// then there are two of a kind.
func (p *place) obvious() bool {
	var seen [rdmaCM + 1]bool
	for _, e := range p.chars {
		kind := charKind(e.name)
		if seen[kind] {
			return false
		}
		seen[kind] = true
	}
	return p.rdma == 1
}

// readChars reads the character devices of one place. umadN and issmN are two files
// of one port (drivers/infiniband/core/user_mad.c, ib_umad_init_port), so that what
// is known of the first need not be read of the second.
func (v *view) readChars(entries []entry) (chars []*char) {
	umads := map[string]charFacts{}
	read := func(e entry) {
		number := strings.TrimLeft(e.name, "umadis")
		known := charFacts{}
		if charKind(e.name) == issm {
			known = umads[number]
		}
		c := v.readChar(e, known)
		if c == nil {
			return
		}
		chars = append(chars, c)
		if c.fact.GetKind() == umad && len(c.broken) == 0 {
			umads[number] = charFacts{c.ibdev, c.fact.Port}
		}
	}
	for _, e := range entries {
		if charKind(e.name) != issm {
			read(e)
		}
	}
	for _, e := range entries {
		if charKind(e.name) == issm {
			read(e)
		}
	}
	return chars
}

// charFacts are what is known of a character device without reading it.
type charFacts struct {
	ibdev string  // empty: not known
	port  *uint32 // nil: not known
}

// readChar reads what is not known of a character device; nil if it has vanished.
func (v *view) readChar(e entry, known charFacts) *char {
	kind := charKind(e.name)
	c := &char{ibdev: known.ibdev, fact: &discoveryv1.CharDevice{Kind: kind, Path: hostPath(e.name)}}
	a := &attrs{from: v.sys, dir: e.path, label: e.name, broken: &c.broken}
	if c.ibdev == "" {
		a.needed("ibdev", func(text string) bool { c.ibdev = text; return text != "" })
		if c.ibdev == "" && !v.sys.Exists(e.path) {
			return nil
		}
	}
	switch {
	case kind == uverbs:
	case known.port != nil:
		c.fact.Port = new(*known.port)
	default:
		a.parsed("port", func(text string) bool {
			n, err := strconv.ParseUint(text, 10, 32)
			if err == nil {
				c.fact.Port = new(uint32(n))
			}
			return err == nil
		})
	}
	c.look(v, e, a)
	return c
}

// readCM reads the device file of the connection manager, which all RDMA devices
// share.
func (v *view) readCM() *char {
	c := &char{fact: &discoveryv1.CharDevice{Kind: rdmaCM, Path: hostPath("rdma_cm")}}
	p, err := v.sys.Resolve(classCM)
	if c.loaded = err == nil; !c.loaded {
		p = classCM // where nothing is: "" would be the tree itself, which has a dev
	}
	c.look(v, entry{name: "rdma_cm", path: p}, &attrs{from: v.sys, dir: p, label: "rdma_cm", broken: &c.broken})
	return c
}

// look looks for the device's file. In a recorded tree the file tells its own
// number; on a live host it has to be the one that the kernel gave the device.
func (c *char) look(v *view, e entry, a *attrs) {
	st, err := v.statDev(e.name)
	isChar := err == nil && st.Mode&unix.S_IFMT == unix.S_IFCHR
	if isChar && (!v.live || v.isNumberOf(st.Rdev, e.path)) {
		c.fact.Major, c.fact.Minor = unix.Major(st.Rdev), unix.Minor(st.Rdev)
		return
	}
	a.parsed("dev", func(text string) (ok bool) {
		c.fact.Major, c.fact.Minor, ok = deviceNumber(text)
		return ok
	})
	switch {
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		c.file = fileForbidden
	case err != nil:
		c.file = fileMissing
	case v.live && (!isChar || st.Rdev != unix.Mkdev(c.fact.GetMajor(), c.fact.GetMinor())):
		c.file = fileOther
	case !v.live && st.Mode&unix.S_IFMT != unix.S_IFREG:
		c.file = fileOther
	}
}

// isNumberOf tells whether the kernel's list of device numbers (dev/char/231:192)
// leads to p. That is one link to read where the attribute dev is a file.
func (v *view) isNumberOf(number uint64, p string) bool {
	target, err := v.sys.Link(fmt.Sprintf("dev/char/%d:%d", unix.Major(number), unix.Minor(number)))
	return err == nil && target == p
}

// statDev looks at a file in /dev/infiniband.
func (v *view) statDev(name string) (unix.Stat_t, error) {
	if v.dev == nil {
		return unix.Stat_t{}, v.devErr
	}
	return v.dev.Stat(name)
}

// hostPath is where the file is on the host, whatever tree it was seen in.
func hostPath(name string) string { return "/dev/" + devDir + "/" + name }
