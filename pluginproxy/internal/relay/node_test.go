// What the tests of this room share: a node with a fake kubelet, a configuration
// and a daemon's state that they script, and a Relay between them.
//
// SPDX-License-Identifier: Apache-2.0

package relay_test

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

	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/config"
	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/latest"
	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/register"
	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/relay"
	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/subscribe"
	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
	"github.com/rdma-relay/rdma-relay/test/fakedaemon"
	"github.com/rdma-relay/rdma-relay/test/fakekubelet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// within is how long a test waits for what should happen at once.
const within = 10 * time.Second

// node is a kubelet with its directory, and what a Relay reads from.
type node struct {
	*fakekubelet.Kubelet
	t          testing.TB
	config     *latest.Value[config.State]
	discovery  *discovery
	dir        *register.Dir
	logs       *logBuffer
	relay      *relay.Relay // the newest one
	generation uint64
}

// discovery counts how often the state was asked for.
type discovery struct {
	*latest.Value[subscribe.State]
	mu    sync.Mutex
	asked *latest.Value[int]
}

func (d *discovery) Get() (subscribe.State, <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, _ := d.asked.Get()
	d.asked.Set(n + 1)
	return d.Value.Get()
}

// newNode makes a node whose kubelet has not started, without a snapshot.
func newNode(t testing.TB, b fakekubelet.Bookkeeping) *node {
	t.Helper()
	path, err := os.MkdirTemp("", "dp") // t.TempDir's paths are too long for a socket
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(path) })
	k := fakekubelet.New(path, fakekubelet.Options{Bookkeeping: b, DialTimeout: 300 * time.Millisecond})
	t.Cleanup(func() { must(t, k.Close()) })
	n := &node{
		Kubelet: k, t: t, logs: &logBuffer{},
		config:    latest.New(config.State{Config: &config.Config{}}),
		discovery: &discovery{Value: latest.New(subscribe.State{Problem: "no daemon yet"}), asked: latest.New(0)},
	}
	n.dir = register.NewDir(path, 0, n.log())
	n.run(n.dir.Run)
	return n
}

// running makes a node with a kubelet, a Relay and these resources, see entry.
func running(t testing.TB, b fakekubelet.Bookkeeping, entries ...string) *node {
	t.Helper()
	n := newNode(t, b)
	n.configure(entries...)
	must(t, n.Start())
	n.serve(relay.Options{})
	return n
}

// bothKubelets runs a test against both book-keepings of kubelet.
func bothKubelets(t *testing.T, test func(t *testing.T, b fakekubelet.Bookkeeping)) {
	for _, b := range []fakekubelet.Bookkeeping{fakekubelet.ByPath, fakekubelet.ByName} {
		t.Run(b.String(), func(t *testing.T) { test(t, b) })
	}
}

func (n *node) log() *slog.Logger { return slog.New(slog.NewTextHandler(n.logs, nil)) }

// serve runs a Relay until the test ends or stop is called.
func (n *node) serve(opts relay.Options) (stop func()) {
	if opts.ListInterval == 0 {
		opts.ListInterval = 20 * time.Millisecond
	}
	n.relay = relay.New(relay.Sources{Config: n.config, Discovery: n.discovery, Kubelet: n.dir}, opts, n.log())
	return n.run(n.relay.Run)
}

// run runs a part until the test ends, or until stop is called, and waits for it.
func (n *node) run(part func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); part(ctx) }()
	stop = func() {
		cancel()
		select {
		case <-ended:
		case <-time.After(5 * time.Second):
			n.t.Error("it has not ended within 5 s of being told to")
			<-ended
		}
	}
	n.t.Cleanup(stop)
	return stop
}

// entry is a resource of the configuration: rdma/NAME with so many slots, of all
// Mellanox devices, and further keys.
func entry(name string, slots int, keys ...string) string {
	return fmt.Sprintf(`{"resourceName":%q,"rdmaHcaMax":%d,"selectors":{"vendors":["15b3"]}%s}`,
		name, slots, strings.Join(append([]string{""}, keys...), ","))
}

