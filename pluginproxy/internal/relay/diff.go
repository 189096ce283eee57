// What is new in a snapshot, in a few words.
//
// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"fmt"
	"slices"
	"strings"

	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

// maxDifferences bounds how many devices are named.
const maxDifferences = 4

// differences tells what is new in after. A nil before is one that was never there.
func differences(before, after *discoveryv1.Snapshot) string {
	if before == nil {
		return plural(rdmaDevices(after), "RDMA device")
	}
	var list []string
	if a, b := before.GetNode().GetNetnsMode(), after.GetNode().GetNetnsMode(); a != b {
		list = append(list, "netns mode "+netnsMode(b)+", was "+netnsMode(a))
	}
	there := map[string]*discoveryv1.Device{}
	for _, d := range before.GetDevices() {
		there[label(d)] = d
	}
	for _, d := range after.GetDevices() {
		name := label(d)
		old, known := there[name]
		delete(there, name)
		if !known {
			list = append(list, name+" appeared")
		} else if what := deviceChange(old, d); what != "" {
			list = append(list, name+" "+what)
		}
	}
	gone := make([]string, 0, len(there))
	for name := range there {
		gone = append(gone, name+" disappeared")
	}
	slices.Sort(gone)
	list = append(list, gone...)
	switch more := len(list) - maxDifferences; {
	case len(list) == 0 && before.GetInstanceId() != after.GetInstanceId():
		return "nothing else; discoveryd was started anew"
	case len(list) == 0:
		return "other facts"
	case more > 0:
		return strings.Join(list[:maxDifferences], ", ") + fmt.Sprintf(" and %d changes more", more)
	}
	return strings.Join(list, ", ")
}

// label names a device: by its RDMA name or, where it has none, its address.
func label(d *discoveryv1.Device) string {
	if d.GetName() != "" {
		return d.GetName()
	}
	return d.GetParent().GetPciAddress()
}

// deviceChange tells the first difference that matters to a reader.
func deviceChange(before, after *discoveryv1.Device) string {
	was := map[uint32]*discoveryv1.Port{}
	for _, p := range before.GetPorts() {
		was[p.GetNumber()] = p
	}
	for _, p := range after.GetPorts() {
		old := was[p.GetNumber()]
		if a, b := portState(old.GetState()), portState(p.GetState()); a != b {
			return fmt.Sprintf("port %d is %s, was %s", p.GetNumber(), b, a)
		}
		if a, b := carriers(old), carriers(p); a != b {
			return fmt.Sprintf("port %d has %s, had %s", p.GetNumber(), b, a)
		}
	}
	for _, r := range after.GetReasons() {
		if !hasReason(before, r.GetCode()) {
			return "has a fault: " + r.GetMessage()
		}
	}
	for _, r := range before.GetReasons() {
		if !hasReason(after, r.GetCode()) {
			return "has a fault no more: " + r.GetMessage()
		}
	}
	if a, b := len(before.GetCharDevices()), len(after.GetCharDevices()); a != b {
		return fmt.Sprintf("has %s, had %d", plural(b, "file"), a)
	}
	return ""
}

func hasReason(d *discoveryv1.Device, code discoveryv1.ReasonCode) bool {
	return slices.ContainsFunc(d.GetReasons(), func(r *discoveryv1.Reason) bool { return r.GetCode() == code })
}

// carriers tells which of a port's network devices have a carrier.
func carriers(p *discoveryv1.Port) string {
	var with, without []string
	for _, n := range p.GetNetDevices() {
		if n.GetCarrier() {
			with = append(with, n.GetName())
		} else {
			without = append(without, n.GetName())
		}
	}
	switch {
	case len(with) > 0:
		return "a carrier on " + strings.Join(with, " ")
	case len(without) > 0:
		return "no carrier on " + strings.Join(without, " ")
	}
	return "no network device"
}

// rdmaDevices counts the devices that are RDMA devices, usable or not.
func rdmaDevices(s *discoveryv1.Snapshot) (n int) {
	for _, d := range s.GetDevices() {
		if d.GetName() != "" {
			n++
		}
	}
	return n
}

func portState(s discoveryv1.PortState) string {
	if s == discoveryv1.PortState_PORT_STATE_UNSPECIFIED {
		return "unknown"
	}
	return strings.TrimPrefix(s.String(), "PORT_STATE_")
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
