// The whole daemon, on fake hosts and a real socket.
//
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/rdma-relay/rdma-relay/discoveryd/internal/ask"
	"github.com/rdma-relay/rdma-relay/internal/unixsock"
	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
	"github.com/rdma-relay/rdma-relay/test/fakehost"
)

const patience = 30 * time.Second

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newHost is a fake host in memory, and a path for a socket.
func newHost(t testing.TB) (host *fakehost.Host, socket string) {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "serve")
	if err != nil {
		dir = t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	host, err = fakehost.Mini(filepath.Join(dir, "host"))
	must(t, err)
	return host, filepath.Join(dir, "d.sock")
}

// logText collects a log.
type logText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logText) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logText) count(words string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), words)
}

// daemon is one that runs.
type daemon struct {
	*Daemon
	log  *logText
	stop func() error // ends it and waits
}

func options(host *fakehost.Host, socket string) Options {
	return Options{Socket: socket, HostRoot: host.Root(), ResyncInterval: time.Hour, AllowUIDs: []uint32{uint32(os.Getuid())}}
}

func start(t testing.TB, opts Options) *daemon {
	t.Helper()
	return startWith(t, opts, func(*Daemon) {})
}

// startWith starts a daemon that was changed before.
func startWith(t testing.TB, opts Options, change func(*Daemon)) *daemon {
	t.Helper()
	log := &logText{}
	d, err := New(opts, slog.New(slog.NewTextHandler(log, nil)))
	must(t, err)
	change(d)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	stop := sync.OnceValue(func() error { cancel(); return <-done })
	t.Cleanup(func() { must(t, stop()) })
	return &daemon{Daemon: d, log: log, stop: stop}
}

type stream = grpc.ServerStreamingClient[discoveryv1.WatchSnapshotsResponse]

func watch(t testing.TB, socket string) stream {
	t.Helper()
	client, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(t, err)
	long := patience
	if _, is := t.(*testing.B); is {
		long = time.Hour
	}
	ctx, cancel := context.WithTimeout(context.Background(), long)
	t.Cleanup(func() { cancel(); must(t, client.Close()) })
	s, err := discoveryv1.NewDiscoveryServiceClient(client).WatchSnapshots(ctx, &discoveryv1.WatchSnapshotsRequest{})
	must(t, err)
	return s
}

// until receives until a snapshot is as wanted.
func until(t testing.TB, s stream, wanted func(*discoveryv1.Snapshot) bool) *discoveryv1.Snapshot {
	t.Helper()
	for {
		message, err := s.Recv()
		must(t, err)
		if snapshot := message.GetSnapshot(); snapshot != nil && wanted(snapshot) {
			return snapshot
		}
	}
}

func has(names ...string) func(*discoveryv1.Snapshot) bool {
	return func(s *discoveryv1.Snapshot) bool {
		var got []string
		for _, d := range s.GetDevices() {
			if d.GetName() != "" && len(d.GetReasons()) == 0 {
				got = append(got, d.GetName())
			}
		}
		return strings.Join(got, " ") == strings.Join(names, " ")
	}
}

func TestChangedTreeGivesANewSnapshotWithinASecond(t *testing.T) {
	host, socket := newHost(t)
	start(t, options(host, socket))
	s := watch(t, socket)
	first := until(t, s, has("mlx5_0"))
	must(t, host.Add(fakehost.HCA{PCI: "0000:5e:00.0", Name: "mlx5_1", Index: 1}))
	changed := time.Now()
	second := until(t, s, has("mlx5_0", "mlx5_1"))
	if took := time.Since(changed); took > time.Second {
		t.Errorf("took %v", took)
	}
	if second.GetGeneration() <= first.GetGeneration() || second.GetInstanceId() != first.GetInstanceId() {
		t.Errorf("generations %d, %d of %s, %s", first.GetGeneration(), second.GetGeneration(), first.GetInstanceId(), second.GetInstanceId())
	}
	must(t, host.Remove("mlx5_0"))
	until(t, s, has("mlx5_1"))
	must(t, host.RemoveRdmaCM())
	until(t, s, has())
	must(t, host.AddRdmaCM())
	until(t, s, has("mlx5_1"))
}

// R51: no RDMA is a state like any other, and may end.
func TestR51_DaemonWaitsForAnRDMASubsystem(t *testing.T) {
	host, socket := newHost(t)
	must(t, host.Remove("mlx5_0"))
	must(t, os.RemoveAll(filepath.Join(host.Root(), "sys/class/infiniband")))
	d := start(t, options(host, socket))
	s := watch(t, socket)
	until(t, s, has())
	must(t, host.Add(fakehost.HCA{PCI: "0000:5e:00.0", Name: "mlx5_1", Index: 1}))
	until(t, s, has("mlx5_1"))
	must(t, d.stop())                                  // the log comes after the stream
	if n := d.log.count("NO_RDMA_SUBSYSTEM"); n != 2 { // it came, it went
		t.Errorf("%d lines", n)
	}
}

