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
	// fewDevices are looked at one after the other: that wakes up fewer threads.
	fewDevices = 8
)

// PollInterval is how often Poll finds something to look at; 0 stands for never.
// heard tells that somebody else tells of the network devices' changes.
func (s *Scanner) PollInterval(heard bool) time.Duration {
	interval := time.Duration(0)
	for _, p := range s.polled {
		switch {
		case len(p.nets) > 0 && !heard:
			return carrierInterval
		case len(p.unheard(heard)) > 0:
			interval = stateInterval
		}
	}
	return interval
}

// Poll looks at the ports that the last scan found, as far as nobody tells of them,
// and returns what may differ by now. It is to be called once an interval. A device
// that hangs is passed over.
func (s *Scanner) Poll(ctx context.Context, heard bool) (stale Stale) {
	interval := s.PollInterval(heard)
	if interval == 0 {
		return stale
	}
	v, err := openView(s.opts.Root)
	if err != nil {
		return Everything()
	}
	defer v.release()
	s.polls++
	if !heard {
		stale = s.pollCarriers(ctx, v)
	}
	if interval == stateInterval || s.polls%2 == 0 {
		stale = stale.And(s.pollStates(ctx, v, heard))
	}
	return stale
}

// pollCarriers looks at all carriers in one go: no driver is asked, and what they may
// have to wait for, the lock of all network devices, is the same for each. To start a
// reader for each costs more than the reading.
func (s *Scanner) pollCarriers(ctx context.Context, v *view) Stale {
	devices := slices.Clone(s.polled) // it may be left hanging
	a := s.carriers.do(ctx, v, "", time.Time{}, func(Stale) (stale Stale) {
		for _, p := range devices {
			switch {
			case len(p.nets) == 0:
			case !v.sys.Exists(p.path):
				stale.classes = true
			case slices.ContainsFunc(p.nets, v.carrierDiffers):
				stale.add(p.entry)
			}
		}
		return stale
	})
	if !a.fresh {
		return Stale{}
	}
	return a.value
}

// pollStates looks at the states of ports of which nothing else tells.
func (s *Scanner) pollStates(ctx context.Context, v *view, heard bool) (stale Stale) {
	var due []polled
	for _, p := range s.polled {
		if len(p.unheard(heard)) > 0 {
			due = append(due, p)
		}
	}
	// A device that was given up on may still be at it, and sets its flag too late.
	differ, gone := make([]atomic.Bool, len(due)), make([]atomic.Bool, len(due))
	look := func(i int) {
		p := due[i]
		s.devices.do(ctx, v, p.key(), time.Time{}, func(last *facts) *facts {
			gone[i].Store(!v.sys.Exists(p.path))
			differ[i].Store(slices.ContainsFunc(p.unheard(heard), func(port *discoveryv1.Port) bool { return v.stateDiffers(p.path, port) }))
			return last
		})
	}
	if len(due) <= fewDevices {
		for i := range due {
			look(i)
		}
	} else {
		parallel(len(due), look)
	}
	for i := range due {
		stale.classes = stale.classes || gone[i].Load()
		if differ[i].Load() {
			stale.add(due[i].entry)
		}
	}
	return stale
}

// polled is a device of the last scan whose ports are worth a look.
type polled struct {
	entry
	nets  []*discoveryv1.NetDevice // of all ports
	ports []*discoveryv1.Port      // of whose state no carrier tells
	alone []*discoveryv1.Port      // of whose state no network device tells
}

// toPoll finds out what there is to look at. An Ethernet port is as its network
// devices are; an InfiniBand port may be active while its IPoIB device is down.
//
// It may be so only a while later: the kernel shows a carrier at once, and tells drivers
// and listeners of it at most once a second (linkwatch_urgent_event in
// net/core/link_watch.c). A port that differs from its carriers is looked at itself.
func toPoll(e entry, ports []*discoveryv1.Port) polled {
	p := polled{entry: e}
	for _, port := range ports {
		carrier, up, net := false, false, false
		for _, n := range port.GetNetDevices() {
			if n.Carrier == nil && n.GetLinkType() == "" && n.GetIfindex() == 0 {
				continue // only its name is known: it is in another name space
			}
			p.nets = append(p.nets, n)
			ether := port.GetLinkLayer() == discoveryv1.LinkLayer_LINK_LAYER_ETHERNET
			net = net || ether
			carrier = carrier || ether && n.Carrier != nil
			up = up || ether && n.GetCarrier()
		}
		behind := carrier && up != (port.GetState() == discoveryv1.PortState_PORT_STATE_ACTIVE)
		if !carrier || behind {
			p.ports = append(p.ports, port)
		}
		if !net || behind {
			p.alone = append(p.alone, port)
		}
	}
	return p
}

// unheard are the ports whose states have to be read.
func (p polled) unheard(heard bool) []*discoveryv1.Port {
	if heard {
		return p.alone
	}
	return p.ports
}

// stateDiffers tells whether the port of the device at p has another state now. A text
// that can't be read is no state, as it was in the scan.
func (v *view) stateDiffers(p string, port *discoveryv1.Port) bool {
	text, _ := v.sys.Text(p + "/" + portPrefix(port.GetNumber()) + "state")
	state, _ := portState(text)
	return state != port.GetState()
}

// carrierDiffers tells whether the device has another carrier now, or is gone.
func (v *view) carrierDiffers(n *discoveryv1.NetDevice) bool {
	p, err := v.netPath(n.GetName())
	if err != nil {
		return true
	}
	text, err := v.sys.Text(p + "/carrier")
	if err != nil { // the device is set down
		return n.Carrier != nil
	}
	return n.Carrier == nil || (text == "1") != n.GetCarrier()
}
