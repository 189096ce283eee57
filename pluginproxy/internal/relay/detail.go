// The node and its devices for people: what /statusz and the page show beside the
// resources.
//
// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"strings"

	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

// NodeReport are the facts of the node that are not a device's.
type NodeReport struct {
	// Name is the one that the program was given or, without, its host's name.
	Name          string `json:"name"`
	KernelRelease string `json:"kernel_release,omitempty"`
	// Modules are the kernel modules that were asked for, and whether they answer.
	Modules []ModuleReport `json:"modules,omitempty"`
	// CDIProblem is why discoveryd's CDI specs do not say what they should.
	CDIProblem string `json:"cdi_problem,omitempty"`
}

// ModuleReport is one kernel module.
type ModuleReport struct {
	Name    string `json:"name"`
	Present bool   `json:"present"`
}

// DeviceReport is one device of the snapshot, whether a resource has it or not.
type DeviceReport struct {
	// Name is the RDMA name; empty for a function that has no RDMA device.
	Name       string `json:"name"`
	PCIAddress string `json:"pci_address,omitempty"`
	Driver     string `json:"driver,omitempty"`
	Firmware   string `json:"firmware,omitempty"`
	// Function is pf, vf, sf or virtual; NUMANode is absent when it is unknown.
	Function string       `json:"function,omitempty"`
	NUMANode *int32       `json:"numa_node,omitempty"`
	Ports    []PortReport `json:"ports,omitempty"`
	// Reasons say what limits the device or makes it unusable.
	Reasons []string `json:"reasons,omitempty"`
	// Resources are the names of those that it serves.
	Resources []string `json:"resources,omitempty"`
}

// PortReport is one port of a device.
type PortReport struct {
	Number    uint32 `json:"number"`
	LinkLayer string `json:"link_layer"`
	// State is the kernel's word, such as ACTIVE; "unknown" where there is none.
	State string `json:"state"`
	Rate  string `json:"rate,omitempty"`
	// NetDevices are its network devices. Carrier: one of them has a carrier; absent
	// when the kernel says it of none.
	NetDevices []string `json:"net_devices,omitempty"`
	Carrier    *bool    `json:"carrier,omitempty"`
}

// Detail fills in Devices, which no probe and no scrape needs.
func (rep *Report) Detail() {
	serves := map[string][]string{}
	for i := range rep.Resources {
		for _, h := range rep.Resources[i].HCAs {
			serves[h.Name] = append(serves[h.Name], rep.Resources[i].Name)
		}
	}
	list := rep.Snapshot.GetDevices()
	rep.Devices = make([]DeviceReport, 0, len(list))
	for _, d := range list {
		rep.Devices = append(rep.Devices, device(d, serves[d.GetName()]))
	}
}

func device(d *discoveryv1.Device, resources []string) DeviceReport {
	parent := d.GetParent()
	rep := DeviceReport{
		Name: d.GetName(), PCIAddress: parent.GetPciAddress(), Driver: parent.GetDriver(), Firmware: d.GetFirmwareVersion(),
		Function: functionKind(parent.GetFunction()), Resources: resources,
	}
	if parent != nil {
		rep.NUMANode = parent.NumaNode
	}
	for _, r := range d.GetReasons() {
		rep.Reasons = append(rep.Reasons, r.GetMessage())
	}
	for _, p := range d.GetPorts() {
		rep.Ports = append(rep.Ports, port(p))
	}
	return rep
}

func port(p *discoveryv1.Port) PortReport {
	rep := PortReport{Number: p.GetNumber(), LinkLayer: linkLayer(p.GetLinkLayer()), State: portState(p.GetState()), Rate: p.GetRate()}
	for _, n := range p.GetNetDevices() {
		rep.NetDevices = append(rep.NetDevices, n.GetName())
		if n != nil && n.Carrier != nil && (rep.Carrier == nil || n.GetCarrier()) {
			rep.Carrier = n.Carrier
		}
	}
	return rep
}

// node makes the report of the snapshot's node.
func node(name string, n *discoveryv1.Node) NodeReport {
	rep := NodeReport{Name: name, KernelRelease: n.GetKernelRelease(), CDIProblem: n.GetCdi().GetProblem()}
	for _, m := range n.GetModules() {
		rep.Modules = append(rep.Modules, ModuleReport{m.GetName(), m.GetPresent()})
	}
	return rep
}

func functionKind(k discoveryv1.FunctionKind) string {
	if k == discoveryv1.FunctionKind_FUNCTION_KIND_UNSPECIFIED {
		return ""
	}
	return strings.ToLower(strings.TrimPrefix(k.String(), "FUNCTION_KIND_"))
}

func linkLayer(l discoveryv1.LinkLayer) string {
	if l == discoveryv1.LinkLayer_LINK_LAYER_UNSPECIFIED {
		return "unknown"
	}
	return strings.ToLower(strings.TrimPrefix(l.String(), "LINK_LAYER_"))
}
