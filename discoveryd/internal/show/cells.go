// What the table's cells say of one device.
//
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"path"
	"slices"
	"strconv"
	"strings"

	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

const none = "-"

// kind is how the hardware was divided to give the device. With representors the
// function's switch is on: RoCE goes through the other functions then (R36).
func kind(d *discoveryv1.Device) string {
	word := word(d.GetParent().GetFunction().String(), "FUNCTION_KIND_")
	if slices.ContainsFunc(d.GetOtherNetDevices(), func(n *discoveryv1.NetDevice) bool {
		return n.GetRole() == discoveryv1.NetDeviceRole_NET_DEVICE_ROLE_REPRESENTOR
	}) {
		word += "/switchdev"
	}
	return word
}

func numa(p *discoveryv1.Parent) string {
	if p.NumaNode == nil {
		return none
	}
	return strconv.Itoa(int(p.GetNumaNode()))
}

// ofPorts gives what cell says of each port, with slashes between: active/down.
// What all say is said once, what many in a row say with their number: down/active*4.
func ofPorts(ports []*discoveryv1.Port, cell func(*discoveryv1.Port) string) string {
	var parts []string
	for i := 0; i < len(ports); {
		part, n := cell(ports[i]), 1
		for i+n < len(ports) && cell(ports[i+n]) == part {
			n++
		}
		if n > 1 && n < len(ports) {
			parts = append(parts, part+"*"+strconv.Itoa(n))
		} else {
			parts = append(parts, part)
		}
		i += n
	}
	return or(strings.Join(parts, "/"), none)
}

func portNumbers(ports []*discoveryv1.Port) string {
	numbers := make([]uint64, 0, len(ports))
	for _, p := range ports {
		numbers = append(numbers, uint64(p.GetNumber()))
	}
	return or(ranges(numbers), none)
}

func linkLayer(p *discoveryv1.Port) string { return word(p.GetLinkLayer().String(), "LINK_LAYER_") }

func state(p *discoveryv1.Port) string { return word(p.GetState().String(), "PORT_STATE_") }

func physState(p *discoveryv1.Port) string { return word(p.GetPhysState().String(), "PHYS_STATE_") }

func rate(p *discoveryv1.Port) string { return or(p.GetRate(), none) }

// speed is the number in the rate, which is in Gb/s: that of "100 Gb/sec (4X EDR)" is
// 100.
func speed(p *discoveryv1.Port) string {
	number, rest, ok := strings.Cut(p.GetRate(), " Gb/sec")
	if !ok || (rest != "" && rest[0] != ' ') {
		return rate(p)
	}
	return number
}

func portNets(p *discoveryv1.Port) string { return netNames(p.GetNetDevices()) }

func netNames(nets []*discoveryv1.NetDevice) string {
	names := make([]string, 0, len(nets))
	for _, n := range nets {
		names = append(names, n.GetName())
	}
	slices.SortFunc(names, natural)
	return or(strings.Join(names, ","), none)
}

// files are the names of the character devices, those of a kind together:
// uverbs0,umad0-3,rdma_cm.
func files(list []*discoveryv1.CharDevice) string {
	var kinds []string
	numbers := map[string][]uint64{}
	for _, c := range list {
		name := path.Base(c.GetPath())
		kind := strings.TrimRight(name, "0123456789")
		n, err := strconv.ParseUint(name[len(kind):], 10, 64)
		if err != nil {
			kind = name
		}
		if _, known := numbers[kind]; !known {
			kinds, numbers[kind] = append(kinds, kind), nil
		}
		if err == nil {
			numbers[kind] = append(numbers[kind], n)
		}
	}
	for i, kind := range kinds {
		slices.Sort(numbers[kind])
		kinds[i] += ranges(numbers[kind])
	}
	return or(strings.Join(kinds, ","), none)
}

// ids are two PCI IDs.
func ids(first, second string) string {
	if first == "" && second == "" {
		return none
	}
	return or(first, "?") + ":" + or(second, "?")
}

// above is the physical function of a virtual or scalable one, with what tells this
// one from the others on it.
func above(p *discoveryv1.Parent) string {
	switch {
	case p.VfIndex != nil:
		return p.GetPfAddress() + "#" + strconv.Itoa(int(p.GetVfIndex()))
	case p.GetAuxiliaryName() != "":
		return or(p.GetPfAddress(), none) + "#" + p.GetAuxiliaryName()
	}
	return or(p.GetPfAddress(), none)
}

// codes are the codes of reasons, in short.
func codes(reasons []*discoveryv1.Reason) string {
	list := make([]string, 0, len(reasons))
	for _, r := range reasons {
		list = append(list, code(r))
	}
	return or(strings.Join(list, ","), none)
}

func code(r *discoveryv1.Reason) string {
	return strings.TrimPrefix(r.GetCode().String(), "REASON_CODE_")
}

// word makes a word for people of an enum value's name.
func word(name, prefix string) string {
	name = strings.ToLower(strings.TrimPrefix(name, prefix))
	if name == "unspecified" {
		return none
	}
	return strings.ReplaceAll(name, "_", "-")
}
