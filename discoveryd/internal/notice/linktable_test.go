// What of a network device's messages is news, with messages of the tests' own.
//
// SPDX-License-Identifier: Apache-2.0

package notice

import (
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// linkMessage makes the body of an RTM_NEWLINK or RTM_DELLINK.
func linkMessage(family uint8, index int32, attributes ...[]byte) []byte {
	info := nl.NewIfInfomsg(unix.AF_UNSPEC)
	info.Family, info.Index, info.Flags = family, index, unix.IFF_UP
	return slices.Concat(append([][]byte{info.Serialize()}, attributes...)...)
}

func ifname(name string) []byte { return attribute(unix.IFLA_IFNAME, append([]byte(name), 0)...) }

func TestWhatOfALinkMessageIsNews(t *testing.T) {
	oper := attribute(unix.IFLA_OPERSTATE, 6)
	down, lower := attribute(unix.IFLA_OPERSTATE, 2), attribute(unix.IFLA_LINK, nl.Uint32Attr(7)...)
	for _, test := range []struct {
		name    string
		gone    bool
		message []byte
		want    string
	}{
		{"the same again", false, linkMessage(unix.AF_UNSPEC, 7, ifname("ens0"), oper), ""},
		{"operational state", false, linkMessage(unix.AF_UNSPEC, 7, ifname("ens0"), down), "ens0"},
		{"name", false, linkMessage(unix.AF_UNSPEC, 7, ifname("lan0"), oper), "lan0 ens0"},
		{"a new one", false, linkMessage(unix.AF_UNSPEC, 8, ifname("ens1"), oper), "ens1"},
		{"a new one above", false, linkMessage(unix.AF_UNSPEC, 8, ifname("vlan"), oper, lower), "vlan ens0"},
		{"above one elsewhere", false, linkMessage(unix.AF_UNSPEC, 8, ifname("veth"), oper, lower, attribute(unix.IFLA_LINK_NETNSID, 0, 0, 0, 0)), "veth"},
		{"gone", true, linkMessage(unix.AF_UNSPEC, 7, ifname("ens0")), "ens0"},
		{"gone, nameless", true, linkMessage(unix.AF_UNSPEC, 7), "ens0"},
		{"left its bridge", true, linkMessage(unix.AF_BRIDGE, 7, ifname("ens0"), oper), ""},
		{"a wireless event", false, linkMessage(unix.AF_UNSPEC, 7, ifname("ens0"), attribute(unix.IFLA_WIRELESS, 1)), ""},
		{"half an attribute", false, linkMessage(unix.AF_UNSPEC, 7, ifname("ens9"), []byte{9, 0, 1}), ""},
		{"no device", false, linkMessage(unix.AF_UNSPEC, 0, ifname("ens9"), oper), ""},
		{"cut short", false, linkMessage(unix.AF_UNSPEC, 7)[:12], ""},
		{"nothing", false, nil, ""},
	} {
		known := table{}
		known.take(false, linkMessage(unix.AF_UNSPEC, 7, ifname("ens0"), oper))
		if got := strings.Join(known.take(test.gone, test.message), " "); got != test.want {
			t.Errorf("%s: %q", test.name, got)
		}
	}
}

func TestAfterLostMessagesEachIsNewsOnce(t *testing.T) {
	message := linkMessage(unix.AF_UNSPEC, 7, ifname("ens0"), attribute(unix.IFLA_OPERSTATE, 6))
	known := table{}
	for i, want := range []int{1, 0, 1, 0} {
		if i == 2 {
			known.doubt() // down and up again, unheard
		}
		if got := known.take(false, message); len(got) != want {
			t.Errorf("message %d: %v", i, got)
		}
	}
}

func TestDevicesThatMayBeTheSameInTwoNameSpacesProveNothing(t *testing.T) {
	const address = "02:fc:00:00:00:01"
	for _, test := range []struct {
		name string
		link link
		want bool
	}{
		{"hardware", link{address: address}, true},
		{"a container's veth", link{address: address, lower: 9, foreign: true}, true},
		{"VLAN", link{address: address, lower: 3}, true},
		{"ipvlan on one of the same number", link{address: address, lower: 2, foreign: true}, false},
		{"gretap0", link{address: "00:00:00:00:00:00"}, false},
		{"tunl0", link{address: "00:00:00:00"}, false},
		{"tun", link{}, false},
	} {
		if got := test.link.unique(2); got != test.want {
			t.Errorf("%s: %v", test.name, got)
		}
	}
}

func FuzzLinkMessage(f *testing.F) {
	f.Add(false, linkMessage(unix.AF_UNSPEC, 7, ifname("ens0"), attribute(unix.IFLA_OPERSTATE, 6)))
	f.Add(true, linkMessage(unix.AF_UNSPEC, 7, ifname("ens0")))
	f.Add(false, []byte{0})
	f.Fuzz(func(t *testing.T, gone bool, message []byte) {
		known := table{}
		known.take(gone, message)
		if again := known.take(false, message); !gone && len(again) > 0 {
			t.Errorf("the same message is news twice: %v", again)
		}
	})
}
