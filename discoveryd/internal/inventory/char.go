// Character devices: what sysfs tells of each, and whether its file is there.
//
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"errors"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rdma-relay/rdma-relay/discoveryd/internal/sysfs"
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
	gone   bool
	ibdev  string // name of the RDMA device
	parent string // path of the device that it belongs to
	file   fileState
	broken notes
	fact   *discoveryv1.CharDevice
}

// readChar reads a class entry.
func (v *view) readChar(e entry) *char {
	kind := charKind(e.name)
	c := &char{parent: locate(e.path).parent, fact: &discoveryv1.CharDevice{Kind: kind, Path: hostPath(e.name)}}
	if e.err != nil {
		c.broken.add(e.name, e.err)
		return c
	}
	dir, err := v.sys.OpenDir(e.path)
	if err != nil {
		c.gone = sysfs.Absent(err)
		c.broken.add(e.name, err)
		return c
	}
	defer dir.Close()
	c.parent = path.Dir(path.Dir(dir.Path()))
	a := attrs{dir: dir, label: e.name + "/", broken: &c.broken}
	c.ibdev = a.text("ibdev")
	number := a.text("dev")
	if kind != uverbs {
		a.parsed("port", func(text string) bool {
			n, err := strconv.ParseUint(text, 10, 32)
			if err == nil {
				c.fact.Port = new(uint32(n))
			}
			return err == nil
		})
	}
	c.look(v, e.name, number, &a)
	return c
}

// readCM reads the device file of the connection manager, which all RDMA devices
// share.
func (v *view) readCM() *char {
	c := &char{fact: &discoveryv1.CharDevice{Kind: rdmaCM, Path: hostPath("rdma_cm")}}
	a := attrs{label: "rdma_cm/", broken: &c.broken}
	number := ""
	p, err := v.sys.Readlink(classCM)
	c.gone = err != nil // the module is not loaded
	if err == nil {
		if dir, err := v.sys.OpenDir(p); err == nil {
			defer dir.Close()
			a.dir = dir
			number = a.text("dev")
		}
	}
	c.look(v, "rdma_cm", number, &a)
	return c
}

// look looks for the file. number is what the attribute dev says; a recorded tree
// may lack it.
func (c *char) look(v *view, name, number string, a *attrs) {
	ok := true
	if number != "" {
		if c.fact.Major, c.fact.Minor, ok = deviceNumber(number); !ok {
			a.note("dev", errNonsense)
		}
	}
	st, err := v.statDev(name)
	isChar := st.Mode&unix.S_IFMT == unix.S_IFCHR
	major, minor := unix.Major(st.Rdev), unix.Minor(st.Rdev)
	switch {
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		c.file = fileForbidden
	case err != nil:
		c.file = fileMissing
	case v.live && !isChar, v.live && number != "" && ok && (major != c.fact.Major || minor != c.fact.Minor):
		c.file = fileOther
	case isChar:
		c.fact.Major, c.fact.Minor = major, minor
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
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
