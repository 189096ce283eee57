// What the rules ask about a device, read out of the snapshot once per Build and
// checked: the snapshot comes over a socket, so nothing in it is believed that
// could harm a pod or kubelet.
//
// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rdma-relay/rdma-relay/internal/cdiname"
	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/config"
	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

const (
	// maxDevices bounds the work that a snapshot can make.
	maxDevices = 8192
	// maxNameBytes is IB_DEVICE_NAME_MAX of include/uapi/rdma/rdma_user_ioctl_cmds.h
	// and room to spare for what other subsystems allow.
	maxNameBytes = 64
	// maxList bounds each list inside a device.
	maxList = 256

	deviceDir   = "/dev/infiniband/"
	unknownNUMA = -1
)

// facts are one device's. Strings are in the spelling that package config uses.
type facts struct {
	label string // for people: the RDMA name, else the PCI address
	name  string
	id    string // cdiname.Device
	cdi   string // the qualified CDI name that is in place, or empty
	noCDI string // why there is none

	pci, vendor, deviceID, driver, guid string

	numa      int // unknownNUMA where it is not known
	virtual   bool
	function  string
	pfNames   []string
	vf        uint32
	isVF      bool
	ifNames   []string
	linkTypes []string

	files    []file
	unusable string // why no resource can use it; empty: it can
	noCM     string // why it has no rdma_cm; empty: it has
	// onlyLacksUverbs: there is no other reason why it is unusable.
	onlyLacksUverbs bool
	note            string // what limits it though it is usable
	active          bool   // a port is ACTIVE
	portText        string

	owners *owners // while Build works: the resources that have it so far
}

// file is one below /dev/infiniband.
type file struct {
	kind config.CharDevice
	path string
}

// digest reads the devices of a snapshot. A device whose name or ID is another's
// already is made unusable, so that no rule below meets a double; on one PCI function
// the first has the files of all.
func digest(snap *discoveryv1.Snapshot) []*facts {
	devices := snap.GetDevices()
	devices = devices[:min(len(devices), maxDevices)]
	slab := make([]facts, len(devices))
	all := make([]*facts, 0, len(devices))
	netns, noCDI := netnsFault(snap.GetNode()), cdiFault(snap.GetNode())
	for i, d := range devices {
		if d == nil {
			continue
		}
		f := &slab[i]
		f.read(d)
		if f.unusable == "" {
			f.unusable = netns
		}
		f.noCDI = noCDI
		all = append(all, f)
	}
	slices.SortStableFunc(all, func(a, b *facts) int {
		if c := strings.Compare(a.name, b.name); c != 0 {
			return c
		}
		return strings.Compare(a.pci, b.pci)
	})
	names, ids := make(map[string]bool, len(all)), make(map[string]*facts, len(all))
	for _, f := range all {
		if f.unusable != "" {
			continue
		}
		switch first, taken := ids[f.id]; {
		case names[f.name]:
			f.unusable = "another device has the same name"
		case taken && f.pci != "":
			first.adopt(f)
		case taken:
			f.unusable = "it can't be told from " + first.name + ", whose node GUID is the same"
		default:
			names[f.name], ids[f.id] = true, f
		}
	}
	for _, f := range all {
		if first := ids[f.id]; first != nil && f.isCompanion() {
			first.adopt(f)
		}
	}
	return all
}

func (f *facts) read(d *discoveryv1.Device) {
	parent := d.GetParent()
	f.name = d.GetName()
	f.virtual = parent.GetBus() == discoveryv1.Bus_BUS_NONE || parent.GetFunction() == discoveryv1.FunctionKind_FUNCTION_KIND_VIRTUAL
	f.function = functionWord(parent.GetFunction())
	f.guid = strings.ToLower(d.GetNodeGuid())
	f.numa = unknownNUMA
	if !f.virtual && parent != nil {
		f.readParent(parent)
	}
	f.id = cdiname.Device(d)
	if cdiname.IsQualified(d.GetCdiName()) {
		f.cdi = d.GetCdiName()
	}
	f.label = clip(f.name)
	if f.label == "" {
		f.label = clip(f.pci)
	}
	f.readNet(d)
	f.readFiles(d.GetCharDevices())
	f.readPorts(d.GetPorts())
	f.judge(d.GetReasons())
}

