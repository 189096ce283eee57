// A daemon on a host that it takes for a live one, with events that the tests make.
//
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rdma-relay/rdma-relay/discoveryd/internal/notice"
	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
	"github.com/rdma-relay/rdma-relay/test/fakehost"
)

// manual is a source of events that the tests make. It has nothing to say when it
// begins.
type manual struct{}

func (manual) Name() string { return "manual" }

func (manual) Run(ctx context.Context, _ *notice.Notice, _ func()) error {
	<-ctx.Done()
	return nil
}

// live makes the daemon take the host for a live one. heard tells whether changes of
// network devices are told of.
func live(heard bool) func(*Daemon) {
	return func(d *Daemon) {
		d.live = true
		d.sources = []notice.Source{manual{}}
		d.heard, d.present = func() bool { return heard }, func(bool) {}
	}
}

// portIs waits for a state of the port 1.
func portIs(name string, state discoveryv1.PortState) func(*discoveryv1.Snapshot) bool {
	return func(s *discoveryv1.Snapshot) bool {
		for _, d := range s.GetDevices() {
			if d.GetName() == name {
				return d.GetPorts()[0].GetState() == state
			}
		}
		return false
	}
}

func hasDevices(n int) func(*discoveryv1.Snapshot) bool {
	return func(s *discoveryv1.Snapshot) bool { return len(s.GetDevices()) == n }
}

// busy is what a machine that has other things to do may add to what the benchmarks
// measure. It is far less than the resync interval of these tests.
const busy = 5 * time.Second

const (
	active = discoveryv1.PortState_PORT_STATE_ACTIVE
	down   = discoveryv1.PortState_PORT_STATE_DOWN
)

func scans(t *testing.T, socket string) uint64 {
	t.Helper()
	message, err := watch(t, socket).Recv()
	must(t, err)
	return message.GetStatus().GetCounters().GetScans()
}

func TestEventOfALinkIsPublishedWithoutAScanOfTheHost(t *testing.T) {
	host, socket := newHost(t)
	must(t, host.Change("mlx5_0", func(h *fakehost.HCA) { h.Nets = []fakehost.Net{{Name: "ens0", Carrier: "1"}} }))
	must(t, host.Add(fakehost.HCA{PCI: "0000:5e:00.0", Name: "mlx5_1", Index: 1, Nets: fakehost.Nets("ens1")}))
	d := startWith(t, options(host, socket), live(true))
	s := watch(t, socket)
	until(t, s, portIs("mlx5_0", active))
	must(t, host.SetPortState("mlx5_1", 1, fakehost.StateDown)) // which nobody tells of
	must(t, host.SetPortState("mlx5_0", 1, fakehost.StateDown))
	d.notice.Links("veth0", "ens0")
	after := until(t, s, portIs("mlx5_0", down))
	if !portIs("mlx5_1", active)(after) {
		t.Error("everything was read")
	}
	d.notice.Links("ens1")
	until(t, s, portIs("mlx5_1", down))
}

// What comes late is found by the reads that follow an event.
func TestEventThatComesBeforeWhatItTellsOf(t *testing.T) {
	host, socket := newHost(t)
	must(t, host.Change("mlx5_0", func(h *fakehost.HCA) { h.Nets = []fakehost.Net{{Name: "ens0", Carrier: "1"}} }))
	d := startWith(t, options(host, socket), live(true))
	s := watch(t, socket)
	until(t, s, has("mlx5_0"))
	for _, event := range []func(){d.notice.Event, func() { d.notice.Links("ens0") }} {
		before := scans(t, socket)
		event()
		for done := false; !done; {
			done = scans(t, socket) > before
		}
		state, want := fakehost.StateDown, down
		if portIs("mlx5_0", down)(d.newest(t)) {
			state, want = fakehost.StateActive, active
		}
		must(t, host.SetPortState("mlx5_0", 1, state))
		until(t, s, portIs("mlx5_0", want))
	}
}

func (d *daemon) newest(t *testing.T) *discoveryv1.Snapshot {
	t.Helper()
	message, err := watch(t, d.opts.Socket).Recv()
	must(t, err)
	return message.GetSnapshot()
}

// R27 and R32: virtual functions that come in a storm, a link that flaps.
func TestR27_StormOfEventsEndsInOneSettledSnapshot(t *testing.T) {
	host, socket := newHost(t)
	must(t, host.Change("mlx5_0", func(h *fakehost.HCA) { h.TotalVFs = 128 }))
	d := startWith(t, options(host, socket), live(true))
	s := watch(t, socket)
	first := until(t, s, has("mlx5_0"))
	var last atomic.Pointer[time.Time]
	made := make(chan error, 1)
	go func() {
		var err error
		for range 128 {
			if _, err = host.AddVFs("mlx5_0", 1); err != nil {
				break
			}
			now := time.Now()
			last.Store(&now)
			for range 4 { // infiniband, uverbs, umad, pci
				d.notice.Event()
			}
		}
		made <- err
	}()
	settled := until(t, s, hasDevices(129))
	took := time.Since(*last.Load())
	must(t, <-made)
	if took > busy {
		t.Errorf("settled after %v", took)
	}
	if n := settled.GetGeneration() - first.GetGeneration(); n > 32 {
		t.Errorf("%d snapshots", n)
	}
}

