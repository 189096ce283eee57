// Reading again only what an event was about.
//
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/proto"

	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
	"github.com/rdma-relay/rdma-relay/test/fakehost"
)

func TestLinkLeadsToTheDevicesThatItBelongsTo(t *testing.T) {
	alone, bonded, other, bare := hca(0), hca(1), hca(2), hca(3)
	alone.Nets = fakehost.Nets("ens0")
	bonded.Nets = []fakehost.Net{{Name: "ens1", Master: "bond0"}}
	other.Nets = []fakehost.Net{{Name: "ens2", Master: "bond0"}}
	bare.Name, bare.Nets = fakehost.None, fakehost.Nets("ens3")
	host, err := fakehost.New(t.TempDir())
	must(t, err)
	must(t, host.AddNet(fakehost.Net{Name: "bond0"}))
	for _, h := range []fakehost.HCA{alone, bonded, other, bare} {
		must(t, host.Add(h))
	}
	scanner := newScanner(t, host.Root())
	expect(t, "before the first scan", scanner.Links([]string{"veth1"}).All(), true)
	scan(t, scanner)
	must(t, host.AddNet(fakehost.Net{Name: "veth1"}))
	for _, test := range []struct {
		name    string
		links   []string
		devices int
	}{
		{"nothing", nil, 0},
		{"a port's", []string{"ens0"}, 1},
		{"a bond", []string{"bond0"}, 2},
		{"a bond and its member", []string{"bond0", "ens2"}, 2},
		{"a function's without RDMA", []string{"ens3"}, 1},
		{"a pod's, which has no device", []string{"veth1"}, 0},
		{"one that has gone again", []string{"veth2"}, 0},
		{"no name at all", []string{"../../etc", ""}, 0},
	} {
		stale := scanner.Links(test.links)
		expect(t, test.name, len(stale.keys), test.devices)
		expect(t, test.name+", any", stale.Any(), test.devices > 0)
		expect(t, test.name+", all", stale.All(), false)
	}
	must(t, host.Change("mlx5_0", func(h *fakehost.HCA) { h.Nets = fakehost.Nets("ens0", "new0") }))
	stale := scanner.Links([]string{"veth1", "new0"})
	expect(t, "a new one on a function", stale.places.has("devices/pci0000:00/0000:3b:00.0"), true)
	expect(t, "places", len(stale.places), 1)
}

// equal compares snapshots of two scanners.
func equal(t *testing.T, what string, got *discoveryv1.Snapshot, host *fakehost.Host) {
	t.Helper()
	if want := scanOf(t, host); !proto.Equal(got, want) {
		t.Errorf("%s: got %v\nwant %v", what, got, want)
	}
}

func TestReadingThePartGivesWhatAScanDoes(t *testing.T) {
	first, second := hca(0), hca(1)
	first.Nets, second.Nets = []fakehost.Net{{Name: "ens0", Carrier: "1"}}, []fakehost.Net{{Name: "ens1", Carrier: "1"}}
	host := newHost(t, first, second)
	scanner := newScanner(t, host.Root())
	reread := func(links ...string) *discoveryv1.Snapshot {
		t.Helper()
		s, err := scanner.Reread(t.Context(), scanner.Links(links))
		must(t, err)
		return s
	}
	s, err := scanner.Reread(t.Context(), Stale{}) // nothing is known yet
	must(t, err)
	equal(t, "at first", s, host)
	before := proto.Clone(s)

	must(t, host.SetCarrier("ens0", false))
	must(t, host.SetPortState("mlx5_0", 1, fakehost.StateDown))
	equal(t, "carrier and state", reread("ens0"), host)
	if !proto.Equal(s, before) {
		t.Error("the snapshot before was changed")
	}
	must(t, host.SetPortState("mlx5_1", 1, fakehost.StateDown))
	expect(t, "not read", device(t, reread("ens0"), "mlx5_1").GetPorts()[0].GetState(), discoveryv1.PortState_PORT_STATE_ACTIVE)
	equal(t, "the other too", reread("ens1"), host)
	must(t, host.Change("mlx5_1", func(h *fakehost.HCA) { h.Nets[0].MTU = "9000" }))
	equal(t, "MTU", reread("ens1"), host)
	must(t, host.Remove("mlx5_1"))
	equal(t, "gone", reread("ens1"), host)
	s, err = scanner.Reread(t.Context(), Everything())
	must(t, err)
	equal(t, "all", s, host)
}

// Renamed network devices are told of by both names.
func TestReadingThePartFindsRenamedNetworkDevices(t *testing.T) {
	h := hca(0)
	h.Nets = fakehost.Nets("ens0")
	host := newHost(t, h)
	scanner := newScanner(t, host.Root())
	scan(t, scanner)
	must(t, host.Change("mlx5_0", func(h *fakehost.HCA) { h.Nets = fakehost.Nets("lan0") }))
	s, err := scanner.Reread(t.Context(), scanner.Links([]string{"lan0", "ens0"}))
	must(t, err)
	equal(t, "renamed", s, host)
}

func TestReadingThePartFailsWithTheHost(t *testing.T) {
	h := hca(0)
	h.Nets = fakehost.Nets("ens0")
	host := newHost(t, h)
	scanner := newScanner(t, host.Root())
	scan(t, scanner)
	stale := scanner.Links([]string{"ens0"})
	sys := filepath.Join(host.Root(), "sys")
	must(t, os.Rename(sys, sys+"-away"))
	if _, err := scanner.Reread(t.Context(), stale); err == nil {
		t.Error("no error")
	}
	must(t, os.Rename(sys+"-away", sys))
	s, err := scanner.Reread(t.Context(), stale)
	must(t, err)
	equal(t, "back", s, host)
}
