// The kernel's own events of devices that come, go and change. They need no
// capability, and those of RDMA devices reach every network name space.
//
// SPDX-License-Identifier: Apache-2.0

package notice

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// kernelGroup is the multicast group that the kernel itself sends to; udev's
	// is 2 (lib/kobject_uevent.c).
	kernelGroup = 1
	// ueventSize is UEVENT_BUFFER_SIZE and the header (include/linux/kobject.h).
	ueventSize = 2048 + 512
	// ueventBuffer holds the burst of a thousand virtual functions.
	ueventBuffer = 1 << 20
)

// Uevents is the source of kobject uevents.
type Uevents struct{}

// Name implements Source.
func (Uevents) Name() string { return "uevents" }

// Run implements Source.
func (Uevents) Run(ctx context.Context, n *Notice) error {
	socket, err := openUevents()
	if err != nil {
		return err
	}
	defer socket.Close()
	defer context.AfterFunc(ctx, func() { _ = socket.Close() })()
	raw, err := socket.SyscallConn()
	if err != nil {
		return err
	}
	var message [ueventSize]byte
	for {
		size, from, err := receive(raw, message[:])
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.ENOBUFS): // some were lost
			n.Event()
		case err != nil:
			return fmt.Errorf("read uevent socket: %w", err)
		default:
			// Only the kernel has the port 0; other programs can send here too.
			if sender, ok := from.(*unix.SockaddrNetlink); ok && sender.Pid == 0 && matters(message[:size]) {
				n.Event()
			}
		}
	}
}

// receive waits for a message without keeping a thread.
func receive(raw syscall.RawConn, message []byte) (size int, from unix.Sockaddr, err error) {
	waitErr := raw.Read(func(fd uintptr) bool {
		size, from, err = unix.Recvfrom(int(fd), message, 0)
		return !errors.Is(err, unix.EAGAIN)
	})
	return size, from, errors.Join(waitErr, err)
}

func openUevents() (*os.File, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_KOBJECT_UEVENT)
	if err != nil {
		return nil, fmt.Errorf("open uevent socket: %w", err)
	}
	socket := os.NewFile(uintptr(fd), "uevents")
	// Without CAP_NET_ADMIN the system's limit holds; what does not fit is told by
	// ENOBUFS.
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, ueventBuffer)
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: kernelGroup}); err != nil {
		return nil, errors.Join(fmt.Errorf("bind uevent socket: %w", err), socket.Close())
	}
	return socket, nil
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
