// Looks at parts of the host: ports by polling, network devices by name.
//
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"testing"
	"time"

	"github.com/rdma-relay/rdma-relay/test/fakehost"
)

func TestPollSeesPortsAndNothingElse(t *testing.T) {
	ether, ib, bare := hca(0), hca(1), hca(2)
	ether.Nets = []fakehost.Net{{Name: "ens0", Carrier: "1"}}
	ib.Ports = []fakehost.Port{{LinkLayer: fakehost.InfiniBand}}
	ib.Nets = []fakehost.Net{{Name: "ib0", Carrier: "1"}} // has no say
	bare.Nets = []fakehost.Net{}
	host := newHost(t, ether, ib, bare)
	scanner := newScanner(t, host.Root())
	twice := func() [2]bool {
		return [2]bool{scanner.Poll(t.Context(), false).Any(), scanner.Poll(t.Context(), false).Any()}
	}
	expect(t, "before the first scan", twice(), [2]bool{})
	for _, step := range []struct {
		what   string
		change func() error
		want   [2]bool
	}{
		{"nothing", func() error { return nil }, [2]bool{false, false}},
		{"carrier lost", func() error { return host.SetCarrier("ens0", false) }, [2]bool{true, true}},
		{"InfiniBand port down", func() error { return host.SetPortState("mlx5_1", 1, fakehost.StateDown) }, [2]bool{false, true}},
		{"Ethernet port without net down", func() error { return host.SetPortState("mlx5_2", 1, fakehost.StateDown) }, [2]bool{false, true}},
		{"network device set down", func() error {
			return host.Change("mlx5_0", func(h *fakehost.HCA) { h.Nets[0].Carrier = "" })
		}, [2]bool{true, true}},
		{"it is renamed while it is down", func() error {
			return host.Change("mlx5_0", func(h *fakehost.HCA) { h.Nets[0].Name = "lan0" })
		}, [2]bool{true, true}},
		{"it is set up again", func() error { return host.SetCarrier("lan0", true) }, [2]bool{true, true}},
		{"InfiniBand device gone", func() error { return host.Remove("mlx5_1") }, [2]bool{true, true}},
		{"Ethernet device gone", func() error { return host.Remove("mlx5_0") }, [2]bool{true, true}},
	} {
		scan(t, scanner)
		must(t, step.change())
		expect(t, step.what, twice(), step.want)
		scan(t, scanner)
		expect(t, step.what+", scanned", twice(), [2]bool{})
	}
}

func TestWhatSomebodyTellsOfIsNotPolled(t *testing.T) {
	ether, ib, down, unset := hca(0), hca(1), hca(2), hca(3)
	unset.Nets = fakehost.Nets("ens3")
	ether.Nets = []fakehost.Net{{Name: "ens0", Carrier: "1"}}
	ib.Ports = []fakehost.Port{{LinkLayer: fakehost.InfiniBand}}
	ib.Nets = []fakehost.Net{}
	down.Nets = []fakehost.Net{} // no carrier to look at
	for _, test := range []struct {
		name          string
		hcas          []fakehost.HCA
		alone, helped time.Duration
	}{
		{"no devices", nil, 0, 0},
		{"network devices only", []fakehost.HCA{ether}, time.Second, 0},
		{"network device that is set down", []fakehost.HCA{unset}, time.Second, 0},
		{"InfiniBand only", []fakehost.HCA{ib}, 2 * time.Second, 2 * time.Second},
		{"all kinds", []fakehost.HCA{ether, ib, down}, time.Second, 2 * time.Second},
	} {
		scanner := newScanner(t, newHost(t, test.hcas...).Root())
		expect(t, test.name+", before the first scan", scanner.PollInterval(false), time.Duration(0))
		scan(t, scanner)
		expect(t, test.name, scanner.PollInterval(false), test.alone)
		expect(t, test.name+", heard", scanner.PollInterval(true), test.helped)
	}
	host := newHost(t, ether, ib)
	scanner := newScanner(t, host.Root())
	scan(t, scanner)
	must(t, host.SetCarrier("ens0", false))
	expect(t, "carrier that is heard of", scanner.Poll(t.Context(), true).Any(), false)
	must(t, host.SetPortState("mlx5_1", 1, fakehost.StateDown))
	expect(t, "state, at once since there is nothing else", scanner.Poll(t.Context(), true).Any(), true)
}

// Seen on Linux 6.12: the carrier is back, the port is not yet, and nothing is told of
// the port when it is.
func TestPortThatIsBehindItsCarrierIsPolled(t *testing.T) {
	h := hca(0)
	h.Nets = []fakehost.Net{{Name: "ens0", Carrier: "0"}}
	h.Ports = []fakehost.Port{{State: fakehost.StateDown}}
	host := newHost(t, h)
	for _, heard := range []bool{false, true} {
		scanner := newScanner(t, host.Root())
		must(t, host.SetCarrier("ens0", false))
		must(t, host.SetPortState("mlx5_0", 1, fakehost.StateDown))
		scan(t, scanner)
		expect(t, "state to look at while both are down", len(scanner.polled[0].unheard(heard)), 0)
		must(t, host.SetCarrier("ens0", true))
		scan(t, scanner)
		must(t, host.SetPortState("mlx5_0", 1, fakehost.StateActive))
		found := scanner.Poll(t.Context(), heard).Any()
		expect(t, "found within two polls", scanner.Poll(t.Context(), heard).Any() || found, true)
		scan(t, scanner)
		expect(t, "state to look at when both are up", len(scanner.polled[0].unheard(heard)), 0)
	}
}

// A network device in another name space is known by its name only, and not missed
// again and again.
func TestNetworkDeviceThatCanNotBeReadIsNotPolled(t *testing.T) {
	h := hca(0)
	h.Nets, h.Ports = []fakehost.Net{}, []fakehost.Port{{GIDNets: []string{"elsewhere0"}, GIDs: []string{"fe80::1"}}}
	scanner := newScanner(t, newHost(t, h).Root())
	s := scan(t, scanner)
	expect(t, "network device", nets(device(t, s, "mlx5_0").GetPorts()[0].GetNetDevices()), "elsewhere0")
	expect(t, "interval", scanner.PollInterval(false), 2*time.Second)
	expect(t, "found", scanner.Poll(t.Context(), false).Any(), false)
}
