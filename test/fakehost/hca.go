// What a fake HCA is made of, and what the zero values stand for.
//
// SPDX-License-Identifier: Apache-2.0

package fakehost

import (
	"fmt"
	"slices"
	"strconv"
)

// None is the text of an attribute that has no file or link at all.
const None = "-"

// Texts that the kernel prints (drivers/infiniband/core/sysfs.c).
const (
	InfiniBand = "InfiniBand"
	Ethernet   = "Ethernet"

	StateDown   = "1: DOWN"
	StateInit   = "2: INIT"
	StateActive = "4: ACTIVE"
)

// HCA describes one RDMA device and the function that it sits on.
//
// A string field holds the text of a sysfs file just as the kernel prints it, so
// that a test can put nonsense there too. Empty means the default named with the
// field, None means that there is no such file. Where no default is named, the
// file is written only when it is asked for or when Complete is set.
type HCA struct {
	// PCI is the function's address, 0000:3b:00.0. Not used when Virtual.
	PCI string
	// Name of the RDMA device. Empty or None: a function without RDMA device.
	Name string
	// Index numbers the character devices and ends the default GUID.
	Index int
	// Complete also writes what a real kernel shows beside the few files that a
	// scan can't do without: subsystem links, dev numbers, rates, GIDs, MTUs, …
	Complete bool

	Vendor    string // 0x15b3
	Device    string // 0x1017
	SubVendor string
	SubDevice string
	Class     string // 0x020000
	Driver    string // mlx5_core; None is a function whose driver is unbound
	NUMA      string // 0; the kernel says -1 where it does not know
	Root      string // pci0000:00
	Bridge    string // address of a bridge between the root and the function

	// PF makes the function a virtual one of the physical function with this
	// address, which has to be there and hands down its Root and Bridge.
	PF string
	// VFIndex is the N of the PF's virtfnN link.
	VFIndex int
	// TotalVFs writes sriov_totalvfs, and sriov_numvfs with what is there.
	TotalVFs int

	// Aux puts the RDMA device on this auxiliary device of the function, such as
	// mlx5_core.sf.2 for a scalable function.
	Aux string
	// Virtio puts it on this virtio device of the function, such as virtio1.
	Virtio string
	// Virtual has no parent device at all, as rxe and siw.
	Virtual bool
	// Parent is the attribute in which rxe names its network device.
	Parent string

	NodeType     string // 1: CA
	NodeGUID     string // made from Index
	SysImageGUID string
	Firmware     string

	// Ports; nil is one port with all defaults, an empty list none.
	Ports []Port
	// Nets on the function; nil is one called ens<Index> (none when Virtual), an
	// empty list none.
	Nets []Net
	// Chars; nil is uverbs<Index> and, for each port, umad and issm from Index
	// on; an empty list none.
	Chars []Char
}

// Port is one port of an HCA, numbered by its place in HCA.Ports from 1.
type Port struct {
	LinkLayer string // Ethernet
	State     string // 4: ACTIVE
	PhysState string
	Rate      string
	GIDs      []string // gids/N
	GIDNets   []string // gid_attrs/ndevs/N; None leaves a gap
	GIDTypes  []string // gid_attrs/types/N
}

// Net is a network device.
type Net struct {
	Name         string
	Type         string // 32 on a function whose first port is InfiniBand, else 1
	OperState    string // up
	Carrier      string
	IfIndex      string
	DevPort      string
	Address      string
	MTU          string
	PhysPortName string
	PhysSwitchID string
	// Master is the bond or bridge that it belongs to.
	Master string
	// Uppers are further devices stacked on it, such as VLANs.
	Uppers []string
}

// Char is one character device below /dev/infiniband.
type Char struct {
	Kind  string // uverbs, umad, issm
	Index int
	Port  int // umad and issm: 1
}

// name is the device's file name, such as uverbs0.
func (c Char) name() string { return c.Kind + strconv.Itoa(c.Index) }

// Nets names network devices that have defaults otherwise.
func Nets(names ...string) []Net {
	nets := make([]Net, 0, len(names))
	for _, name := range names {
		nets = append(nets, Net{Name: name})
	}
	return nets
}

