// A cheap look at the ports. Their state changes without a uevent, and with a
// netlink message only where there is a network device, to those in its name space.
//
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

const (
	// carrierInterval is how often a carrier is read that nobody tells of.
	carrierInterval = time.Second
	// stateInterval is how often a port's state is read, which may be a question to
	// the firmware (mlx5).
	stateInterval = 2 * time.Second
)

// PollInterval is how often Poll finds something to look at; 0 stands for never.
// heard tells that somebody else tells of the network devices' changes.
func (s *Scanner) PollInterval(heard bool) time.Duration {
	interval := time.Duration(0)
	for _, p := range s.polled {
		switch {
		case p.carriers && !heard:
			return carrierInterval
		case p.states:
			interval = stateInterval
		}
	}
	return interval
}

// Poll looks at the ports that the last scan found, as far as nobody tells of them,
// and returns what may differ by now. It is to be called once an interval. A device
// that hangs is passed over.
func (s *Scanner) Poll(ctx context.Context, heard bool) Stale {
	interval := s.PollInterval(heard)
	if interval == 0 {
		return Stale{}
	}
	v, err := openView(s.opts.Root)
	if err != nil {
		return Everything()
	}
	defer v.release()
	s.polls++
	look := looks{carriers: !heard, states: interval == stateInterval || s.polls%2 == 0}
	var due []polled
	for _, p := range s.polled {
		if look.carriers && p.carriers || look.states && p.states {
			due = append(due, p)
		}
	}
	// A device that was given up on may still be at it, and sets its flag too late.
	differ := make([]atomic.Bool, len(due))
	var gone atomic.Bool
	parallel(len(due), func(i int) {
		e := due[i].entry
		s.devices.do(ctx, v, e.key(), time.Time{}, func(last *facts) *facts {
			switch {
			case last == nil:
			case !v.sys.Exists(e.path):
				gone.Store(true)
			case v.portsDiffer(look, e, last.device.GetPorts()):
				differ[i].Store(true)
			}
			return last
		})
	})
	stale := Stale{all: gone.Load()}
	for i := range due {
		if differ[i].Load() {
			stale.add(due[i].entry)
		}
	}
	return stale
}

// polled is a device of the last scan whose ports are worth a look.
type polled struct {
	entry
	// carriers and states tell what there is to look at.
	carriers, states bool
}

// looks tells what to look at.
type looks struct{ carriers, states bool }

// toPoll finds out what there is to look at.
func toPoll(e entry, ports []*discoveryv1.Port) polled {
	p := polled{entry: e}
	for _, port := range ports {
		if len(carriers(port)) > 0 {
			p.carriers = true
		} else {
			p.states = true
		}
	}
	return p
}

// portsDiffer compares the ports with what is known of them.
func (v *view) portsDiffer(at looks, e entry, last []*discoveryv1.Port) bool {
	for _, port := range last {
		nets := carriers(port)
		if at.carriers && slices.ContainsFunc(nets, v.carrierDiffers) {
			return true
		}
		if len(nets) > 0 || !at.states {
			continue
		}
		// A text that can't be read is no state, as it was in the scan.
		text, _ := v.sys.Text(e.path + "/" + portPrefix(port.GetNumber()) + "state")
		if state, _ := portState(text); state != port.GetState() {
			return true
		}
	}
	return false
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