func (f *facts) readParent(p *discoveryv1.Parent) {
	f.pci = p.GetPciAddress()
	f.vendor, f.deviceID, f.driver = p.GetVendorId(), p.GetDeviceId(), p.GetDriver()
	if n := p.GetNumaNode(); p.NumaNode != nil && n >= 0 && n <= config.MaxNUMANode {
		f.numa = int(n)
	}
	f.pfNames = p.GetPfNetDevices()[:min(len(p.GetPfNetDevices()), maxList)]
	f.vf, f.isVF = p.GetVfIndex(), p.VfIndex != nil
}

// readNet collects the names that ifNames may name and the link types. A
// representor stands for another function, so it names none. A port without a
// network device has the type of its link layer; a VPI card has both (R34).
func (f *facts) readNet(d *discoveryv1.Device) {
	add := func(list []*discoveryv1.NetDevice) {
		for _, n := range list[:min(len(list), maxList)] {
			if n.GetName() == "" || n.GetRole() == discoveryv1.NetDeviceRole_NET_DEVICE_ROLE_REPRESENTOR {
				continue
			}
			f.ifNames = append(f.ifNames, n.GetName())
			if n.GetMaster() != "" {
				f.ifNames = append(f.ifNames, n.GetMaster())
			}
			f.ifNames = append(f.ifNames, n.GetUppers()[:min(len(n.GetUppers()), maxList)]...)
			f.linkTypes = append(f.linkTypes, n.GetLinkType())
		}
	}
	ports := d.GetPorts()
	for _, p := range ports[:min(len(ports), maxList)] {
		add(p.GetNetDevices())
		switch p.GetLinkLayer() {
		case discoveryv1.LinkLayer_LINK_LAYER_ETHERNET:
			f.linkTypes = append(f.linkTypes, config.LinkEther)
		case discoveryv1.LinkLayer_LINK_LAYER_INFINIBAND:
			f.linkTypes = append(f.linkTypes, config.LinkInfiniband)
		}
	}
	add(d.GetOtherNetDevices())
	slices.Sort(f.ifNames)
	f.ifNames = slices.Compact(f.ifNames)
	slices.Sort(f.linkTypes)
	f.linkTypes = slices.Compact(f.linkTypes)
}

// readFiles takes the paths that lie in /dev/infiniband; a path elsewhere would
// hand out what is no RDMA device.
func (f *facts) readFiles(list []*discoveryv1.CharDevice) {
	list = list[:min(len(list), maxList)]
	f.files = make([]file, 0, len(list))
	for _, c := range list {
		kind, ok := fileKind(c.GetKind())
		p := c.GetPath()
		if !ok || !strings.HasPrefix(p, deviceDir) || !plain(p[len(deviceDir):]) {
			continue
		}
		f.files = append(f.files, file{kind, p})
	}
}

// has tells whether the device has a file of the kind.
func (f *facts) has(kind config.CharDevice) bool {
	return slices.ContainsFunc(f.files, func(e file) bool { return e.kind == kind })
}

func fileKind(k discoveryv1.CharDeviceKind) (config.CharDevice, bool) {
	switch k {
	case discoveryv1.CharDeviceKind_CHAR_DEVICE_KIND_UVERBS:
		return config.Uverbs, true
	case discoveryv1.CharDeviceKind_CHAR_DEVICE_KIND_UMAD:
		return config.Umad, true
	case discoveryv1.CharDeviceKind_CHAR_DEVICE_KIND_ISSM:
		return config.Issm, true
	case discoveryv1.CharDeviceKind_CHAR_DEVICE_KIND_RDMA_CM:
		return config.RDMACM, true
	}
	return "", false
}

func functionWord(k discoveryv1.FunctionKind) string {
	switch k {
	case discoveryv1.FunctionKind_FUNCTION_KIND_PF:
		return config.FunctionPF
	case discoveryv1.FunctionKind_FUNCTION_KIND_VF:
		return config.FunctionVF
	case discoveryv1.FunctionKind_FUNCTION_KIND_SF:
		return config.FunctionSF
	case discoveryv1.FunctionKind_FUNCTION_KIND_VIRTUAL:
		return config.FunctionVirtual
	}
	return ""
}

// plain tells whether a name is short and holds only characters that can stand in
// a path, an environment variable's list and a message.
func plain(name string) bool {
	if name == "" || len(name) > maxNameBytes {
		return false
	}
	for i := range len(name) {
		if c := name[i]; c <= ' ' || c >= 0x7f || c == ',' || c == '/' {
			return false
		}
	}
	return true
}

// clip cuts a text of the snapshot that is too long for a message and what is no
// UTF-8 in it.
func clip(s string) string {
	const longest = 200
	if len(s) > longest {
		s = s[:longest] + "…"
	}
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "?")
	}
	return s
}