// Chars gives one character device of each kind, all with the same index.
func Chars(index int, kinds ...string) []Char {
	chars := make([]Char, 0, len(kinds))
	for _, kind := range kinds {
		chars = append(chars, Char{Kind: kind, Index: index})
	}
	return chars
}

// withDefaults fills in what the zero values stand for. ifindex is the first
// free network interface index.
func (c HCA) withDefaults(ifindex int) HCA {
	if c.Name == None {
		c.Name = ""
	}
	or(&c.Vendor, "0x15b3")
	or(&c.Device, "0x1017")
	or(&c.Class, "0x020000")
	or(&c.Driver, "mlx5_core")
	or(&c.NUMA, "0")
	or(&c.Root, "pci0000:00")
	or(&c.NodeType, "1: CA")
	or(&c.NodeGUID, fmt.Sprintf("0c42:a103:%04x:%04x", (0xc6cf50+c.Index)>>16, (0xc6cf50+c.Index)&0xffff))
	if c.Complete {
		or(&c.SubVendor, c.Vendor)
		or(&c.SubDevice, "0x0001")
		or(&c.SysImageGUID, c.NodeGUID)
		or(&c.Firmware, "16.35.4030")
	}

	if c.Ports == nil {
		c.Ports = []Port{{}}
	}
	if c.Nets == nil && !c.Virtual {
		c.Nets = Nets("ens" + strconv.Itoa(c.Index))
	}
	if c.Chars == nil {
		c.Chars = Chars(c.Index, "uverbs")
		for i := range c.Ports {
			for _, kind := range []string{"umad", "issm"} {
				c.Chars = append(c.Chars, Char{Kind: kind, Index: c.Index + i, Port: i + 1})
			}
		}
	}
	c.Ports, c.Nets, c.Chars = slices.Clone(c.Ports), slices.Clone(c.Nets), slices.Clone(c.Chars)
	netType := "1"
	for i := range c.Ports {
		or(&c.Ports[i].LinkLayer, Ethernet)
		or(&c.Ports[i].State, StateActive)
	}
	if len(c.Ports) > 0 && c.Ports[0].LinkLayer == InfiniBand {
		netType = "32"
	}
	for i := range c.Nets {
		c.Nets[i] = c.Nets[i].withDefaults(netType, ifindex+i, c.Complete)
	}
	if c.Complete {
		for i := range c.Ports {
			c.completePort(i)
		}
	}
	for i := range c.Chars {
		if c.Chars[i].Kind != "uverbs" && c.Chars[i].Port == 0 {
			c.Chars[i].Port = 1
		}
	}
	return c
}

// completePort adds what a kernel shows of port i beside link layer and state. A
// RoCE port names its network device in its GID table; an InfiniBand port has
// none there, even with IPoIB.
func (c *HCA) completePort(i int) {
	port := &c.Ports[i]
	or(&port.PhysState, physState(port.State))
	or(&port.Rate, "100 Gb/sec (4X EDR)")
	if port.GIDs == nil {
		port.GIDs = []string{"fe80:0000:0000:0000:" + c.NodeGUID}
	}
	if port.LinkLayer != Ethernet || port.GIDNets != nil {
		return
	}
	net := c.Parent
	if i < len(c.Nets) {
		net = c.Nets[i].Name
	}
	if net != "" {
		port.GIDNets, port.GIDTypes = []string{net}, []string{"RoCE v2"}
	}
}

// physState is the physical state that goes with a port state.
func physState(state string) string {
	if state == StateDown {
		return "2: Polling"
	}
	return "5: LinkUp"
}

func (n Net) withDefaults(netType string, ifindex int, complete bool) Net {
	or(&n.Type, netType)
	or(&n.OperState, "up")
	if !complete {
		return n
	}
	or(&n.Carrier, "1")
	or(&n.IfIndex, strconv.Itoa(ifindex))
	or(&n.DevPort, "0")
	or(&n.MTU, "1500")
	or(&n.Address, fmt.Sprintf("02:00:00:00:%02x:%02x", ifindex>>8&0xff, ifindex&0xff))
	return n
}

// or sets an empty text to its default.
func or(text *string, value string) {
	if *text == "" {
		*text = value
	}
}
