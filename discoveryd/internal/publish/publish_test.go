// What watchers of a stream get, over a real socket.
//
// SPDX-License-Identifier: Apache-2.0

package publish

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// serve makes a publisher reachable; the returned function opens a stream.
func serve(t *testing.T, p *Publisher) (watch func() grpc.ServerStreamingClient[discoveryv1.WatchSnapshotsResponse]) {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "pub")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "s.sock")
	l, err := net.Listen("unix", path)
	must(t, err)
	server := grpc.NewServer()
	discoveryv1.RegisterDiscoveryServiceServer(server, p)
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	client, err := grpc.NewClient("unix:"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(t, err)
	t.Cleanup(func() {
		must(t, client.Close())
		server.Stop()
		must(t, <-done)
	})
	return func() grpc.ServerStreamingClient[discoveryv1.WatchSnapshotsResponse] {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		t.Cleanup(cancel)
		stream, err := discoveryv1.NewDiscoveryServiceClient(client).WatchSnapshots(ctx, &discoveryv1.WatchSnapshotsRequest{})
		must(t, err)
		return stream
	}
}

func recv(t *testing.T, stream grpc.ServerStreamingClient[discoveryv1.WatchSnapshotsResponse]) *discoveryv1.WatchSnapshotsResponse {
	t.Helper()
	message, err := stream.Recv()
	must(t, err)
	if message.GetStatus() == nil {
		t.Fatal("a message without status")
	}
	return message
}

// state is a snapshot with devices of these names.
func state(names ...string) *discoveryv1.Snapshot {
	s := &discoveryv1.Snapshot{}
	for _, name := range names {
		s.Devices = append(s.Devices, &discoveryv1.Device{Name: name})
	}
	return s
}

func scanned(t *testing.T, p *Publisher, s *discoveryv1.Snapshot) bool {
	t.Helper()
	_, changed, err := p.Scanned(s, time.Millisecond)
	must(t, err)
	return changed
}

func summary(s *discoveryv1.Snapshot) string {
	names := []string{fmt.Sprint(s.GetGeneration())}
	for _, d := range s.GetDevices() {
		names = append(names, d.GetName())
	}
	return strings.Join(names, " ")
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	deadline := time.After(30 * time.Second)
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal(what)
		}
	}
}

func (p *Publisher) watching() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.watchers)
}

func TestNothingIsSentBeforeTheFirstScanAndThenEverything(t *testing.T) {
	p := New(Options{Version: "v1", ResyncInterval: time.Hour, Events: func() uint64 { return 7 }})
	watch := serve(t, p)
	early := watch()
	eventually(t, "no watcher", func() bool { return p.watching() == 1 })
	p.Failed()
	p.Refused()
	if !scanned(t, p, state()) { // an empty list is a statement
		t.Error("the first snapshot is no change")
	}
	for name, stream := range map[string]grpc.ServerStreamingClient[discoveryv1.WatchSnapshotsResponse]{"early": early, "late": watch()} {
		message := recv(t, stream)
		if message.GetSnapshot() == nil || summary(message.GetSnapshot()) != "1" || message.GetSnapshot().GetInstanceId() != p.instance {
			t.Errorf("%s: first message is %v", name, message)
		}
		st := message.GetStatus()
		if c := st.GetCounters(); c.GetScans() != 1 || c.GetScansFailed() != 1 || c.GetPeersRefused() != 1 || c.GetSnapshotsPublished() != 1 || c.GetEvents() != 7 || c.GetWatchers() == 0 {
			t.Errorf("%s: counters are %v", name, c)
		}
		if st.GetDaemonVersion() != "v1" || st.GetResyncInterval().AsDuration() != time.Hour || st.GetScanDuration().AsDuration() != time.Millisecond ||
			st.GetScanAge().AsDuration() <= 0 || time.Since(st.GetScanCompletedAt().AsTime()) > time.Minute {
			t.Errorf("%s: status is %v", name, st)
		}
	}
}

func TestOnlyChangesMakeGenerations(t *testing.T) {
	p := New(Options{ResyncInterval: time.Hour})
	watch := serve(t, p)
	stream := watch()
	for _, step := range []struct {
		names   []string
		changed bool
	}{{[]string{"a"}, true}, {[]string{"a"}, false}, {[]string{"a", "b"}, true}, {[]string{"a", "b"}, false}, {nil, true}} {
		if changed := scanned(t, p, state(step.names...)); changed != step.changed {
			t.Errorf("%q: changed %v", step.names, changed)
		}
		if step.changed {
			recv(t, stream)
		}
	}
	if got := summary(recv(t, watch()).GetSnapshot()); got != "3" {
		t.Errorf("newest is %q", got)
	}
	if New(Options{}).instance == p.instance {
		t.Error("two instances have one ID")
	}
}

func TestSlowWatcherFindsTheNewestAndHoldsUpNobody(t *testing.T) {
	p := New(Options{ResyncInterval: time.Hour})
	watch := serve(t, p)
	slow, quick := watch(), watch()
	big := strings.Repeat("x", 64<<10) // more than a connection buffers soon
	scanned(t, p, state(big, "0"))
	recv(t, slow)
	recv(t, quick)
	const last = 500
	for n := 1; n <= last; n++ {
		scanned(t, p, state(big, fmt.Sprint(n)))
	}
	for name, stream := range map[string]grpc.ServerStreamingClient[discoveryv1.WatchSnapshotsResponse]{"quick": quick, "slow": slow} {
		got, messages := "", 0
		for got != fmt.Sprint(last) {
			s := recv(t, stream).GetSnapshot()
			got = s.GetDevices()[1].GetName()
			messages++
		}
		if messages >= last {
			t.Errorf("%s got all %d messages", name, messages)
		}
	}
}

func TestStatusComesWithoutChangesToo(t *testing.T) {
	p := New(Options{ResyncInterval: 50 * time.Millisecond})
	stream := serve(t, p)()
	scanned(t, p, state("a"))
	if recv(t, stream).GetSnapshot() == nil {
		t.Error("no snapshot in the first message")
	}
	for range 3 { // though nothing is scanned any more
		if message := recv(t, stream); message.GetSnapshot() != nil || message.GetStatus().GetCounters().GetScans() != 1 {
			t.Errorf("got %v", message)
		}
	}
	age := recv(t, stream).GetStatus().GetScanAge().AsDuration()
	if age < 100*time.Millisecond {
		t.Errorf("the scan's age is %v", age)
	}
}

func TestCloseEndsAllStreams(t *testing.T) {
	p := New(Options{ResyncInterval: time.Hour})
	watch := serve(t, p)
	waiting := watch()
	eventually(t, "no watcher", func() bool { return p.watching() == 1 })
	p.Close()
	for name, stream := range map[string]grpc.ServerStreamingClient[discoveryv1.WatchSnapshotsResponse]{"open": waiting, "new": watch()} {
		if _, err := stream.Recv(); status.Code(err) != codes.Unavailable {
			t.Errorf("%s stream: %v", name, err)
		}
	}
	eventually(t, "watchers stay", func() bool { return p.watching() == 0 })
}

func TestWhatCanNotBeEncodedIsAnErrorAndChangesNothing(t *testing.T) {
	p := New(Options{ResyncInterval: time.Hour})
	scanned(t, p, state("a"))
	if _, _, err := p.Scanned(state("\xff"), 0); err == nil {
		t.Error("a string that is no UTF-8 was published")
	}
	if summary(p.current) != "1 a" {
		t.Errorf("current is %q", summary(p.current))
	}
}
