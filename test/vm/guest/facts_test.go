// Whether discoveryd, which reads sysfs, says what the kernel says by netlink.
//
// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

// The answers of iproute2's rdma, which asks the kernel by netlink.
type (
	rdmaDev struct {
		Ifname   string `json:"ifname"`
		NodeType string `json:"node_type"`
		NodeGUID string `json:"node_guid"`
		SysGUID  string `json:"sys_image_guid"`
	}
	rdmaLink struct {
		Ifname      string `json:"ifname"`
		Port        uint32 `json:"port"`
		State       string `json:"state"`
		Phys        string `json:"physical_state"`
		Netdev      string `json:"netdev"`
		NetdevIndex uint32 `json:"netdev_index"`
	}
)

func TestSysfsAndNetlinkAgree(t *testing.T) {
	withRDMA(t)
	rxe(t, "rxe0", "d0")
	rxe(t, "rxe1", "d1")
	carrier(t, "d1", false)
	n := startNode(t, hostNetns)
	n.listed(each, 4, 2)
	byDaemon := n.devices("rxe0", "rxe1")
	scanned := list(t, "/")

	for who, s := range map[string]*discoveryv1.Snapshot{"daemon": byDaemon, "list": scanned} {
		for _, want := range rdmaTool[[]rdmaDev](t, "dev", "show") {
			d := device(s, want.Ifname)
			got := rdmaDev{d.GetName(), strings.ToLower(strings.TrimPrefix(d.GetNodeType().String(), "NODE_TYPE_")), d.GetNodeGuid(), d.GetSysImageGuid()}
			if got != want {
				t.Errorf("%s: device %+v, netlink says %+v", who, got, want)
			}
		}
		links := rdmaTool[[]rdmaLink](t, "link", "show")
		if len(links) != 2 {
			t.Errorf("rdma link shows %v", links)
		}
		for _, want := range links {
			if got := linkOf(s, want.Ifname, want.Port); got != want {
				t.Errorf("%s: port %+v, netlink says %+v", who, got, want)
			}
		}
		mode := command(t, "/usr/bin/rdma", "system", "show")
		if got := s.GetNode().GetNetnsMode(); got != discoveryv1.NetnsMode_NETNS_MODE_SHARED || !strings.HasPrefix(mode, "netns shared") {
			t.Errorf("%s: %v, netlink says %s", who, got, mode)
		}
		checkFiles(t, who, s)
	}
	table := command(t, "/bin/discoveryd", "list", "--socket="+n.socket())
	for _, word := range []string{"rxe0", "rxe1", "d0", "d1", "ACTIVE", "DOWN"} {
		if !strings.Contains(strings.ToUpper(table), strings.ToUpper(word)) {
			t.Errorf("list does not show %s:\n%s", word, table)
		}
	}
	t.Logf("%s", table)
}

// linkOf is a port in the words of netlink.
func linkOf(s *discoveryv1.Snapshot, name string, port uint32) rdmaLink {
	for _, p := range device(s, name).GetPorts() {
		if p.GetNumber() != port || len(p.GetNetDevices()) != 1 {
			continue
		}
		net := p.GetNetDevices()[0]
		return rdmaLink{
			name, port, strings.TrimPrefix(p.GetState().String(), "PORT_STATE_"),
			strings.TrimPrefix(p.GetPhysState().String(), "PHYS_STATE_"), net.GetName(), net.GetIfindex(),
		}
	}
	return rdmaLink{Ifname: fmt.Sprintf("no port %d with one network device on %s", port, name)}
}

// checkFiles compares the numbers of the device files with those of the real ones.
func checkFiles(t *testing.T, who string, s *discoveryv1.Snapshot) {
	t.Helper()
	for _, d := range s.GetDevices() {
		var kinds []string
		for _, c := range d.GetCharDevices() {
			kinds = append(kinds, strings.TrimPrefix(c.GetKind().String(), "CHAR_DEVICE_KIND_"))
			if r := rdev(t, c.GetPath()); unix.Major(r) != c.GetMajor() || unix.Minor(r) != c.GetMinor() {
				t.Errorf("%s: %v is really %d:%d", who, c, unix.Major(r), unix.Minor(r))
			}
		}
		if d.GetName() != "" && !slices.Equal(kinds, []string{"UVERBS", "UMAD", "RDMA_CM"}) {
			t.Errorf("%s: %s has files %v", who, d.GetName(), kinds)
		}
	}
}
