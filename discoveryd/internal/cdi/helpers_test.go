// A snapshot, a directory and the CDI library as a runtime uses it.
//
// SPDX-License-Identifier: Apache-2.0

package cdi

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	oci "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
	"tags.cncf.io/container-device-interface/pkg/cdi"

	v1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

// hca is the n-th HCA: 0000:10+n:00.0, whose files have the number of.
func hca(n, of int) *v1.Device {
	port := uint32(1)
	return &v1.Device{
		Name:   fmt.Sprintf("mlx5_%d", n),
		Parent: &v1.Parent{Bus: v1.Bus_BUS_PCI, PciAddress: fmt.Sprintf("0000:%02x:00.0", 0x10+n)},
		CharDevices: []*v1.CharDevice{
			{Kind: v1.CharDeviceKind_CHAR_DEVICE_KIND_UVERBS, Path: fmt.Sprintf("/dev/infiniband/uverbs%d", of), Major: 231, Minor: uint32(192 + of)},
			{Kind: v1.CharDeviceKind_CHAR_DEVICE_KIND_UMAD, Path: fmt.Sprintf("/dev/infiniband/umad%d", of), Major: 231, Minor: uint32(of), Port: &port},
			{Kind: v1.CharDeviceKind_CHAR_DEVICE_KIND_ISSM, Path: fmt.Sprintf("/dev/infiniband/issm%d", of), Major: 231, Minor: uint32(64 + of), Port: &port},
			{Kind: v1.CharDeviceKind_CHAR_DEVICE_KIND_RDMA_CM, Path: "/dev/infiniband/rdma_cm", Major: 10, Minor: 58},
		},
	}
}

func snapshot(devices ...*v1.Device) *v1.Snapshot {
	return &v1.Snapshot{Node: &v1.Node{}, Devices: devices}
}

// daemon is one that keeps a spec.
type daemon struct {
	*Specs
	t   *testing.T
	log *logText
}

func newDaemon(t *testing.T, dir string) *daemon {
	t.Helper()
	log := &logText{}
	d := &daemon{Specs: New(dir, slog.New(slog.NewTextHandler(log, nil))), t: t, log: log}
	t.Cleanup(func() { d.own(nil) })
	return d
}

// place places a spec and returns the snapshot's CDI names by RDMA name.
func (d *daemon) place(devices ...*v1.Device) map[string]string {
	d.t.Helper()
	s := snapshot(devices...)
	d.Place(s)
	names := map[string]string{}
	for _, dev := range s.GetDevices() {
		names[dev.GetName()] = dev.GetCdiName()
	}
	d.problem = s.GetNode().GetCdi().GetProblem()
	return names
}

// kill is what SIGKILL leaves of a daemon: its file, which nobody holds.
func (d *daemon) kill() { d.own(nil) }

func (d *daemon) wantProblem(part string) {
	d.t.Helper()
	if (part == "") != (d.problem == "") || !strings.Contains(d.problem, part) {
		d.t.Errorf("problem %q, want one with %q", d.problem, part)
	}
}

func wantNames(t *testing.T, got map[string]string, want ...string) {
	t.Helper()
	var list []string
	for name, cdiName := range got {
		list = append(list, name+" "+strings.TrimPrefix(cdiName, "rdma-relay.dev/hca="))
	}
	slices.Sort(list)
	if !slices.Equal(list, want) {
		t.Errorf("names %q, want %q", list, want)
	}
}

// inject gives a container the devices as a runtime does that looks into dir, and
// returns its files and its cgroup rules.
func inject(t *testing.T, dir string, names ...string) (files, rules []string) {
	t.Helper()
	cache, err := cdi.NewCache(cdi.WithSpecDirs(dir), cdi.WithAutoRefresh(false))
	must(t, err)
	container := &oci.Spec{}
	if missing, err := cache.InjectDevices(container, names...); err != nil {
		t.Fatalf("%v: %q; errors: %v", err, missing, cache.GetErrors())
	}
	for _, d := range container.Linux.Devices {
		files = append(files, fmt.Sprintf("%s %s %d:%d", strings.TrimPrefix(d.Path, "/dev/infiniband/"), d.Type, d.Major, d.Minor))
	}
	for _, r := range container.Linux.Resources.Devices {
		rules = append(rules, fmt.Sprintf("%v %s %d:%d %s", r.Allow, r.Type, *r.Major, *r.Minor, r.Access))
	}
	return files, rules
}

// resolvable tells which names a runtime finds, without our prefix.
func resolvable(t *testing.T, dir string) []string {
	t.Helper()
	cache, err := cdi.NewCache(cdi.WithSpecDirs(dir), cdi.WithAutoRefresh(false))
	must(t, err)
	var ours []string
	for _, name := range cache.ListDevices() {
		if short, ok := strings.CutPrefix(name, "rdma-relay.dev/hca="); ok {
			ours = append(ours, short)
		}
	}
	return ours
}

func wantResolvable(t *testing.T, dir string, want ...string) {
	t.Helper()
	if got := resolvable(t, dir); !slices.Equal(got, want) {
		t.Errorf("runtimes find %q, want %q", got, want)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func put(t *testing.T, path, text string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte(text), 0o600))
}

// listing is what a directory holds.
func listing(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func wantFiles(t *testing.T, dir string, want ...string) {
	t.Helper()
	if got := listing(t, dir); !slices.Equal(got, want) {
		t.Errorf("the directory holds %q, want %q", got, want)
	}
}

func fileAt(dir string) string { return filepath.Join(dir, FileName) }

// readOnly makes a directory refuse all changes until the returned function is
// called. Permissions don't stop root, a read-only mount does.
func readOnly(t *testing.T, dir string) (writable func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		must(t, os.Chmod(dir, 0o500))
		writable = func() { _ = os.Chmod(dir, 0o700) }
	} else {
		if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
			t.Skipf("root that may not mount: %v", err)
		}
		writable = sync.OnceFunc(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
		must(t, unix.Mount("", dir, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	}
	t.Cleanup(writable)
	return writable
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		if time.Now().After(deadline) {
			t.Fatalf("not seen: %s", what)
		}
		<-tick.C
	}
}

// logText is a log that may be read while it is written.
type logText struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logText) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), text)
}
