// The kernel's own events of devices that come, go and change. They need no
// capability, and those of RDMA devices reach every network name space.
//
// SPDX-License-Identifier: Apache-2.0

package notice

import (
	"bytes"
	"context"
	"errors"
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
		case err == nil && matters(message), errors.Is(err, errLost):
			n.Event()
		case err != nil:
			return err
		}
	}
}

// matters tells whether a uevent is about something that a snapshot shows. The
// message is "action@devpath" and then KEY=value strings, each ended by a NUL.
func matters(message []byte) bool {
	header, rest, _ := bytes.Cut(message, []byte{0})
	action, devpath, ok := strings.Cut(string(header), "@")
	if !ok {
		return false
	}
	for field := range bytes.SplitSeq(rest, []byte{0}) {
		key, value, _ := strings.Cut(string(field), "=")
		if key != "SUBSYSTEM" {
			continue
		}
		switch value {
		case "infiniband", "infiniband_verbs", "infiniband_mad", "pci", "auxiliary":
			return true
		case "misc":
			return strings.HasSuffix(devpath, "/rdma_cm")
		case "net":
			// The network devices of pods come and go all day; those that an RDMA
			// device is stacked on bring events of their own.
			return action == "move" || !strings.HasPrefix(devpath, "/devices/virtual/")
		}
		return false
	}
	return false
}
