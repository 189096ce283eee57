// From the facts of all devices to the snapshot: character devices to their
// owners, reasons in words, everything sorted and within its limits.
//
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"cmp"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

// result is what reading one device gave.
type result struct {
	entry
	answer answer[*facts]
}

// assemble makes the snapshot. The facts are shared with earlier and later
// snapshots and stay as they are.
func assemble(l *listing, results []result) *discoveryv1.Snapshot {
	s := &discoveryv1.Snapshot{Devices: make([]*discoveryv1.Device, len(results))}
	parallel(len(results), func(i int) {
		a := results[i].answer
		if !a.known {
			a.value = unread(results[i].entry)
		}
		if !a.value.gone {
			s.Devices[i] = finish(l, a)
		}
	})
	s.Devices = slices.DeleteFunc(s.Devices, func(d *discoveryv1.Device) bool { return d == nil })
	slices.SortFunc(s.Devices, func(a, b *discoveryv1.Device) int {
		return cmp.Or(strings.Compare(a.GetName(), b.GetName()),
			strings.Compare(a.GetParent().GetPciAddress(), b.GetParent().GetPciAddress()))
	})
	// Two names can be one only after what can't be shown in them was replaced.
	s.Devices = slices.CompactFunc(s.Devices, func(a, b *discoveryv1.Device) bool {
		return a.GetName() != "" && a.GetName() == b.GetName()
	})
	var cut bool
	s.Devices, cut = fit(s.Devices)
	s.Node = node(l, cut)
	return s
}

// fit keeps what a snapshot may hold: the functions without RDMA device go first,
// then the RDMA devices that are last in order. cut tells that something went.
func fit(devices []*discoveryv1.Device) (kept []*discoveryv1.Device, cut bool) {
	bare := 0
	for bare < len(devices) && devices[bare].GetName() == "" {
		bare++
	}
	number, size := 0, 0
	within := func(d *discoveryv1.Device) bool {
		number++
		size += proto.Size(d)
		return number <= MaxDevices && size <= MaxBytes
	}
	end, bareEnd := bare, 0
	for end < len(devices) && within(devices[end]) {
		end++
	}
	for bareEnd < bare && within(devices[bareEnd]) {
		bareEnd++
	}
	return slices.Concat(devices[:bareEnd], devices[bare:end]), bareEnd < bare || end < len(devices)
}

// finish makes the device of the snapshot.
func finish(l *listing, a answer[*facts]) *discoveryv1.Device {
	f := a.value
	from := f.device
	d := &discoveryv1.Device{
		Name: from.GetName(), NodeGuid: from.GetNodeGuid(), SysImageGuid: from.GetSysImageGuid(),
		FirmwareVersion: from.GetFirmwareVersion(), NodeType: from.GetNodeType(), Parent: from.GetParent(),
		Ports: from.GetPorts(), OtherNetDevices: from.GetOtherNetDevices(),
	}
	w := reasons{}
	if a.overdue {
		w.add(discoveryv1.ReasonCode_REASON_CODE_NOT_ANSWERING, notAnswering)
	}
	if d.GetParent().GetPciAddress() != "" && d.GetParent().GetDriver() == "" && a.known {
		w.add(discoveryv1.ReasonCode_REASON_CODE_DRIVER_UNBOUND, driverUnbound)
	}
	if len(f.excess) > 0 {
		w.add(discoveryv1.ReasonCode_REASON_CODE_TOO_MANY, tooManyOf(f.excess))
	}
	broken := slices.Clone(f.broken)
	if d.GetName() == "" {
		w.add(discoveryv1.ReasonCode_REASON_CODE_NO_RDMA_DEVICE, noRDMADevice)
	} else {
		if l.netns == discoveryv1.NetnsMode_NETNS_MODE_EXCLUSIVE {
			w.add(discoveryv1.ReasonCode_REASON_CODE_NETNS_EXCLUSIVE, netnsExclusive)
		}
		if a.known {
			broken = append(broken, addChars(d, l, f, &w)...)
			if len(d.GetPorts()) == 0 {
				w.add(discoveryv1.ReasonCode_REASON_CODE_NO_PORTS, noPorts)
			}
		}
	}
	if len(broken) > 0 {
		w.add(discoveryv1.ReasonCode_REASON_CODE_UNREADABLE, unreadable(broken))
	}
	d.Reasons = w.sorted()
	return d
}

