// What the page and `pluginproxy status` show alike: the report in words, bounded.
//
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"strings"
	"time"

	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/relay"
	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/resource"
)

// Bounds of what people are shown; the JSON has all.
const (
	maxGroups  = 24  // rules per resource
	maxMembers = 16  // devices per rule
	maxDevices = 256 // devices of the node
)

// group is a rule with the devices that it turned away.
type group struct {
	Rule    string
	Devices []string
	More    int // devices beyond those
}

func (g *group) add(device string) {
	if len(g.Devices) < maxMembers {
		g.Devices = append(g.Devices, device)
	} else {
		g.More++
	}
}

// who names the devices.
func (g group) who() string {
	s := strings.Join(g.Devices, ", ")
	if g.More > 0 {
		s += fmt.Sprintf(" and %d more", g.More)
	}
	return s
}

// groups puts devices together that the same rule turned away: on a big node
// hundreds are left out for one reason. more counts rules beyond the bound.
func groups(list []resource.LeftOut) (all []group, more int) {
	at := map[string]int{}
	for _, l := range list {
		rule, got := takeApart(l.Rule)
		i, known := at[rule]
		if !known {
			i = len(at)
			at[rule] = i
			if i < maxGroups {
				all = append(all, group{Rule: rule})
			}
		}
		switch {
		case i >= maxGroups:
		case got == "" || got == l.Device:
			all[i].add(l.Device)
		default:
			all[i].add(l.Device + " (" + got + ")")
		}
	}
	return all, max(0, len(at)-maxGroups)
}

// takeApart takes what the device has out of a selector's rule, which reads
// "ifNames: ens1 is not one of ens2, ens3".
func takeApart(rule string) (common, got string) {
	key, rest, ok := strings.Cut(rule, ": ")
	if !ok {
		return rule, ""
	}
	got, wants, ok := strings.Cut(rest, " is not one of ")
	if !ok {
		return rule, ""
	}
	return key + " is not one of " + wants, got
}

// sharedWith says by device which other resources have it.
func sharedWith(name string, shared []resource.Shared) map[string]string {
	others := make(map[string]string, len(shared))
	for _, s := range shared {
		var names []string
		for _, other := range s.Resources {
			if other != name {
				names = append(names, other)
			}
		}
		others[s.Device] = strings.Join(names, ", ")
	}
	return others
}

// portsDown says by device name what its ports are like where none is up. Whether
// such a device counts as healthy is the configuration's choice.
func portsDown(devices []relay.DeviceReport) map[string]string {
	down := map[string]string{}
	for _, d := range devices {
		var words []string
		for _, p := range d.Ports {
			if portUp(&p) {
				words = nil
				break
			}
			words = append(words, fmt.Sprintf("port %d is %s", p.Number, portWord(&p)))
		}
		if len(words) > 0 {
			down[d.Name] = strings.Join(words, ", ")
		}
	}
	return down
}

func portUp(p *relay.PortReport) bool { return p.State == "ACTIVE" && !dark(p) }

// dark tells whether the kernel denies a carrier to a port's network devices. An
// InfiniBand port may be in use while its IPoIB device has none.
func dark(p *relay.PortReport) bool {
	return p.LinkLayer == "ethernet" && p.Carrier != nil && !*p.Carrier
}

func portWord(p *relay.PortReport) string {
	if dark(p) {
		return p.State + ", no carrier"
	}
	return p.State
}

// hints are those that the resource's own sentence doesn't say already.
func hints(r *relay.ResourceReport) (list []string) {
	for _, h := range r.Hints {
		if !strings.Contains(r.Why, h) && (r.Why == "" || !strings.HasPrefix(h, "all devices are unhealthy")) {
			list = append(list, h)
		}
	}
	return list
}

// ago is a duration for people, in its biggest units.
func ago(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < time.Second:
		return "0s"
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%dh", int(d.Hours())/24, int(d.Hours())%24)
}

// since is ago, and nothing where the time is not known.
func since(now, then time.Time) string {
	if then.IsZero() {
		return ""
	}
	return ago(now.Sub(then))
}

// session says how a resource stands with kubelet.
func session(r *relay.ResourceReport) string {
	switch {
	case r.Session:
		return "live"
	case r.Registered:
		return "registered"
	}
	return "none"
}
