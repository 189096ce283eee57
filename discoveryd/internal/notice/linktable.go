// What is known of each network device of a name space, so that a message that says
// nothing new is no event: those of pods come and go all day.
//
// SPDX-License-Identifier: Apache-2.0

package notice

import (
	"net"
	"strings"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// table has the devices by ifindex.
type table map[uint32]link

// link are those facts of a network device that a snapshot depends on.
type link struct {
	name    string
	address string // as sysfs prints it
	up      bool
	oper    uint8
	carrier uint8
	mtu     uint32
	master  uint32 // ifindex of the bond or bridge; 0 for none
	lower   uint32 // ifindex of the device it is stacked on; 0 for none
	foreign bool   // lower is in another name space
	doubted bool   // it may have changed unheard
}

// take takes an RTM_NEWLINK, or an RTM_DELLINK if gone, and returns the names of the
// devices that it tells something new about, the one below among them: it shows what
// is stacked on it.
func (t table) take(gone bool, message []byte) []string {
	if len(message) < unix.SizeofIfInfomsg {
		return nil
	}
	info := nl.DeserializeIfInfomsg(message)
	// Bridges tell of their ports under another family, with an RTM_DELLINK for one
	// that has only left.
	if info.Family != unix.AF_UNSPEC || info.Index <= 0 {
		return nil
	}
	index := uint32(info.Index)
	is, whole := parseLink(info.Flags, message[unix.SizeofIfInfomsg:])
	was, known := t[index]
	switch {
	case gone:
		delete(t, index)
		if is.name == "" {
			is.name = was.name
		}
	case !whole || known && was == is:
		return nil
	default:
		t[index] = is
	}
	names := []string{is.name}
	if known && was.name != is.name {
		names = append(names, was.name)
	}
	if below, ok := t[is.lower]; ok && !is.foreign && is.lower != index {
		names = append(names, below.name)
	}
	return names
}

// doubt makes the next message of each device tell something new.
func (t table) doubt() {
	for index, l := range t {
		l.doubted = true
		t[index] = l
	}
}

// parseLink reads the attributes (include/uapi/linux/if_link.h). whole is false for
// the messages that have but a few of them, as those of wireless events.
func parseLink(flags uint32, attributes []byte) (l link, whole bool) {
	l.up = flags&unix.IFF_UP != 0
	attrs, err := nl.ParseRouteAttr(attributes)
	if err != nil {
		return l, false
	}
	for _, a := range attrs {
		switch a.Attr.Type &^ (unix.NLA_F_NESTED | unix.NLA_F_NET_BYTEORDER) {
		case unix.IFLA_IFNAME:
			l.name = strings.TrimRight(string(a.Value), "\x00")
		case unix.IFLA_ADDRESS:
			l.address = net.HardwareAddr(a.Value).String()
		case unix.IFLA_OPERSTATE:
			l.oper, whole = uint8(number(a.Value)), true
		case unix.IFLA_CARRIER:
			l.carrier = uint8(number(a.Value))
		case unix.IFLA_MTU:
			l.mtu = number(a.Value)
		case unix.IFLA_MASTER:
			l.master = number(a.Value)
		case unix.IFLA_LINK:
			l.lower = number(a.Value)
		case unix.IFLA_LINK_NETNSID:
			l.foreign = true
		}
	}
	return l, whole && l.name != ""
}

// number is an attribute's value of one or four bytes.
func number(value []byte) uint32 {
	switch len(value) {
	case 1:
		return uint32(value[0])
	case 4:
		return nl.NativeEndian().Uint32(value)
	}
	return 0
}

// lowerOr is what sysfs has as iflink.
func (l link) lowerOr(index uint32) uint32 {
	if l.lower == 0 {
		return index
	}
	return l.lower
}

// unique tells whether no other name space can have a device with all the same
// facts. Those without address come by themselves in each, under the same names. An
// ipvlan device has the address of the one that it is stacked on, which, in another
// name space, may have the same name and number too.
func (l link) unique(index uint32) bool {
	return strings.Trim(l.address, "0:") != "" && (!l.foreign || l.lowerOr(index) != index)
}
