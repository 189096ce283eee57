// A netlink socket that listens to the kernel.
//
// SPDX-License-Identifier: Apache-2.0

package notice

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// socketBuffer holds the burst of a thousand virtual functions. Without
	// CAP_NET_ADMIN the system's limit (net.core.rmem_max) holds; what does not fit
	// is told by errLost.
	socketBuffer = 1 << 20
	// messageSize is more than the kernel sends at once: a uevent has up to
	// UEVENT_BUFFER_SIZE bytes and its header (include/linux/kobject.h), a part of a
	// dump up to 32 KiB (netlink_recvmsg in net/netlink/af_netlink.c).
	messageSize = 32 << 10
)

// errLost tells that the kernel had something to say that did not fit. The socket
// goes on.
var errLost = errors.New("events were lost")

// socket receives what the kernel sends to a multicast group. The netlink library's
// own can't tell that events were lost, and costs 128 KiB a message. Its methods are
// for one goroutine.
type socket struct {
	file    *os.File
	raw     syscall.RawConn
	message []byte
	forget  func() bool // ends the wait for the context's end
}

// listen opens a socket in the name space of the calling thread. It ends with ctx,
// and has to be closed. A buffer of 0 bytes stands for socketBuffer.
func listen(ctx context.Context, protocol int, group uint, buffer int) (*socket, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, protocol)
	if err != nil {
		return nil, fmt.Errorf("open netlink socket: %w", err)
	}
	s := &socket{file: os.NewFile(uintptr(fd), "netlink"), message: make([]byte, messageSize)}
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, cmp.Or(buffer, socketBuffer))
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: 1 << (group - 1)}); err != nil {
		return nil, errors.Join(fmt.Errorf("bind netlink socket: %w", err), s.file.Close())
	}
	if s.raw, err = s.file.SyscallConn(); err != nil {
		return nil, errors.Join(err, s.file.Close())
	}
	s.forget = context.AfterFunc(ctx, func() { _ = s.file.Close() })
	return s, nil
}

func (s *socket) close() {
	s.forget()
	_ = s.file.Close()
}

// receive waits for what the kernel sends, without keeping a thread. The message is
// good until the next call. After errLost it can be called again; every other error
// is the socket's end.
func (s *socket) receive() ([]byte, error) {
	for {
		var size int
		var from unix.Sockaddr
		var err error
		waitErr := s.raw.Read(func(fd uintptr) bool {
			size, from, err = unix.Recvfrom(int(fd), s.message, unix.MSG_TRUNC)
			return !errors.Is(err, unix.EAGAIN)
		})
		switch {
		case waitErr != nil:
			return nil, fmt.Errorf("read netlink socket: %w", waitErr)
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.ENOBUFS):
			return nil, errLost
		case err != nil:
			return nil, fmt.Errorf("read netlink socket: %w", err)
		}
		// Only the kernel has the port 0; other programs can send here too.
		if sender, ok := from.(*unix.SockaddrNetlink); !ok || sender.Pid != 0 {
			continue
		}
		if size > len(s.message) {
			return nil, errLost
		}
		return s.message[:size], nil
	}
}

// send sends a request to the kernel.
func (s *socket) send(request []byte) error {
	var err error
	waitErr := s.raw.Write(func(fd uintptr) bool {
		err = unix.Sendto(int(fd), request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
		return !errors.Is(err, unix.EAGAIN)
	})
	if err = errors.Join(waitErr, err); err != nil {
		return fmt.Errorf("ask netlink socket: %w", err)
	}
	return nil
}