// configure puts a configuration of these entries in force.
func (n *node) configure(entries ...string) {
	n.t.Helper()
	cfg, err := config.Parse([]byte(`{"configList":[`+strings.Join(entries, ",")+`]}`), "config.json")
	must(n.t, err)
	n.config.Set(config.State{Config: cfg, LoadedAt: time.Now()})
}

// publish makes these devices the newest snapshot, of a daemon that is there.
func (n *node) publish(devices ...*discoveryv1.Device) {
	n.generation++
	n.discovery.Set(subscribe.State{
		Snapshot: fakedaemon.Snapshot("a", n.generation, devices...), Status: fakedaemon.Fresh(),
		ScannedAt: time.Now(), Connected: true,
	})
}

// loseDaemon leaves of the daemon what it said last.
func (n *node) loseDaemon() {
	s, _ := n.discovery.Value.Get()
	s.Connected, s.Problem = false, "discoveryd ended the stream"
	n.discovery.Set(s)
}

// settled waits until the Relay has done what follows from all that was set.
func (n *node) settled() {
	n.t.Helper()
	deadline := time.After(within)
	for range 2 { // when it looks again it has done with what it saw before
		before, changed := n.discovery.asked.Get()
		s, _ := n.config.Get()
		n.config.Set(s)
		for now := before; now == before; now, changed = n.discovery.asked.Get() {
			select {
			case <-changed:
			case <-deadline:
				n.t.Fatal("the relay looks at its sources no more")
			}
		}
	}
}

// eventually waits for a condition of the kubelet.
func (n *node) eventually(cond func(fakekubelet.State) bool) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	if err := n.Wait(ctx, cond); err != nil {
		n.t.Fatalf("%v\nlog:\n%s", err, n.logs.tail())
	}
}

// soon is eventually for long tests: it looks now and then and not at each
// change, since the record of all that happened has become long.
func (n *node) soon(cond func(fakekubelet.State) bool) {
	n.t.Helper()
	n.until("a condition of kubelet", func() bool { return cond(n.State()) })
}

// until waits for a condition of anything else.
func (n *node) until(what string, cond func() bool) {
	n.t.Helper()
	deadline := time.After(within)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline:
			n.t.Fatalf("not seen: %s\nkubelet: %v\nlog:\n%s", what, n.State(), n.logs.tail())
		}
	}
}

// report is the Relay's own word on a resource.
func (n *node) report(resource string) relay.ResourceReport {
	n.t.Helper()
	for _, r := range n.relay.Report().Resources {
		if r.Name == resource {
			return r
		}
	}
	n.t.Fatalf("no resource %s in the report", resource)
	return relay.ResourceReport{}
}

// sockets are the names in kubelet's directory that are ours.
func (n *node) sockets() (ours []string) {
	n.t.Helper()
	entries, err := os.ReadDir(n.Dir())
	must(n.t, err)
	for _, e := range entries {
		if strings.Contains(e.Name(), register.SocketPrefix) {
			ours = append(ours, e.Name())
		}
	}
	return ours
}

// listed is the condition that exactly one session of the resource lives, has
// brought a list of count devices, so many of them healthy, and leads to Allocate.
func listed(resource string, count, healthy int) func(fakekubelet.State) bool {
	return func(s fakekubelet.State) bool {
		live, heard := 0, false
		for _, x := range s.LiveSessions(resource) {
			if x.Boot == s.Boot {
				live++
				heard = x.Responses > 0
			}
		}
		return live == 1 && heard && !s.Resources[resource].Stopped &&
			s.Capacity(resource) == count && s.Allocatable(resource) == healthy
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

// tail is the end of the log, for a message.
func (l *logBuffer) tail() string {
	all := l.String()
	return all[max(0, len(all)-8000):]
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
