// Character devices: what sysfs tells of each, and whether its file is there.
//
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"errors"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

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

// group are the character devices of one parent, on which there may be several
// RDMA devices: all virtual ones have the same. It is read once a scan.
type group struct {
	entries []entry
	owners  int // RDMA devices on the parent
	once    sync.Once
	chars   []*char
}

// charsOf are the character devices of the RDMA device called name. One that does
// not say whose it is is counted among them where there is no other owner; it may
// not spoil the devices that it has nothing to do with.
func (v *view) charsOf(g *group, name string) []*char {
	if g == nil {
		return nil
	}
	g.once.Do(func() { g.chars = v.readChars(g.entries) })
	var chars []*char
	for _, c := range g.chars {
		if c.ibdev == name || c.ibdev == "" && g.owners == 1 {
			chars = append(chars, c)
		}
	}
	return chars
}

// readChars reads the character devices of one parent. umadN and issmN are two
// files of one port (drivers/infiniband/core/user_mad.c, ib_umad_init_port), so
// that what is known of the first need not be read of the second.
func (v *view) readChars(entries []entry) (chars []*char) {
	umads := map[string]*char{}
	read := func(e entry) {
		number := strings.TrimLeft(e.name, "umadis")
		c := v.readChar(e, umads[number])
		if c == nil {
			return
		}
		chars = append(chars, c)
		if c.fact.GetKind() == umad && len(c.broken) == 0 {
			umads[number] = c
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

// readChar reads a character device, or takes what is known from its twin; nil if
// it has vanished.
func (v *view) readChar(e entry, twin *char) *char {
	c := &char{fact: &discoveryv1.CharDevice{Kind: charKind(e.name), Path: hostPath(e.name)}}
	a := &attrs{from: v.sys, prefix: e.path + "/", label: e.name + "/", broken: &c.broken}
	if twin != nil && c.fact.GetKind() == issm {
		c.ibdev, c.fact.Port = twin.ibdev, twin.fact.Port
		c.look(v, e.name, a)
		return c
	}
	a.needed("ibdev", func(text string) bool { c.ibdev = text; return text != "" })
	if c.ibdev == "" && !v.sys.Exists(e.path) {
		return nil
	}
	if c.fact.GetKind() != uverbs {
		a.parsed("port", func(text string) bool {
			n, err := strconv.ParseUint(text, 10, 32)
			if err == nil {
				c.fact.Port = new(uint32(n))
			}
			return err == nil
		})
	}
	c.look(v, e.name, a)
	return c
}

// readCM reads the device file of the connection manager, which all RDMA devices
// share.
func (v *view) readCM() *char {
	c := &char{fact: &discoveryv1.CharDevice{Kind: rdmaCM, Path: hostPath("rdma_cm")}}
	p, err := v.sys.Resolve(classCM)
	c.loaded = err == nil
	c.look(v, "rdma_cm", &attrs{from: v.sys, prefix: p + "/", label: "rdma_cm/", broken: &c.broken})
	return c
}

// look looks for the device's file. In a recorded tree the file tells its own
// number; on a live host it has to be the one in the attribute dev.
func (c *char) look(v *view, name string, a *attrs) {
	st, err := v.statDev(name)
	isChar := err == nil && st.Mode&unix.S_IFMT == unix.S_IFCHR
	if isChar && !v.live {
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

// statDev looks at a file in /dev/infiniband.
func (v *view) statDev(name string) (unix.Stat_t, error) {
	if v.dev == nil {
		return unix.Stat_t{}, v.devErr
	}
	return v.dev.Stat(name)
}

// hostPath is where the file is on the host, whatever tree it was seen in.
func hostPath(name string) string { return "/dev/" + devDir + "/" + name }
