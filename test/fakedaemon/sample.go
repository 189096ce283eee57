// SPDX-License-Identifier: Apache-2.0

package fakedaemon

import (
	"fmt"

	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

// Snapshot is a node with these devices, in a shared name space.
func Snapshot(instance string, generation uint64, devices ...*discoveryv1.Device) *discoveryv1.Snapshot {
	return &discoveryv1.Snapshot{
		InstanceId: instance,
		Generation: generation,
		Node: &discoveryv1.Node{
			NetnsMode:     discoveryv1.NetnsMode_NETNS_MODE_SHARED,
			KernelRelease: "6.12.0",
			Modules:       []*discoveryv1.Module{{Name: "ib_umad", Present: true}, {Name: "ib_uverbs", Present: true}, {Name: "rdma_ucm", Present: true}},
		},
		Devices: devices,
	}
}

// HCA is the RoCE device mlx5_N at a PCI address of its own, with one ACTIVE
// port, the network device ensNnp0 and all of its files.
func HCA(n int) *discoveryv1.Device {
	carrier, numa, port := true, int32(n%2), uint32(1)
	file := func(kind discoveryv1.CharDeviceKind, name string, port *uint32) *discoveryv1.CharDevice {
		return &discoveryv1.CharDevice{Kind: kind, Path: "/dev/infiniband/" + name, Major: 231, Minor: uint32(n), Port: port}
	}
	return &discoveryv1.Device{
		Name:     fmt.Sprintf("mlx5_%d", n),
		NodeGuid: fmt.Sprintf("0c42:a103:00c6:%04x", n+1),
		NodeType: discoveryv1.NodeType_NODE_TYPE_CA,
		Parent: &discoveryv1.Parent{
			Bus: discoveryv1.Bus_BUS_PCI, PciAddress: fmt.Sprintf("0000:%02x:%02x.0", 0x3b+n/32, n%32),
			VendorId: "15b3", DeviceId: "1017", Class: "020000", Driver: "mlx5_core",
			NumaNode: &numa, PcieRoot: "pci0000:3a", Function: discoveryv1.FunctionKind_FUNCTION_KIND_PF,
		},
		Ports: []*discoveryv1.Port{{
			Number: 1, LinkLayer: discoveryv1.LinkLayer_LINK_LAYER_ETHERNET, State: discoveryv1.PortState_PORT_STATE_ACTIVE,
			PhysState: discoveryv1.PhysState_PHYS_STATE_LINK_UP, Rate: "100 Gb/sec (4X EDR)",
			NetDevices: []*discoveryv1.NetDevice{{
				Name: fmt.Sprintf("ens%dnp0", n), Ifindex: uint32(n + 2), LinkType: "ether", OperState: "up", Carrier: &carrier, Mtu: 1500,
				Role: discoveryv1.NetDeviceRole_NET_DEVICE_ROLE_UPLINK,
			}},
		}},
		CharDevices: []*discoveryv1.CharDevice{
			file(discoveryv1.CharDeviceKind_CHAR_DEVICE_KIND_UVERBS, fmt.Sprintf("uverbs%d", n), nil),
			file(discoveryv1.CharDeviceKind_CHAR_DEVICE_KIND_UMAD, fmt.Sprintf("umad%d", n), &port),
			file(discoveryv1.CharDeviceKind_CHAR_DEVICE_KIND_ISSM, fmt.Sprintf("issm%d", n), &port),
			file(discoveryv1.CharDeviceKind_CHAR_DEVICE_KIND_RDMA_CM, "rdma_cm", nil),
		},
	}
}

// HCAs are the devices 0 to n-1.
func HCAs(n int) []*discoveryv1.Device {
	all := make([]*discoveryv1.Device, n)
	for i := range all {
		all[i] = HCA(i)
	}
	return all
}

// Down sets all ports of the device down, as without a cable, and returns it.
func Down(d *discoveryv1.Device) *discoveryv1.Device {
	for _, p := range d.GetPorts() {
		p.State, p.PhysState = discoveryv1.PortState_PORT_STATE_DOWN, discoveryv1.PhysState_PHYS_STATE_DISABLED
		for _, n := range p.GetNetDevices() {
			carrier := false
			n.Carrier, n.OperState = &carrier, "down"
		}
	}
	return d
}

// WithoutCM takes rdma_cm from the device, as when the module rdma_ucm is not
// loaded, and returns it.
func WithoutCM(d *discoveryv1.Device) *discoveryv1.Device {
	kept := d.GetCharDevices()[:0]
	for _, c := range d.GetCharDevices() {
		if c.GetKind() != discoveryv1.CharDeviceKind_CHAR_DEVICE_KIND_RDMA_CM {
			kept = append(kept, c)
		}
	}
	d.CharDevices = kept
	d.Reasons = append(d.Reasons, &discoveryv1.Reason{
		Code:    discoveryv1.ReasonCode_REASON_CODE_NO_RDMA_CM,
		Message: "/dev/infiniband/rdma_cm is missing; load the kernel module rdma_ucm",
	})
	return d
}