func TestLinkThatFlapsMakesNoStormOfMessages(t *testing.T) {
	host, socket := newHost(t)
	must(t, host.Change("mlx5_0", func(h *fakehost.HCA) { h.Nets = []fakehost.Net{{Name: "ens0", Carrier: "1"}} }))
	d := startWith(t, options(host, socket), live(true))
	s := watch(t, socket)
	first := until(t, s, has("mlx5_0"))
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for i := range 100 {
		<-tick.C
		must(t, host.SetPortState("mlx5_0", 1, []string{fakehost.StateDown, fakehost.StateActive}[i%2]))
		d.notice.Links("ens0")
	}
	ended := time.Now()
	must(t, host.SetCarrier("ens0", false))
	must(t, host.SetPortState("mlx5_0", 1, fakehost.StateDown))
	d.notice.Links("ens0")
	settled := until(t, s, func(s *discoveryv1.Snapshot) bool {
		return portIs("mlx5_0", down)(s) && !s.GetDevices()[0].GetPorts()[0].GetNetDevices()[0].GetCarrier()
	})
	if took := time.Since(ended); took > busy {
		t.Errorf("settled after %v", took)
	}
	if n := settled.GetGeneration() - first.GetGeneration(); n > 15 {
		t.Errorf("%d snapshots of %d changes", n, 101)
	}
}

func TestPortsThatNobodyTellsOfAreLookedAt(t *testing.T) {
	host, socket := newHost(t)
	must(t, host.Change("mlx5_0", func(h *fakehost.HCA) { h.Nets = []fakehost.Net{{Name: "ens0", Carrier: "1"}} }))
	must(t, host.Add(fakehost.HCA{
		PCI: "0000:5e:00.0", Name: "mlx5_1", Index: 1, Nets: []fakehost.Net{},
		Ports: []fakehost.Port{{LinkLayer: fakehost.InfiniBand}},
	}))
	startWith(t, options(host, socket), live(false))
	s := watch(t, socket)
	until(t, s, portIs("mlx5_0", active))
	changed := time.Now()
	must(t, host.SetPortState("mlx5_0", 1, fakehost.StateDown))
	must(t, host.SetCarrier("ens0", false))
	until(t, s, portIs("mlx5_0", down))
	if took := time.Since(changed); took > busy {
		t.Errorf("carrier: %v", took)
	}
	changed = time.Now()
	must(t, host.SetPortState("mlx5_1", 1, fakehost.StateDown))
	until(t, s, portIs("mlx5_1", down))
	if took := time.Since(changed); took > busy {
		t.Errorf("state: %v", took)
	}
}

func TestSourcesOfALiveHost(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "d.sock")
	d := start(t, Options{Socket: socket, HostRoot: "/", ResyncInterval: time.Hour})
	if !d.live {
		t.Skip("no sysfs here")
	}
	var names []string
	for _, source := range d.sources {
		names = append(names, source.Name())
	}
	if len(names) != 3 || d.log.count("event source failed") > 0 {
		t.Errorf("sources %v", names)
	}
}

// Drivers learn of a carrier up to a second after sysfs shows it.
func TestStateThatFollowsItsCarrierLaterIsSeen(t *testing.T) {
	host, socket := newHost(t)
	must(t, host.Change("mlx5_0", func(h *fakehost.HCA) { h.Nets = []fakehost.Net{{Name: "ens0", Carrier: "1"}} }))
	startWith(t, options(host, socket), live(false))
	s := watch(t, socket)
	until(t, s, portIs("mlx5_0", active))
	must(t, host.SetCarrier("ens0", false))
	until(t, s, func(s *discoveryv1.Snapshot) bool {
		return !s.GetDevices()[0].GetPorts()[0].GetNetDevices()[0].GetCarrier()
	})
	must(t, host.SetPortState("mlx5_0", 1, fakehost.StateDown))
	until(t, s, portIs("mlx5_0", down))
}

func TestRDMANotificationsAreHeardOnlyWhereThereAreAny(t *testing.T) {
	for _, heard := range []bool{true, false} {
		host, socket := newHost(t)
		var present atomic.Value
		d := startWith(t, options(host, socket), func(d *Daemon) {
			live(heard)(d)
			d.present = func(is bool) { present.Store(is) }
		})
		s := watch(t, socket)
		until(t, s, has("mlx5_0"))
		expect := func(what string, want bool) {
			t.Helper()
			for end := time.Now().Add(patience); present.Load() != want; {
				if time.Now().After(end) {
					t.Fatalf("heard %v, %s: never %v", heard, what, want)
				}
				runtime.Gosched()
			}
		}
		expect("with a device", heard)
		must(t, host.Remove("mlx5_0"))
		d.notice.Event()
		until(t, s, has())
		expect("without", false)
	}
}
