// The kernel's own events of devices that come, go and change. They need no
// capability, and those of RDMA devices reach every network name space.
//
// SPDX-License-Identifier: Apache-2.0

package notice

import (
	"bytes"
	"context"
	"errors"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// kernelGroup is the multicast group that the kernel itself sends to; udev's is 2
// (lib/kobject_uevent.c).
const kernelGroup = 1

// Uevents is the source of kobject uevents.
type Uevents struct {
	buffer int // of the socket, in tests
}

// Name implements Source.
func (Uevents) Name() string { return "uevents" }

// Run implements Source.
func (u Uevents) Run(ctx context.Context, n *Notice, listening func()) error {
	s, err := listen(ctx, unix.NETLINK_KOBJECT_UEVENT, kernelGroup, u.buffer)
	if err != nil {
		return err
	}
	defer s.close()
	listening()
	for {
		message, err := s.receive()
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, errLost):
			n.Event()
		case err != nil:
			return err
		default:
			parseUevent(message).tell(n)
		}
	}
}

// uevent is what a message says that is of use here.
type uevent struct {
	action    string
	path      string // of the device, in sysfs
	oldPath   string // before a move
	subsystem string
}

// parseUevent takes a message apart. It is "action@devpath" and then KEY=value
// strings, each ended by a NUL.
func parseUevent(message []byte) (e uevent) {
	header, rest, _ := bytes.Cut(message, []byte{0})
	action, devpath, ok := strings.Cut(string(header), "@")
	if !ok {
		return e
	}
	e.action, e.path = action, strings.TrimPrefix(devpath, "/")
	for field := range bytes.SplitSeq(rest, []byte{0}) {
		switch key, value, _ := strings.Cut(string(field), "="); key {
		case "SUBSYSTEM":
			e.subsystem = value
		case "DEVPATH_OLD":
			e.oldPath = strings.TrimPrefix(value, "/")
		}
	}
	return e
}

// modules are those that a snapshot names, by their paths.
var modules = []string{"module/ib_core", "module/ib_uverbs", "module/ib_umad", "module/rdma_ucm"}

// tell notes the event, if it is about something that a snapshot shows.
func (e uevent) tell(n *Notice) {
	switch e.subsystem {
	case "infiniband", "infiniband_verbs", "infiniband_mad":
		n.Places(parent(e.path))
	case "pci", "auxiliary":
		n.Places(e.path)
	case "net":
		if !strings.HasPrefix(e.path, "devices/virtual/") {
			n.Places(parent(e.path))
			return
		}
		// The network devices of pods come and go all day; those that an RDMA device
		// is stacked on bring events of its own.
		if e.action == "move" {
			n.Links(path.Base(e.path), path.Base(e.oldPath))
		}
	case "misc":
		if path.Base(e.path) == "rdma_cm" {
			n.Classes()
		}
	case "module":
		if slices.Contains(modules, e.path) {
			n.Classes()
		}
	}
}

// parent is the device that the class device at p hangs on: devices/x of
// devices/x/infiniband/mlx5_0.
func parent(p string) string { return path.Dir(path.Dir(p)) }
