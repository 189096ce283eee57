// Package footprint measures the two built programs as processes: memory, the
// time from start to Register, what they cost while nothing happens.
//
// SPDX-License-Identifier: Apache-2.0
package footprint

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rdma-relay/rdma-relay/test/fakehost"
	"github.com/rdma-relay/rdma-relay/test/fakekubelet"
)

const (
	hcas      = 8
	resources = 4
	slots     = 1000
	within    = 20 * time.Second
)

// machine is a sample host with both programs and a kubelet.
type machine struct {
	b       *testing.B
	dir     string
	bin     string
	kubelet *fakekubelet.Kubelet
}

func newMachine(b *testing.B) *machine {
	b.Helper()
	bin, err := filepath.Abs("../../bin")
	must(b, err)
	for _, name := range []string{"discoveryd", "pluginproxy"} {
		if _, err := os.Stat(filepath.Join(bin, name)); err != nil {
			b.Fatalf("%v: run 'make build' first", err)
		}
	}
	dir, err := os.MkdirTemp("", "fp")
	must(b, err)
	b.Cleanup(func() { _ = os.RemoveAll(dir) })
	_, err = fakehost.GPUNode8(filepath.Join(dir, "host"))
	must(b, err)
	must(b, os.WriteFile(filepath.Join(dir, "config.json"), []byte(config()), 0o600))
	m := &machine{b: b, dir: dir, bin: bin, kubelet: fakekubelet.New(filepath.Join(dir, "dp"), fakekubelet.Options{})}
	b.Cleanup(func() { must(b, m.kubelet.Close()) })
	must(b, m.kubelet.Start())
	return m
}

func config() string {
	var list []string
	for i := range resources {
		list = append(list, fmt.Sprintf(`{"resourceName":"hca%d","rdmaHcaMax":%d,"selectors":{"vendors":["15b3"]}}`, i, slots))
	}
	return `{"configList":[` + strings.Join(list, ",") + `]}`
}

// start runs a program until the benchmark ends.
func (m *machine) start(name string, args ...string) *exec.Cmd {
	m.b.Helper()
	cmd := exec.Command(filepath.Join(m.bin, name), args...)
	must(m.b, cmd.Start())
	m.b.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	return cmd
}

func (m *machine) startBoth() (discoveryd, pluginproxy *exec.Cmd) {
	m.b.Helper()
	socket := filepath.Join(m.dir, "d.sock")
	discoveryd = m.start("discoveryd", "serve", "--host-root="+filepath.Join(m.dir, "host"), "--socket="+socket,
		"--allow-uids="+strconv.Itoa(os.Getuid()), "--log-level=error")
	m.waitFor(func() bool { _, err := os.Stat(socket); return err == nil })
	return discoveryd, m.startProxy()
}

func (m *machine) startProxy() *exec.Cmd {
	m.b.Helper()
	return m.start("pluginproxy", "serve", "--config="+filepath.Join(m.dir, "config.json"), "--discovery-socket="+filepath.Join(m.dir, "d.sock"),
		"--device-plugins-dir="+m.kubelet.Dir(), "--metrics-address=", "--log-level=error")
}

// served waits until kubelet has every full list.
func (m *machine) served() {
	m.b.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	must(m.b, m.kubelet.Wait(ctx, func(s fakekubelet.State) bool {
		for i := range resources {
			if s.Allocatable(fmt.Sprintf("rdma/hca%d", i)) != slots {
				return false
			}
		}
		return true
	}))
}

func (m *machine) waitFor(cond func() bool) {
	m.b.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	deadline := time.After(within)
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline:
			m.b.Fatal("the programs did not come up")
		}
	}
}

// BenchmarkMemory measures the resident memory of both programs after twenty
// kubelet restarts, with 8 HCAs and 4 resources of 1,000 slots.
func BenchmarkMemory(b *testing.B) {
	m := newMachine(b)
	daemon, proxy := m.startBoth()
	m.served()
	for range 20 {
		must(b, m.kubelet.Restart())
		m.served()
	}
	for b.Loop() {
		d, p := memory(b, daemon), memory(b, proxy)
		b.ReportMetric(d, "discoveryd-MiB")
		b.ReportMetric(p, "pluginproxy-MiB")
		b.ReportMetric(d+p, "sum-MiB")
	}
}

// BenchmarkStartToRegister measures from the start of pluginproxy's process to
// kubelet's first Register call, with discoveryd up.
func BenchmarkStartToRegister(b *testing.B) {
	m := newMachine(b)
	_, proxy := m.startBoth()
	m.served()
	var total time.Duration
	for b.Loop() {
		must(b, proxy.Process.Signal(syscall.SIGTERM))
		_ = proxy.Wait()
		before := len(m.kubelet.State().Registrations)
		begin := time.Now()
		proxy = m.startProxy()
		m.served()
		total += m.kubelet.State().Registrations[before].At.Sub(begin)
	}
	b.ReportMetric(float64(total.Milliseconds())/float64(b.N), "ms-to-register")
}

// BenchmarkIdle measures what both programs cost in ten seconds in which nothing
// happens: share of one core, and context switches, each the end of a sleep.
// discoveryd follows a recorded host here, which it has to poll.
func BenchmarkIdle(b *testing.B) {
	m := newMachine(b)
	daemon, proxy := m.startBoth()
	m.served()
	pause := func(d time.Duration) { <-time.After(d) }
	pause(3 * time.Second) // what the start left behind
	const span = 10 * time.Second
	for b.Loop() {
		for name, cmd := range map[string]*exec.Cmd{"discoveryd": daemon, "pluginproxy": proxy} {
			cpu, wakes := cost(b, cmd)
			pause(span)
			cpu2, wakes2 := cost(b, cmd)
			b.ReportMetric(100*(cpu2-cpu).Seconds()/span.Seconds(), name+"-%core")
			b.ReportMetric(float64(wakes2-wakes)*float64(time.Minute/span), name+"-wakes/min")
		}
	}
}

// memory is the resident memory of a process in MiB (VmRSS in proc_pid_status(5)).
func memory(b *testing.B, cmd *exec.Cmd) float64 {
	b.Helper()
	return float64(field(b, cmd, "status", "VmRSS:")) / 1024
}

// cost is the CPU time that a process has used, and how often it has slept
// (voluntary_ctxt_switches of all its threads).
func cost(b *testing.B, cmd *exec.Cmd) (time.Duration, int) {
	b.Helper()
	var cpu time.Duration
	wakes := 0
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", cmd.Process.Pid))
	must(b, err)
	for _, t := range threads {
		text, err := os.ReadFile(filepath.Join(t, "schedstat")) // nanoseconds on the CPU first
		must(b, err)
		ns, err := strconv.ParseInt(strings.Fields(string(text))[0], 10, 64)
		must(b, err)
		cpu += time.Duration(ns)
		wakes += field(b, cmd, filepath.Join("task", filepath.Base(t), "status"), "voluntary_ctxt_switches:")
	}
	return cpu, wakes
}

// field reads a number of a file below /proc/PID.
func field(b *testing.B, cmd *exec.Cmd, file, name string) int {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", cmd.Process.Pid, file))
	must(b, err)
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			n, err := strconv.Atoi(strings.Fields(rest)[0])
			must(b, err)
			return n
		}
	}
	b.Fatalf("no %s in %s", name, file)
	return 0
}

func must(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}
