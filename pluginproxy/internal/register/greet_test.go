// The route by which kubelet finds us.
//
// SPDX-License-Identifier: Apache-2.0

package register

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/rdma-relay/rdma-relay/test/fakekubelet"
)

// newRegistryNode makes a node whose kubelet, when it starts, watches its plugin
// registry if watching is set.
func newRegistryNode(t *testing.T, b fakekubelet.Bookkeeping, watching bool) *node {
	t.Helper()
	path, err := os.MkdirTemp("", "pr")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(path) })
	registry := filepath.Join(path, "reg")
	must(t, os.Mkdir(registry, 0o755))
	opts := fakekubelet.Options{Bookkeeping: b, ReconcilePeriod: 50 * time.Millisecond, DialTimeout: 300 * time.Millisecond}
	if watching {
		opts.PluginsRegistry = registry
	}
	k := fakekubelet.New(filepath.Join(path, "dp"), opts)
	t.Cleanup(func() { must(t, k.Close()) })
	n := &node{Kubelet: k, t: t, logs: &syncBuffer{}}
	n.dir = NewRegistry(registry, 0, n.log())
	n.run(n.dir.Run)
	return n
}

// bothWatchers runs a test against both book-keepings of kubelet.
func bothWatchers(t *testing.T, test func(t *testing.T, n *node)) {
	for _, b := range []fakekubelet.Bookkeeping{fakekubelet.ByPath, fakekubelet.ByName} {
		t.Run(b.String(), func(t *testing.T) { test(t, newRegistryNode(t, b, true)) })
	}
}

func TestWatcherFindsEachResource(t *testing.T) {
	n := newRegistryNode(t, fakekubelet.ByPath, true)
	must(t, n.Start())
	names := []string{"example.com/a", "example.com/b", "example.com/c"}
	for i, name := range names {
		n.keep(name, 10*(i+1), DefaultTiming)
	}
	for i, name := range names {
		n.eventually(healthy(name, 10*(i+1)))
	}
	for _, r := range n.State().Registrations {
		if !r.Watcher || r.Refused() {
			t.Errorf("registration %+v", r)
		}
	}
	if got := len(n.State().Registrations); got != len(names) {
		t.Errorf("%d registrations, want one for each of %d resources", got, len(names))
	}
}

func TestWatcherRouteOverKubeletRestarts(t *testing.T) {
	for name, restart := range map[string]func(n *node) error{
		"streams end first":    func(n *node) error { return n.Restart() },
		"new kubelet first":    func(n *node) error { return n.RestartReversed(context.Background(), 50*time.Millisecond) },
		"killed, then started": func(n *node) error { return firstError(n.Kill(), n.Start()) },
	} {
		t.Run(name, func(t *testing.T) {
			bothWatchers(t, func(t *testing.T, n *node) {
				must(t, n.Start())
				k := n.keep(widget, 10, DefaultTiming)
				n.eventually(healthy(widget, 10))
				for range 5 {
					must(t, restart(n))
					n.eventually(healthy(widget, 10))
					k.until(t, func(s State) bool { return s.Session })
				}
				if got := n.sockets(); len(got) != 1 {
					t.Errorf("sockets of ours: %v, want one", got)
				}
			})
		})
	}
}

// Nothing tells us of the new kubelet: it finds the socket that lies there.
func TestWatcherFindsWhatLiesThereWhenItStarts(t *testing.T) {
	bothWatchers(t, func(t *testing.T, n *node) {
		k := n.keep(widget, 10, DefaultTiming)
		k.until(t, func(s State) bool { return s.Problem == "kubelet has not called yet" })
		waitFor(t, func() bool { return len(n.sockets()) == 1 })
		must(t, n.Start())
		n.eventually(healthy(widget, 10))
		must(t, n.Kill())
		k.until(t, func(s State) bool { return !s.Session })
		waitFor(t, func() bool { return len(n.sockets()) == 1 })
		must(t, n.Start())
		n.eventually(healthy(widget, 10))
		if got := n.sockets(); len(got) != 1 {
			t.Errorf("sockets of ours: %v, want one", got)
		}
	})
}

func TestWatcherRouteAfterALostSession(t *testing.T) {
	for name, breakIt := range map[string]func(n *node) error{
		"stream dropped":     func(n *node) error { return n.DropStream(widget) },
		"connection cut":     func(n *node) error { return n.CutConnection(widget) },
		"own socket removed": func(n *node) error { return os.Remove(filepath.Join(n.dir.Path(), n.sockets()[0])) },
	} {
		t.Run(name, func(t *testing.T) {
			bothWatchers(t, func(t *testing.T, n *node) {
				must(t, n.Start())
				n.keep(widget, 10, DefaultTiming)
				n.eventually(healthy(widget, 10))
				must(t, breakIt(n))
				n.eventually(sessions(2, 10))
				answer, err := n.Allocate(context.Background(), widget, "3")
				if err != nil || answer.Envs["IDS"] != "3" {
					t.Errorf("Allocate after the return: %v, %v", answer, err)
				}
				if got := n.sockets(); len(got) != 1 {
					t.Errorf("sockets of ours: %v, want one", got)
				}
			})
		})
	}
}

