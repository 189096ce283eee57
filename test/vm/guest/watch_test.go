// What discoveryd says, with the time at which it has said it.
//
// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

// seen is one snapshot.
type seen struct {
	at       time.Time
	snapshot *discoveryv1.Snapshot
}

// watch records the snapshots of a daemon, and of the daemons after it.
type watch struct {
	t       testing.TB
	mu      sync.Mutex
	all     []seen
	changed chan struct{} // closed and replaced at each snapshot
}

// newWatch follows the socket until the test's end.
func newWatch(t testing.TB, socket string) *watch {
	t.Helper()
	conn, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: time.Second}))
	must(t, err)
	w := &watch{t: t, changed: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			w.follow(ctx, conn)
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		_ = conn.Close()
	})
	return w
}

func (w *watch) follow(ctx context.Context, conn *grpc.ClientConn) {
	stream, err := discoveryv1.NewDiscoveryServiceClient(conn).WatchSnapshots(ctx, &discoveryv1.WatchSnapshotsRequest{}, grpc.WaitForReady(true))
	if err != nil {
		return
	}
	for {
		message, err := stream.Recv()
		if err != nil {
			return
		}
		if s := message.GetSnapshot(); s != nil {
			w.mu.Lock()
			w.all = append(w.all, seen{time.Now(), s})
			close(w.changed)
			w.changed = make(chan struct{})
			w.mu.Unlock()
		}
	}
}

// await waits until the newest snapshot fulfils cond.
func (w *watch) await(what string, cond func(*discoveryv1.Snapshot) bool) seen {
	w.t.Helper()
	return w.awaitAfter(0, what, cond)
}

// awaitAfter waits until a snapshot does that came after the first n.
func (w *watch) awaitAfter(n int, what string, cond func(*discoveryv1.Snapshot) bool) seen {
	w.t.Helper()
	late := time.After(patience)
	for {
		w.mu.Lock()
		all, changed := w.all, w.changed
		w.mu.Unlock()
		if n == 0 && len(all) > 0 {
			all = all[len(all)-1:]
		}
		for _, s := range all[min(n, len(all)):] {
			if cond(s.snapshot) {
				return s
			}
		}
		select {
		case <-changed:
		case <-late:
			w.t.Fatalf("no snapshot within %v: %s; last: %v", patience, what, w.last())
		}
	}
}

// snapshots are all that have come.
func (w *watch) snapshots() (all []*discoveryv1.Snapshot) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.all {
		all = append(all, s.snapshot)
	}
	return all
}

// count is how many snapshots have come.
func (w *watch) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.all)
}

// last is the newest snapshot, nil when there is none.
func (w *watch) last() *discoveryv1.Snapshot {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.all) == 0 {
		return nil
	}
	return w.all[len(w.all)-1].snapshot
}

// deviceNames are the names of the RDMA devices of a snapshot.
func deviceNames(s *discoveryv1.Snapshot) (names []string) {
	for _, d := range s.GetDevices() {
		if d.GetName() != "" {
			names = append(names, d.GetName())
		}
	}
	return names
}

// device is the one of that name, nil when there is none.
func device(s *discoveryv1.Snapshot, name string) *discoveryv1.Device {
	for _, d := range s.GetDevices() {
		if d.GetName() == name {
			return d
		}
	}
	return nil
}

func equal(a, b []string) bool { return slices.Equal(a, b) }
