// Hosts that are ready to use.
//
// SPDX-License-Identifier: Apache-2.0

package fakehost

import (
	"fmt"
	"strconv"
)

// Mini is a host with one RoCE HCA, mlx5_0 at 0000:3b:00.0 with the network
// device ens1f0np0: the smallest tree of the public reports.
func Mini(dir string, options ...Option) (*Host, error) {
	h, err := New(dir, options...)
	if err != nil {
		return nil, err
	}
	return h, h.Add(HCA{PCI: "0000:3b:00.0", Name: "mlx5_0", Nets: Nets("ens1f0np0")})
}

// GPUNode8 is a node as used for training: eight ConnectX-7 HCAs with 400 Gb/s,
// each below a PCIe root of its own, four on each of two NUMA nodes. mlx5_3 and
// mlx5_7 are RoCE (ens4np0, ens8np0), the others InfiniBand with IPoIB.
func GPUNode8(dir string, options ...Option) (*Host, error) {
	h, err := New(dir, append([]Option{KernelRelease("6.12.0")}, options...)...)
	if err != nil {
		return nil, err
	}
	buses := []int{0x18, 0x40, 0x4f, 0x5e, 0x9a, 0xc0, 0xce, 0xdc}
	for i, bus := range buses {
		root := fmt.Sprintf("%02x", bus-3)
		guid := fmt.Sprintf("a088:c203:00%02x:1000", bus)
		hca := HCA{
			PCI: fmt.Sprintf("0000:%02x:00.0", bus), Root: "pci0000:" + root, Bridge: "0000:" + root + ":01.0",
			Name: "mlx5_" + strconv.Itoa(i), Index: i, Complete: true,
			Vendor: "0x15b3", Device: "0x1021", SubVendor: "0x15b3", SubDevice: "0x0041",
			NUMA: strconv.Itoa(i / 4), NodeGUID: guid, Firmware: "28.43.2026",
			Class: "0x020700",
			Ports: []Port{{LinkLayer: InfiniBand, Rate: "400 Gb/sec (4X NDR)"}},
			Nets:  []Net{{Name: "ibp" + strconv.Itoa(bus) + "s0", MTU: "4092"}},
		}
		if i%4 == 3 {
			hca.Class = "0x020000"
			hca.Ports[0].LinkLayer = Ethernet
			hca.Nets = []Net{{Name: "ens" + strconv.Itoa(i+1) + "np0", MTU: "9000", PhysPortName: "p0"}}
		}
		if err := h.Add(hca); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// Many is a host with n RoCE functions, mlx5_0 to mlx5_<n-1>: physical functions
// with up to 127 virtual ones each.
//
// It makes some fifty files and links for each: put dir on a tmpfs.
func Many(dir string, n int, options ...Option) (*Host, error) {
	return many(dir, n, 128, options...)
}

// many gives each physical function perPF-1 virtual ones; 128 is what fits the
// addresses of one bus.
func many(dir string, n, perPF int, options ...Option) (*Host, error) {
	h, err := New(dir, options...)
	if err != nil {
		return nil, err
	}
	for i := range n {
		bus, devfn := 0x10+i/perPF, i%perPF
		hca := HCA{
			PCI:  fmt.Sprintf("0000:%02x:%02x.%d", bus, devfn>>3, devfn&7),
			Name: "mlx5_" + strconv.Itoa(i), Index: i, Complete: true,
			NUMA: strconv.Itoa(i / perPF % 2),
		}
		if devfn == 0 {
			hca.TotalVFs = perPF - 1
		} else {
			hca.Device, hca.PF, hca.VFIndex = "0x1018", fmt.Sprintf("0000:%02x:00.0", bus), devfn-1
		}
		if err := h.Add(hca); err != nil {
			return nil, err
		}
	}
	return h, nil
}