// The end of the connection by which kubelet asked is no end of the session.
func TestQuestionAndSessionUseTwoConnections(t *testing.T) {
	n := newRegistryNode(t, fakekubelet.ByPath, true)
	must(t, n.Start())
	k := n.keep(widget, 10, DefaultTiming)
	for i := range 5 {
		n.eventually(fakekubelet.Listed(widget, 10+i, 10+i))
		k.offer.Set(slots(11 + i))
	}
	n.eventually(sessions(1, 15))
}

func TestWatcherRefusesThreeTimesThenAccepts(t *testing.T) {
	bothWatchers(t, func(t *testing.T, n *node) {
		n.RefuseNext(3, errors.New("not now"))
		must(t, n.Start())
		k := n.keep(widget, 10, DefaultTiming)
		n.eventually(healthy(widget, 10))
		if got := k.Stats.Refused.Load(); got != 3 {
			t.Errorf("%d refusals counted, want 3", got)
		}
		seen := map[string]bool{}
		for _, r := range n.State().Registrations {
			seen[r.Endpoint] = true
		}
		if len(seen) != 4 {
			t.Errorf("four registrations used %d sockets, want a fresh one each time", len(seen))
		}
		if log := n.logs.String(); strings.Count(log, "not now") != 1 {
			t.Errorf("the refusal should be said once:\n%s", log)
		}
	})
}

func TestR12_RegistryThatNobodyWatchesIsSaid(t *testing.T) {
	n := newRegistryNode(t, fakekubelet.ByPath, false)
	must(t, n.Start())
	timing := DefaultTiming
	timing.Call = 30 * time.Millisecond
	k := n.keep(widget, 10, timing)
	says := "kubelet has not called within 30ms; if it does not watch " + n.dir.Path() + ", --registration=register is the way"
	waitFor(t, func() bool { return k.Stats.Unreachable.Load() >= 3 })
	k.until(t, func(s State) bool { return !s.Registered && !s.Session && s.Problem == says })
	if log := n.logs.String(); strings.Count(log, "kubelet has not called") != 1 || !strings.Contains(log, "level=WARN") {
		t.Errorf("want one warning:\n%s", log)
	}
	if got := len(n.State().Registrations); got != 0 {
		t.Errorf("%d registrations", got)
	}
}

func TestR12_DefaultRouteWorksWhereBothDirectoriesExist(t *testing.T) {
	n := newRegistryNode(t, fakekubelet.ByPath, false)
	n.dir = NewDir(n.Dir(), 0, n.log())
	n.run(n.dir.Run)
	must(t, n.Start())
	n.keep(widget, 10, DefaultTiming)
	n.eventually(healthy(widget, 10))
}

func TestRegistryThatIsMadeLater(t *testing.T) {
	n := newRegistryNode(t, fakekubelet.ByPath, true)
	must(t, os.Remove(n.dir.Path()))
	n.dir.lookForKubelet()
	k := n.keep(widget, 10, DefaultTiming)
	k.until(t, func(s State) bool { return s.Problem == "waiting for "+n.dir.Path() })
	must(t, n.Start()) // kubelet makes it
	n.eventually(healthy(widget, 10))
}

// Kubelet asks and dies before it tells the outcome.
func TestQuestionWithoutAVerdict(t *testing.T) {
	n := newRegistryNode(t, fakekubelet.ByPath, false)
	timing := DefaultTiming
	timing.Call, timing.Register = time.Hour, 30*time.Millisecond
	k := n.keep(widget, 10, timing)
	for range 3 {
		var before []string
		waitFor(t, func() bool { before = n.sockets(); return len(before) == 1 && !strings.HasPrefix(before[0], ".") })
		conn, err := grpc.NewClient("unix:"+filepath.Join(n.dir.Path(), before[0]), grpc.WithTransportCredentials(insecure.NewCredentials()))
		must(t, err)
		info, err := registerapi.NewRegistrationClient(conn).GetInfo(context.Background(), &registerapi.InfoRequest{})
		must(t, err)
		must(t, conn.Close())
		if info.Name != widget || info.Type != registerapi.DevicePlugin || info.Endpoint != "" {
			t.Errorf("info %v", info)
		}
		waitFor(t, func() bool { now := n.sockets(); return len(now) == 1 && now[0] != before[0] })
	}
	k.until(t, func(s State) bool { return strings.Contains(s.Problem, "told no outcome") })
}

func TestWatcherRouteEndsWithoutATrace(t *testing.T) {
	n := newRegistryNode(t, fakekubelet.ByPath, true)
	waiting := n.keep("example.com/waiting", 1, DefaultTiming)
	waitFor(t, func() bool { return len(n.sockets()) == 1 })
	waiting.stop()
	must(t, n.Start())
	k := n.keep(widget, 10, DefaultTiming)
	n.eventually(healthy(widget, 10))
	k.stop()
	if got := n.sockets(); len(got) != 0 {
		t.Errorf("sockets of ours: %v, want none", got)
	}
}
