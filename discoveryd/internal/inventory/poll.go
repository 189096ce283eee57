// A cheap look at the ports. Their state changes without any event of the kernel:
// no uevent at all, and a netlink message only where there is a network device
// and in its name space.
//
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"context"
	"sync/atomic"
	"time"

	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

// Polls tells whether the last scan has found ports, so that Poll has something to
// look at.
func (s *Scanner) Polls() bool { return len(s.polled) > 0 }

// Poll looks at the ports that the last scan found, and no more, and tells whether
// a scan would find something else than that one did. It is meant to be called
// every second. A device that hangs is passed over.
//
// Reading a port's state may be a question to the firmware (mlx5), so it is read at
// every second call only, and not at all where a network device's carrier tells.
func (s *Scanner) Poll(ctx context.Context) (changed bool) {
	if !s.Polls() {
		return false
	}
	v, err := openView(s.opts.Root)
	if err != nil {
		return true
	}
	defer v.release()
	s.polls++
	states := s.polls%2 == 0
	var differ atomic.Bool
	parallel(len(s.polled), func(i int) {
		e := s.polled[i]
		s.devices.do(ctx, v, e.key(), time.Time{}, func(last *facts) *facts {
			if last != nil && v.portsDiffer(e, last.device.GetPorts(), states) {
				differ.Store(true)
			}
			return last
		})
	})
	return differ.Load()
}

// portsDiffer compares with what is known; states tells whether to read states.
func (v *view) portsDiffer(e entry, last []*discoveryv1.Port, states bool) bool {
	for _, port := range last {
		nets := carriers(port)
		for _, n := range nets {
			if v.carrierDiffers(n) {
				return true
			}
		}
		if len(nets) > 0 || !states {
			continue
		}
		// A text that can't be read is no state, as it was in the scan.
		text, _ := v.sys.Text(e.path + "/" + portPrefix(port.GetNumber()) + "state")
		if state, _ := portState(text); state != port.GetState() {
			return true
		}
	}
	return !v.sys.Exists(e.path)
}

// carriers are the network devices whose carrier makes the port's state. It does on
// Ethernet; an InfiniBand port may be active while its IPoIB device is down.
func carriers(port *discoveryv1.Port) (nets []*discoveryv1.NetDevice) {
	if port.GetLinkLayer() != discoveryv1.LinkLayer_LINK_LAYER_ETHERNET {
		return nil
	}
	for _, n := range port.GetNetDevices() {
		if n.Carrier != nil {
			nets = append(nets, n)
		}
	}
	return nets
}

// carrierDiffers tells whether the device has another carrier now, or none.
func (v *view) carrierDiffers(n *discoveryv1.NetDevice) bool {
	p, err := v.netPath(n.GetName())
	if err != nil {
		return true
	}
	text, err := v.sys.Text(p + "/carrier")
	return err != nil || (text == "1") != n.GetCarrier()
}