// addChars gives the device its character devices, and the reasons for those that
// are not there.
func addChars(d *discoveryv1.Device, l *listing, f *facts, w *reasons) (broken notes) {
	chars := f.chars
	if len(chars) > maxChars {
		chars = chars[:maxChars]
		w.add(discoveryv1.ReasonCode_REASON_CODE_TOO_MANY, tooManyOf([]string{"character devices"}))
	}
	var missing, other, forbidden []string
	sees := func(c *char) bool {
		switch c.file {
		case fileMissing:
			missing = append(missing, c.fact.GetPath())
		case fileOther:
			other = append(other, c.fact.GetPath())
		case fileForbidden:
			forbidden = append(forbidden, c.fact.GetPath())
			return true
		case fileThere:
			return true
		}
		return false
	}
	told := map[discoveryv1.CharDeviceKind]bool{}
	has := map[discoveryv1.CharDeviceKind]bool{}
	for _, c := range chars {
		broken = append(broken, c.broken...)
		if c.ibdev == "" {
			continue
		}
		told[c.fact.GetKind()] = true
		if sees(c) {
			has[c.fact.GetKind()] = true
			d.CharDevices = append(d.CharDevices, c.fact)
		}
	}
	// The kernel tells of rdma_cm by class/misc; a recorded tree may lack that.
	switch cm := l.cm; {
	case cm.file == fileMissing && !cm.loaded:
		w.add(discoveryv1.ReasonCode_REASON_CODE_NO_RDMA_CM, noRDMACM)
	case sees(cm):
		d.CharDevices = append(d.CharDevices, cm.fact)
	default:
		w.add(discoveryv1.ReasonCode_REASON_CODE_NO_RDMA_CM, noRDMACMFile)
	}
	slices.SortFunc(d.CharDevices, func(a, b *discoveryv1.CharDevice) int {
		return cmp.Or(cmp.Compare(a.GetKind(), b.GetKind()), compareNatural(a.GetPath(), b.GetPath()))
	})
	if !has[uverbs] {
		w.add(discoveryv1.ReasonCode_REASON_CODE_NO_UVERBS, noUverbs(l.hasVerbs, told[uverbs], f.hasCompany && told[umad]))
	}
	if !has[umad] && (told[umad] || !l.hasMAD && d.GetNodeType() == discoveryv1.NodeType_NODE_TYPE_CA) {
		w.add(discoveryv1.ReasonCode_REASON_CODE_NO_UMAD, noUmad(l.hasMAD))
	}
	if len(missing)+len(other) > 0 {
		w.add(discoveryv1.ReasonCode_REASON_CODE_DEVICE_FILE_MISSING, filesMissing(missing, other))
	}
	if len(forbidden) > 0 {
		w.add(discoveryv1.ReasonCode_REASON_CODE_NOT_PERMITTED, notPermitted(forbidden))
	}
	return append(broken, l.cm.broken...)
}

// node makes the node-wide part.
func node(l *listing, tooMany bool) *discoveryv1.Node {
	w := reasons{}
	if !l.hasRDMA {
		w.add(discoveryv1.ReasonCode_REASON_CODE_NO_RDMA_SUBSYSTEM, noSubsystem)
	}
	if l.netns == discoveryv1.NetnsMode_NETNS_MODE_EXCLUSIVE {
		w.add(discoveryv1.ReasonCode_REASON_CODE_NETNS_EXCLUSIVE, netnsExclusive)
	}
	if tooMany {
		w.add(discoveryv1.ReasonCode_REASON_CODE_TOO_MANY, tooManyOf([]string{"devices"}))
	}
	return &discoveryv1.Node{
		NetnsMode:     l.netns,
		KernelRelease: l.release,
		Modules: []*discoveryv1.Module{
			{Name: "ib_umad", Present: l.hasMAD},
			{Name: "ib_uverbs", Present: l.hasVerbs},
			{Name: "rdma_ucm", Present: l.cm.loaded || l.cm.file == fileThere || l.cm.file == fileForbidden},
		},
		Reasons: w.sorted(),
	}
}