func TestHostThatGoesAwayLeavesTheLastSnapshot(t *testing.T) {
	host, socket := newHost(t)
	d := start(t, options(host, socket))
	s := watch(t, socket)
	until(t, s, has("mlx5_0"))
	sys := filepath.Join(host.Root(), "sys")
	must(t, os.Rename(sys, sys+"-away"))
	for failed := uint64(0); failed < 3; {
		d.notice.Hint()
		message, err := watch(t, socket).Recv()
		must(t, err)
		failed = message.GetStatus().GetCounters().GetScansFailed()
	}
	snapshot, err := ask.Snapshot(t.Context(), socket, patience)
	must(t, err)
	if !has("mlx5_0")(snapshot) {
		t.Errorf("snapshot is %v", snapshot)
	}
	must(t, os.Rename(sys+"-away", sys))
	must(t, host.Add(fakehost.HCA{PCI: "0000:5e:00.0", Name: "mlx5_1", Index: 1}))
	until(t, s, has("mlx5_0", "mlx5_1"))
	for d.log.count("scan works again") == 0 {
		d.notice.Hint()
	}
	if n := d.log.count("scan failed"); n != 1 {
		t.Errorf("said %d times that it fails", n)
	}
}

func TestStopEndsStreamsAndRemovesTheSocketWhateverWatchersDo(t *testing.T) {
	others := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, others) }) // after all other cleaning
	host, socket := newHost(t)
	d := start(t, options(host, socket))
	until(t, watch(t, socket), has("mlx5_0"))
	// One that never reads, and one that does not even speak HTTP/2.
	deaf, err := net.Dial("unix", socket)
	must(t, err)
	defer deaf.Close()
	watch(t, socket)
	began := time.Now()
	must(t, d.stop())
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
	if _, err := os.Lstat(socket); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket is still there: %v", err)
	}
}

func TestWatcherLearnsThatTheDaemonEnds(t *testing.T) {
	host, socket := newHost(t)
	d := start(t, options(host, socket))
	s := watch(t, socket)
	until(t, s, has("mlx5_0"))
	must(t, d.stop())
	if _, err := s.Recv(); !strings.Contains(err.Error(), "the daemon is ending") {
		t.Errorf("got %v", err)
	}
}

func TestR18_SocketOfADeadDaemonIsReplacedAndOfALivingOneIsNot(t *testing.T) {
	host, socket := newHost(t)
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	must(t, err)
	dead.SetUnlinkOnClose(false)
	must(t, dead.Close())
	start(t, options(host, socket))
	until(t, watch(t, socket), has("mlx5_0"))
	if _, err := New(options(host, socket), slog.New(slog.DiscardHandler)); !errors.Is(err, unixsock.ErrInUse) || !strings.Contains(err.Error(), socket) {
		t.Errorf("second daemon: %v", err)
	}
	until(t, watch(t, socket), has("mlx5_0"))
	info, err := os.Lstat(socket)
	must(t, err)
	if info.Mode().Perm() != 0o660 {
		t.Errorf("mode is %v", info.Mode())
	}
}

func TestPeersWithOtherUserIDsAreTurnedAwayAndCounted(t *testing.T) {
	host, socket := newHost(t)
	opts := options(host, socket)
	opts.AllowUIDs = []uint32{uint32(os.Getuid()) + 1}
	d := start(t, opts)
	for range 3 {
		if _, err := ask.Snapshot(t.Context(), socket, patience); err == nil || !strings.Contains(err.Error(), "--allow-uids") {
			t.Errorf("got %v", err)
		}
	}
	if n := d.log.count("peer refused"); n != 1 {
		t.Errorf("%d lines", n)
	}
}

func TestIdleDaemonIsSilent(t *testing.T) {
	host, socket := newHost(t)
	opts := options(host, socket)
	opts.ResyncInterval = 50 * time.Millisecond
	d := start(t, opts)
	s := watch(t, socket)
	until(t, s, has("mlx5_0"))
	resync := func() {
		message, err := s.Recv()
		must(t, err)
		if message.GetSnapshot() != nil {
			t.Error("a snapshot without a change")
		}
	}
	resync() // by then the first scan has said what it has to say
	lines := d.log.count("\n")
	for range 4 {
		resync()
	}
	if now := d.log.count("\n"); now != lines {
		t.Errorf("%d lines became %d", lines, now)
	}
}

func TestStormOfHintsLeavesTimeToOthers(t *testing.T) {
	host, socket := newHost(t)
	d := start(t, options(host, socket))
	until(t, watch(t, socket), has("mlx5_0"))
	scans := func() uint64 {
		message, err := watch(t, socket).Recv()
		must(t, err)
		return message.GetStatus().GetCounters().GetScans()
	}
	before := scans()
	end := time.Now().Add(200 * time.Millisecond)
	for time.Now().Before(end) {
		d.notice.Event()
	}
	if n := scans() - before; n < 1 || n > 30 {
		t.Errorf("%d scans", n)
	}
}

func TestRecordedTreeHasNothingOfThisMachine(t *testing.T) {
	host, socket := newHost(t)
	d := start(t, options(host, socket))
	for _, source := range d.sources {
		if source.Name() != "recorded tree" {
			t.Error("this machine's events are mixed in")
		}
	}
	s := until(t, watch(t, socket), has("mlx5_0"))
	if s.GetNode().GetKernelRelease() != "" || s.GetNode().GetNetnsMode() != 0 {
		t.Errorf("node is %v", s.GetNode())
	}
}
