// A snapshot in lines that people can review. It is not what 'discoveryd list' prints:
// that may change its looks without any host having changed.
//
// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"fmt"
	"path"
	"strings"

	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

// tell writes all facts of a snapshot.
func tell(s *discoveryv1.Snapshot) string {
	var b strings.Builder
	line := func(indent string, words ...string) {
		b.WriteString(indent + strings.Join(strings.Fields(strings.Join(words, " ")), " ") + "\n")
	}
	node := s.GetNode()
	var modules []string
	for _, m := range node.GetModules() {
		if m.GetPresent() {
			modules = append(modules, m.GetName())
		}
	}
	line("", "kernel", node.GetKernelRelease(), "with", strings.Join(modules, " "), reasons(node.GetReasons()))
	for _, d := range s.GetDevices() {
		p := d.GetParent()
		name := d.GetName()
		if name == "" {
			name = "(no RDMA device)"
		}
		b.WriteString("\n")
		line("", name, word(p.GetFunction()), p.GetPciAddress(), p.GetAuxiliaryName(), reasons(d.GetReasons()))
		if p.GetPciAddress() != "" {
			numa := "unknown"
			if p.NumaNode != nil {
				numa = fmt.Sprint(p.GetNumaNode())
			}
			line("  ", "pci", p.GetVendorId()+":"+p.GetDeviceId(), "subsystem", p.GetSubsystemVendorId()+":"+p.GetSubsystemDeviceId(),
				"class", p.GetClass(), "driver", p.GetDriver(), "numa", numa, "root", p.GetPcieRoot(), "bus", word(p.GetBus()))
		}
		if p.GetPfAddress() != "" {
			index := ""
			if p.VfIndex != nil {
				index = fmt.Sprint("index ", p.GetVfIndex())
			}
			line("  ", "of", p.GetPfAddress(), index, "with", strings.Join(p.GetPfNetDevices(), " "))
		}
		if d.GetName() != "" {
			line("  ", "type", word(d.GetNodeType()), "guid", d.GetNodeGuid(), "system", d.GetSysImageGuid(), "firmware", d.GetFirmwareVersion())
		}
		for _, port := range d.GetPorts() {
			line("  ", fmt.Sprint("port ", port.GetNumber()), word(port.GetLinkLayer()), word(port.GetState()), word(port.GetPhysState()), port.GetRate())
			for _, n := range port.GetNetDevices() {
				line("    ", net(n)...)
			}
		}
		for _, n := range d.GetOtherNetDevices() {
			line("  ", append([]string{"other"}, net(n)...)...)
		}
		if files := files(d); len(files) > 0 {
			line("  ", append([]string{"files"}, files...)...)
		}
	}
	return b.String()
}

func net(n *discoveryv1.NetDevice) []string {
	words := []string{n.GetName(), word(n.GetRole()), n.GetLinkType(), n.GetOperState(), "mtu", fmt.Sprint(n.GetMtu())}
	if n.Carrier != nil {
		words = append(words, map[bool]string{true: "carrier", false: "no carrier"}[n.GetCarrier()])
	}
	if n.GetMaster() != "" {
		words = append(words, "in", n.GetMaster())
	}
	if len(n.GetUppers()) > 0 {
		words = append(words, "below", strings.Join(n.GetUppers(), " "))
	}
	return words
}

func files(d *discoveryv1.Device) (files []string) {
	for _, c := range d.GetCharDevices() {
		text := path.Base(c.GetPath())
		if c.GetMajor() != 0 {
			text += fmt.Sprintf("(%d:%d)", c.GetMajor(), c.GetMinor())
		}
		if c.Port != nil {
			text += fmt.Sprintf("/%d", c.GetPort())
		}
		files = append(files, text)
	}
	return files
}

func reasons(list []*discoveryv1.Reason) string {
	var codes []string
	for _, r := range list {
		codes = append(codes, strings.TrimPrefix(r.GetCode().String(), "REASON_CODE_"))
	}
	return strings.Join(codes, " ")
}

// word is an enum's value without what its names begin with.
func word(value fmt.Stringer) string {
	name := value.String()
	for _, prefix := range []string{"FUNCTION_KIND_", "NODE_TYPE_", "LINK_LAYER_", "PORT_STATE_", "PHYS_STATE_", "NET_DEVICE_ROLE_", "BUS_"} {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			return strings.ToLower(rest)
		}
	}
	return name
}
