// How long it takes from an event of the host to the snapshot at a reader, and what
// a daemon costs to which nothing happens. The events are the benchmarks' own, the
// tree is in memory.
//
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdma-relay/rdma-relay/test/fakehost"
)

// benchHost is a fake host in memory with that many functions.
func benchHost(b *testing.B, functions int) (host *fakehost.Host, socket string) {
	b.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "bench")
	if err != nil {
		dir = b.TempDir()
	}
	b.Cleanup(func() { _ = os.RemoveAll(dir) })
	if host, err = fakehost.Many(filepath.Join(dir, "host"), functions); err != nil {
		b.Fatal(err)
	}
	return host, filepath.Join(dir, "d.sock")
}

// unlimited lifts the limit on events, which a benchmark makes faster than a host.
func unlimited(d *Daemon) { d.agenda.burst = 1 << 20 }

// report leaves out the first round, in which the daemon may still rest from its first
// scan, and reports the median and the 99th percentile.
func report(b *testing.B, took []time.Duration) {
	if len(took) > 1 {
		took = took[1:]
	}
	slices.Sort(took)
	at := func(share float64) float64 {
		return float64(took[int(share*float64(len(took)-1))].Microseconds()) / 1000
	}
	b.ReportMetric(at(0.50), "p50-ms")
	b.ReportMetric(at(0.99), "p99-ms")
	b.ReportMetric(0, "ns/op") // the host's changes are in it
}

// BenchmarkEventToSnapshot: a device comes or goes, and a uevent tells of it.
func BenchmarkEventToSnapshot(b *testing.B) {
	for _, functions := range []int{8, 1024} {
		b.Run(fmt.Sprintf("functions=%d", functions), func(b *testing.B) {
			host, socket := benchHost(b, functions)
			d := startWith(b, options(host, socket), func(d *Daemon) { live(true)(d); unlimited(d) })
			s := watch(b, socket)
			until(b, s, hasDevices(functions))
			hca := fakehost.HCA{PCI: "0000:fe:00.0", Name: "extra", Index: 9999}
			var took []time.Duration
			for there := false; b.Loop(); there = !there {
				want := functions + 1
				if there {
					want = functions
					must(b, host.Remove("extra"))
				} else {
					must(b, host.Add(hca))
				}
				event := time.Now()
				d.notice.Places("devices/pci0000:00/" + hca.PCI) // as a uevent of it does
				until(b, s, hasDevices(want))
				took = append(took, time.Since(event))
			}
			report(b, took)
		})
	}
}

// BenchmarkCarrierToSnapshot: a port loses its carrier or gets it back. In a pod's
// name space nobody tells of it.
func BenchmarkCarrierToSnapshot(b *testing.B) {
	for _, test := range []struct {
		name      string
		functions int
		heard     bool
	}{{"netns=host/functions=8", 8, true}, {"netns=host/functions=1024", 1024, true}, {"netns=pod/functions=8", 8, false}} {
		b.Run(test.name, func(b *testing.B) {
			host, socket := benchHost(b, test.functions)
			const name = "mlx5_0"
			must(b, host.Change(name, func(h *fakehost.HCA) { h.Nets[0].Carrier = "1" }))
			d := startWith(b, options(host, socket), func(d *Daemon) { live(test.heard)(d); unlimited(d) })
			s := watch(b, socket)
			until(b, s, portIs(name, active))
			var took []time.Duration
			for up := false; b.Loop(); up = !up {
				if !test.heard { // not in time for the reads that follow the last change
					<-time.After(settling[len(settling)-1] + 100*time.Millisecond)
				}
				state, want := fakehost.StateDown, down
				if up {
					state, want = fakehost.StateActive, active
				}
				must(b, host.SetPortState(name, 1, state))
				must(b, host.SetCarrier("ens0", up))
				event := time.Now()
				if test.heard {
					d.notice.Links("ens0")
				}
				until(b, s, portIs(name, want))
				took = append(took, time.Since(event))
			}
			report(b, took)
		})
	}
}

// BenchmarkStormOf1024: that many virtual functions are made at once, each with four
// events.
func BenchmarkStormOf1024(b *testing.B) {
	const functions = 1024
	var settled time.Duration
	var messages uint64
	for b.Loop() {
		host, socket := benchHost(b, 1)
		d := startWith(b, options(host, socket), live(true))
		s := watch(b, socket)
		first := until(b, s, hasDevices(1))
		last, made := make(chan time.Time, 1), make(chan error, 1)
		go func() {
			for i := range functions {
				hca := fakehost.HCA{
					PCI: fmt.Sprintf("%04x:%02x:00.0", 1+i>>8, i&0xff), Name: fmt.Sprintf("vf%d", i), Index: 10_000 + i,
				}
				if err := host.Add(hca); err != nil {
					made <- err
					return
				}
				for range 4 {
					d.notice.Places("devices/pci0000:00/" + hca.PCI)
				}
			}
			last <- time.Now()
			made <- nil
		}()
		end := until(b, s, hasDevices(functions+1))
		now := time.Now()
		must(b, <-made)
		settled = max(settled, now.Sub(<-last))
		messages += end.GetGeneration() - first.GetGeneration()
		must(b, d.stop())
	}
	b.ReportMetric(float64(settled.Milliseconds()), "settled-ms")
	b.ReportMetric(float64(messages)/float64(b.N), "snapshots/op")
}

// BenchmarkIdleDiscovery: eight HCAs to which nothing happens for five seconds.
func BenchmarkIdleDiscovery(b *testing.B) {
	ether := func(h *fakehost.HCA) { h.Nets[0].Carrier = "1" }
	for _, test := range []struct {
		name   string
		heard  bool
		change func(*fakehost.HCA)
	}{
		{"netns=host", true, ether}, {"netns=pod", false, ether},
		{"infiniband", false, func(h *fakehost.HCA) {
			h.Nets, h.Ports = []fakehost.Net{}, []fakehost.Port{{LinkLayer: fakehost.InfiniBand}}
		}},
	} {
		b.Run(test.name, func(b *testing.B) {
			host, socket := benchHost(b, 8)
			for i := range 8 {
				must(b, host.Change(fmt.Sprintf("mlx5_%d", i), test.change))
			}
			startWith(b, options(host, socket), live(test.heard))
			until(b, watch(b, socket), hasDevices(8))
			runtime.GC() // what others have left is not the daemon's
			<-time.After(time.Second)
			began, before := time.Now(), cpuTime(b)
			for b.Loop() {
				<-time.After(5 * time.Second)
			}
			b.ReportMetric(100*float64(cpuTime(b)-before)/float64(time.Since(began)), "cpu-percent")
		})
	}
}

// cpuTime is what the process has used so far.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var use unix.Rusage
	must(b, unix.Getrusage(unix.RUSAGE_SELF, &use))
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}
