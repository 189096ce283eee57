// What the RDMA subsystem tells of its devices by netlink, from Linux 6.12 on.
//
// SPDX-License-Identifier: Apache-2.0

package notice

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// From include/uapi/rdma/rdma_netlink.h; the netlink library lacks them.
const (
	rdmaNotifyGroup = 4   // RDMA_NL_GROUP_NOTIFY
	rdmaMonitorMode = 103 // RDMA_NLDEV_SYS_ATTR_MONITOR_MODE
)

// RDMA is the source of the RDMA subsystem's notifications: devices registered and
// unregistered, network devices attached to ports and detached. They are sent to the
// initial network name space only, or to that of the device in exclusive mode, and
// need no capability.
//
// An open socket keeps ib_core from being unloaded, and opening one without ib_core
// makes the kernel load it. So there is one only while there are RDMA devices.
type RDMA struct {
	present chan bool
}

// NewRDMA makes a source that waits for a device.
func NewRDMA() *RDMA { return &RDMA{present: make(chan bool, 1)} }

// Present tells the source whether there are RDMA devices. It does not block, and is
// for one goroutine.
func (r *RDMA) Present(is bool) {
	select {
	case <-r.present:
	default:
	}
	r.present <- is
}

// Name implements Source.
func (*RDMA) Name() string { return "RDMA netlink" }

// Run implements Source.
func (r *RDMA) Run(ctx context.Context, n *Notice, listening func()) error {
	for {
		if !r.await(ctx, true) {
			return nil
		}
		open, end := context.WithCancel(ctx)
		var wait sync.WaitGroup
		wait.Go(func() {
			r.await(open, false)
			end()
		})
		err := hearRDMA(open, n, listening)
		end()
		wait.Wait()
		if err != nil {
			return err
		}
	}
}

// await returns true when the presence of devices is as wanted, and false when ctx
// has ended.
func (r *RDMA) await(ctx context.Context, wanted bool) bool {
	for {
		select {
		case <-ctx.Done():
			return false
		case is := <-r.present:
			if is == wanted {
				return true
			}
		}
	}
}

// hearRDMA listens until ctx ends.
func hearRDMA(ctx context.Context, n *Notice, listening func()) error {
	// Up to 6.11 the group can be joined, and stays silent.
	speaks, err := rdmaSpeaks()
	if err != nil {
		return err
	}
	if !speaks {
		<-ctx.Done()
		return nil
	}
	s, err := listen(ctx, unix.NETLINK_RDMA, rdmaNotifyGroup, 0)
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
		case err == nil:
			if name := rdmaName(message); name != "" {
				n.Devices(name)
				continue
			}
		case !errors.Is(err, errLost):
			return err
		}
		n.Event()
	}
}

// rdmaName is the name of the device that a notification is about, empty if there is
// none or more than one.
func rdmaName(message []byte) (name string) {
	parts, err := syscall.ParseNetlinkMessage(message)
	if err != nil || len(parts) != 1 {
		return ""
	}
	attrs, err := nl.ParseRouteAttr(parts[0].Data)
	if err != nil {
		return ""
	}
	for _, a := range attrs {
		if a.Attr.Type == nl.RDMA_NLDEV_ATTR_DEV_NAME {
			name = strings.TrimRight(string(a.Value), "\x00")
		}
	}
	return name
}

// rdmaSpeaks asks the kernel whether it sends notifications.
func rdmaSpeaks() (bool, error) {
	request := nl.NewNetlinkRequest(nl.RDMA_NL_NLDEV<<nl.RDMA_NL_GET_CLIENT_SHIFT|nl.RDMA_NLDEV_CMD_SYS_GET, unix.NLM_F_ACK)
	answers, err := request.Execute(unix.NETLINK_RDMA, 0)
	// Kernels without RDMA have no such socket; old ones don't know the question.
	if errors.Is(err, unix.EPROTONOSUPPORT) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("ask for RDMA monitor mode: %w", err)
	}
	for _, answer := range answers {
		if monitors(answer) {
			return true, nil
		}
	}
	return false, nil
}

// monitors tells whether the answer says that notifications are sent.
func monitors(answer []byte) bool {
	attrs, err := nl.ParseRouteAttr(answer)
	if err != nil {
		return false
	}
	for _, a := range attrs {
		if a.Attr.Type == rdmaMonitorMode {
			return number(a.Value) != 0
		}
	}
	return false
}
