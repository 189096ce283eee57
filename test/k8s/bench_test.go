// How long kubelet is without the full list. `make bench` runs these with a count.
//
// SPDX-License-Identifier: Apache-2.0

package k8s

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

// BenchmarkRestart measures from the moment at which a new kubelet's Start has returned
// (kubelet.sock is there) to that at which its device manager has all devices of all
// resources as healthy.
func BenchmarkRestart(b *testing.B) {
	for _, resources := range []int{1, 64} {
		b.Run(fmt.Sprintf("resources=%d/slots=1000", resources), func(b *testing.B) {
			n, names := nodeWith(b, resources, 1000)
			n.kubelet.waitFull(names, 1000)
			var times durations
			for b.Loop() {
				b.StopTimer()
				n.kubelet.stop()
				n.kubelet.start()
				b.StartTimer()
				times = append(times, n.kubelet.waitFull(names, 1000))
			}
			times.report(b)
		})
	}
}

// BenchmarkKill is BenchmarkRestart with a kubelet in a process of its own that is
// killed: all connections end at once, and kubelet.sock stays until the next start.
func BenchmarkKill(b *testing.B) {
	for _, resources := range []int{1, 64} {
		b.Run(fmt.Sprintf("resources=%d/slots=1000", resources), func(b *testing.B) {
			n, names := newNodeWith(b, resources, 1000)
			kubelet := startKubeletProcess(b, n.plugins)
			n.startDiscovery()
			n.startProxy()
			kubelet.waitFull(names, 1000)
			var times durations
			for b.Loop() {
				b.StopTimer()
				kubelet.kill()
				kubelet = startKubeletProcess(b, n.plugins)
				b.StartTimer()
				times = append(times, kubelet.waitFull(names, 1000))
			}
			times.report(b)
		})
	}
}

// BenchmarkRestartFloor is what of BenchmarkRestart is kubelet's own: plugins of a few lines
// that serve already and register all at once as soon as kubelet is there.
func BenchmarkRestartFloor(b *testing.B) {
	for _, resources := range []int{1, 64} {
		b.Run(fmt.Sprintf("resources=%d/slots=1000", resources), func(b *testing.B) {
			k := startKubelet(b, shortDir(b))
			var names []string
			for i := range resources {
				names = append(names, fmt.Sprintf("test.example/w%d", i))
			}
			var times durations
			var plugins []*plugin
			for b.Loop() {
				b.StopTimer()
				k.stop()
				for _, p := range plugins {
					p.server.Stop()
				}
				k.start()
				plugins = plugins[:0]
				for i := range names {
					plugins = append(plugins, servePlugin(b, k.dir, fmt.Sprintf("w%d.sock", i), 1000))
				}
				b.StartTimer()
				var all errgroup.Group
				for i, p := range plugins {
					all.Go(func() error { return p.register(names[i]) })
				}
				took := k.waitFull(names, 1000)
				times = append(times, took)
				b.StopTimer()
				if err := all.Wait(); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
			times.report(b)
		})
	}
}

// BenchmarkProxyStart measures from the start of a pluginproxy process, with discoveryd
// and kubelet there, to the full list at kubelet.
func BenchmarkProxyStart(b *testing.B) {
	n, names := nodeWith(b, 1, 1000)
	n.kubelet.waitFull(names, 1000)
	var times durations
	for b.Loop() {
		b.StopTimer()
		n.proxy.kill()
		n.kubelet.wait(names[0], counts{Capacity: 1000, Allocatable: 0})
		b.StartTimer()
		n.startProxy()
		times = append(times, n.kubelet.waitFull(names, 1000))
	}
	times.report(b)
}

// newNodeWith is a node with 8 HCAs and so many resources, all pools over all of them.
func newNodeWith(t testing.TB, resources, slots int) (n *node, names []string) {
	t.Helper()
	var config []resourceConfig
	for i := range resources {
		config = append(config, pool(fmt.Sprintf("hca%d", i), slots))
		names = append(names, fmt.Sprintf("rdma/hca%d", i))
	}
	return newNode(t, 8, config...), names
}

// nodeWith is the same with everything running.
func nodeWith(t testing.TB, resources, slots int) (n *node, names []string) {
	t.Helper()
	n, names = newNodeWith(t, resources, slots)
	n.startAll()
	return n, names
}

// durations are measured times, in the order of measuring.
type durations []time.Duration

func (d durations) mean() time.Duration {
	var sum time.Duration
	for _, v := range d {
		sum += v
	}
	return sum / time.Duration(len(d))
}

// percentile returns the least of the times that p percent do not exceed.
func (d durations) percentile(p int) time.Duration {
	sorted := slices.Sorted(slices.Values(d))
	return sorted[(len(sorted)*p+99)/100-1]
}

// percentiles is what benchstat reads as further units.
func (d durations) percentiles() string {
	return fmt.Sprintf("%.2f p50-ms %.2f p99-ms", milliseconds(d.percentile(50)), milliseconds(d.percentile(99)))
}

func (d durations) report(b *testing.B) {
	b.ReportMetric(milliseconds(d.percentile(50)), "p50-ms")
	b.ReportMetric(milliseconds(d.percentile(99)), "p99-ms")
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
