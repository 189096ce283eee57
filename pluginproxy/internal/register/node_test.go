// What the tests of this room share: a node with a fake kubelet, and resources
// that are kept registered there.
//
// SPDX-License-Identifier: Apache-2.0

package register

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/latest"
	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/session"
	"github.com/rdma-relay/rdma-relay/test/fakekubelet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// within is how long a test waits for what should happen at once; the reports
// allow 5 s.
const within = 5 * time.Second

// bothKubelets runs a test against both book-keepings of kubelet.
func bothKubelets(t *testing.T, test func(t *testing.T, n *node)) {
	for _, b := range []fakekubelet.Bookkeeping{fakekubelet.ByPath, fakekubelet.ByName} {
		t.Run(b.String(), func(t *testing.T) { test(t, newNode(t, b)) })
	}
}

// node is a kubelet with its directory, and what is registered there.
type node struct {
	*fakekubelet.Kubelet
	t    *testing.T
	dir  *Dir
	logs *syncBuffer
}

// newNode makes a node whose kubelet has not started.
func newNode(t *testing.T, b fakekubelet.Bookkeeping) *node {
	t.Helper()
	path, err := os.MkdirTemp("", "dp") // t.TempDir's paths are too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(path) })
	return newNodeAt(t, b, path)
}

func newNodeAt(t *testing.T, b fakekubelet.Bookkeeping, path string) *node {
	t.Helper()
	k := fakekubelet.New(path, fakekubelet.Options{Bookkeeping: b, DialTimeout: 300 * time.Millisecond})
	t.Cleanup(func() { must(t, k.Close()) })
	n := &node{Kubelet: k, t: t, logs: &syncBuffer{}}
	n.dir = NewDir(path, 0, n.log())
	n.run(n.dir.Run)
	return n
}

func (n *node) log() *slog.Logger { return slog.New(slog.NewTextHandler(n.logs, nil)) }

// run runs a part until the test ends, or until stop is called, and waits for it.
func (n *node) run(part func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); part(ctx) }()
	stop = func() {
		cancel()
		select {
		case <-ended:
		case <-time.After(within):
			n.t.Error("it has not ended within 5 s of being told to")
			<-ended
		}
	}
	n.t.Cleanup(stop)
	return stop
}

// kept is a resource under test.
type kept struct {
	*Keeper
	offer *latest.Value[session.Offer]
	stats *session.Stats
	stop  func()
}

// keep keeps a resource of count devices registered until the test ends.
func (n *node) keep(name string, count int, timing Timing) *kept {
	k := &kept{offer: latest.New[session.Offer](slots(count)), stats: &session.Stats{}}
	cfg := session.Config{Offer: k.offer, Stats: k.stats, Log: n.log(), Interval: 20 * time.Millisecond}
	k.Keeper = NewKeeper(name, n.dir, NewNames(), cfg, timing, n.log())
	k.stop = n.run(k.Run)
	return k
}

// eventually waits for a condition of the kubelet.
func (n *node) eventually(cond func(fakekubelet.State) bool) {
	n.t.Helper()
	n.eventuallyWithin(within, cond)
}

func (n *node) eventuallyWithin(d time.Duration, cond func(fakekubelet.State) bool) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	if err := n.Wait(ctx, cond); err != nil {
		n.t.Fatalf("%v\nlog:\n%s", err, n.logs)
	}
}

// sockets are the names in kubelet's directory that are ours.
func (n *node) sockets() (ours []string) {
	n.t.Helper()
	entries, err := os.ReadDir(n.dir.Path())
	must(n.t, err)
	for _, e := range entries {
		if strings.Contains(e.Name(), SocketPrefix) {
			ours = append(ours, e.Name())
		}
	}
	return ours
}

// until waits for a condition of a Keeper.
func (k *kept) until(t *testing.T, cond func(State) bool) {
	t.Helper()
	deadline := time.After(within)
	for {
		s, changed := k.State()
		if cond(s) {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("the keeper's state is %+v", s)
		}
	}
}

// healthy is the condition that exactly one session of resource lives and has
// brought count healthy devices, to which Allocate leads.
func healthy(resource string, count int) func(fakekubelet.State) bool {
	return func(s fakekubelet.State) bool {
		live := 0
		for _, x := range s.SessionsOf(resource) {
			if x.Live() {
				live++
			}
		}
		return live == 1 && s.Capacity(resource) == count && s.Allocatable(resource) == count && !s.Resources[resource].Stopped
	}
}

// slots is an offer of so many devices.
type slots int

func (n slots) List() (list []*pluginapi.Device) {
	for i := range int(n) {
		list = append(list, &pluginapi.Device{ID: fmt.Sprint(i), Health: pluginapi.Healthy})
	}
	return list
}
func (slots) Options() *pluginapi.DevicePluginOptions { return &pluginapi.DevicePluginOptions{} }
func (n slots) Allocate(ids []string) (*pluginapi.ContainerAllocateResponse, error) {
	if n == 0 {
		return nil, status.Error(codes.Unavailable, "nothing there")
	}
	return &pluginapi.ContainerAllocateResponse{Envs: map[string]string{"IDS": strings.Join(ids, ",")}}, nil
}
func (slots) Preferred(available, _ []string, size int) []string { return available[:size] }

// syncBuffer is a log that may be read while it is written.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
