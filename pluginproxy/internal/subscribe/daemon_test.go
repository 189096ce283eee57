// What the tests of this room share: a daemon that they script, a client that
// follows it, and conditions on what the client knows.
//
// SPDX-License-Identifier: Apache-2.0

package subscribe

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
	"github.com/rdma-relay/rdma-relay/test/fakedaemon"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// within is how long a test waits for what should happen at once.
const within = 10 * time.Second

// node has a place for a daemon's socket, and a client that follows it.
type node struct {
	*Client
	t      *testing.T
	socket string
	logs   *logBuffer
}

func newNode(t *testing.T) *node { return newNodeWith(t, patience) }

// newNodeWith makes a node whose client is not as patient as on a real host.
func newNodeWith(t *testing.T, patience time.Duration) *node {
	t.Helper()
	dir, err := os.MkdirTemp("", "sub") // t.TempDir's paths are too long for a socket
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return nodeAt(t, filepath.Join(dir, "discovery.sock"), patience)
}

func nodeAt(t *testing.T, socket string, patience time.Duration) *node {
	t.Helper()
	n := &node{t: t, socket: socket, logs: &logBuffer{}}
	n.Client = New(socket, slog.New(slog.NewTextHandler(n.logs, nil)))
	n.patience = patience
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		n.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		select {
		case <-ended:
		case <-time.After(within):
			t.Error("the client has not ended though it was told to")
		}
	})
	return n
}

// daemon starts one that lives until the test ends, if it isn't ended before.
func (n *node) daemon(script fakedaemon.Script) *fakedaemon.Daemon {
	n.t.Helper()
	d, err := fakedaemon.Start(n.socket, script)
	must(n.t, err)
	n.t.Cleanup(d.Stop)
	return d
}

// until waits for a condition on what the client knows.
func (n *node) until(what string, cond func(State) bool) State {
	n.t.Helper()
	deadline := time.After(within)
	for {
		s, changed := n.Get()
		if cond(s) {
			return s
		}
		select {
		case <-changed:
		case <-deadline:
			n.t.Fatalf("not seen: %s\nstate: %+v\nlog:\n%s", what, s, n.logs)
		}
	}
}

// has is the condition that the stream is open and brought this snapshot.
func has(instance string, generation uint64) func(State) bool {
	return func(s State) bool {
		return s.Connected && s.Snapshot.GetInstanceId() == instance && s.Snapshot.GetGeneration() == generation
	}
}

func away(s State) bool { return !s.Connected && s.Problem != "" }

func snapshot(instance string, generation uint64) *discoveryv1.Snapshot {
	return fakedaemon.Snapshot(instance, generation, fakedaemon.HCAs(2)...)
}

func whole(instance string, generation uint64) *fakedaemon.Message {
	return fakedaemon.Whole(snapshot(instance, generation))
}

// wantSnapshot fails unless the last good snapshot stands.
func (n *node) wantSnapshot(instance string, generation uint64) {
	n.t.Helper()
	s, _ := n.Get()
	if got := s.Snapshot; got.GetInstanceId() != instance || got.GetGeneration() != generation || len(got.GetDevices()) != 2 {
		n.t.Errorf("snapshot %s/%d with %d devices, want %s/%d with 2",
			got.GetInstanceId(), got.GetGeneration(), len(got.GetDevices()), instance, generation)
	}
}

// logBuffer is a log that may be read while it is written.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// count is the number of lines that hold the text.
func (l *logBuffer) count(text string) int { return strings.Count(l.String(), text) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
