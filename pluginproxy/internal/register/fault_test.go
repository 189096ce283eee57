// A session breaks, or never comes, while kubelet lives.
//
// SPDX-License-Identifier: Apache-2.0

package register

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/rdma-relay/rdma-relay/test/fakekubelet"
)

// sessions is the condition that so many sessions of widget have been opened and
// the last one is the only one.
func sessions(count, devices int) func(fakekubelet.State) bool {
	return func(s fakekubelet.State) bool {
		return len(s.SessionsOf(widget)) == count && healthy(widget, devices)(s)
	}
}

func TestLostSessionComesBackWhileKubeletLives(t *testing.T) {
	for name, breakIt := range map[string]func(n *node) error{
		"stream dropped":     func(n *node) error { return n.DropStream(widget) },
		"connection cut":     func(n *node) error { return n.CutConnection(widget) },
		"own socket removed": func(n *node) error { return n.RemovePluginSockets() },
	} {
		t.Run(name, func(t *testing.T) {
			bothKubelets(t, func(t *testing.T, n *node) {
				must(t, n.Start())
				n.keep(widget, 10, DefaultTiming)
				n.eventually(healthy(widget, 10))
				must(t, breakIt(n))
				n.eventually(sessions(2, 10))
				answer, err := n.Allocate(context.Background(), widget, "3")
				if err != nil || answer.Envs["IDS"] != "3" {
					t.Errorf("Allocate after the return: %v, %v", answer, err)
				}
				if got := len(n.sockets()); got != 1 {
					t.Errorf("%d sockets of ours, want 1: %v", got, n.sockets())
				}
			})
		})
	}
}

// On kubelet up to 1.36 the reaper of the old endpoint stops whatever endpoint is
// current then. A Register that comes too early is stopped though its stream lives.
func TestKubeletThatIsSlowToReapTheOldSession(t *testing.T) {
	bothKubelets(t, func(t *testing.T, n *node) {
		n.SlowReap(30*time.Millisecond, 30*time.Millisecond, 30*time.Millisecond)
		must(t, n.Start())
		n.keep(widget, 10, DefaultTiming)
		n.eventually(healthy(widget, 10))
		must(t, n.DropStream(widget))
		n.eventually(sessions(2, 10))
		if _, err := n.Allocate(context.Background(), widget, "3"); err != nil {
			t.Error(err)
		}
	})
}

func TestR6_AnotherInstanceTakesOverAndLeaves(t *testing.T) {
	bothKubelets(t, func(t *testing.T, n *node) {
		must(t, n.Start())
		old := n.keep(widget, 10, DefaultTiming)
		n.eventually(healthy(widget, 10))
		n.keep(widget, 10, DefaultTiming)
		n.eventually(func(s fakekubelet.State) bool { return len(s.Registrations) >= 2 && last(s).Accepted() })
		old.stop()
		n.eventually(healthy(widget, 10))
	})
}

func TestR11_RefusedThreeTimesThenAccepted(t *testing.T) {
	bothKubelets(t, func(t *testing.T, n *node) {
		n.RefuseNext(3, errors.New("not now"))
		must(t, n.Start())
		k := n.keep(widget, 10, DefaultTiming)
		n.eventually(healthy(widget, 10))
		if got := k.Stats.Refused.Load(); got != 3 {
			t.Errorf("%d refusals counted, want 3", got)
		}
	})
}

func TestR11_RefusedForEverIsSaidOnceAndHarmsNoOther(t *testing.T) {
	n := newNode(t, fakekubelet.ByPath)
	must(t, n.Start())
	n.keep("example.com/other", 3, DefaultTiming)
	n.eventually(healthy("example.com/other", 3))
	n.RefuseNext(-1, errors.New("unsupported version"))
	k := n.keep(widget, 10, DefaultTiming)
	n.eventually(func(s fakekubelet.State) bool { return len(s.Registrations) >= 5 })
	k.until(t, func(s State) bool { return !s.Registered && strings.Contains(s.Problem, "unsupported version") })
	if got := strings.Count(n.logs.String(), "unsupported version"); got != 1 {
		t.Errorf("the refusal was logged %d times, want once:\n%s", got, n.logs)
	}
	n.eventually(healthy("example.com/other", 3))
	// Another kubelet is asked at once, whatever the back-off has grown to.
	n.RefuseNext(0, nil)
	must(t, n.Restart())
	n.eventually(healthy(widget, 10))
}

func TestDialBackThatFailsIsTriedAgain(t *testing.T) {
	bothKubelets(t, func(t *testing.T, n *node) {
		n.DialBackFails(2)
		must(t, n.Start())
		n.keep(widget, 10, DefaultTiming)
		n.eventually(healthy(widget, 10))
	})
}

func TestR14_EachResourceHasASessionOfItsOwn(t *testing.T) {
	n := newNode(t, fakekubelet.ByPath)
	must(t, n.Start())
	names := []string{"example.com/a", "example.com/b", "example.com/c"}
	for i, name := range names {
		n.keep(name, 10*(i+1), DefaultTiming)
	}
	for i, name := range names {
		n.eventually(healthy(name, 10*(i+1)))
	}
	must(t, n.DropStream("example.com/b"))
	n.eventually(func(s fakekubelet.State) bool {
		return len(s.SessionsOf("example.com/b")) == 2 && healthy("example.com/b", 20)(s)
	})
	for _, name := range []string{"example.com/a", "example.com/c"} {
		if got := len(n.State().SessionsOf(name)); got != 1 {
			t.Errorf("%s has had %d sessions, want 1", name, got)
		}
	}
}

func TestR18_SocketsOfADeadProcessAreRemovedAndNoOthers(t *testing.T) {
	n := newNode(t, fakekubelet.ByPath)
	file := func(name string) string { return filepath.Join(n.Dir(), name) }
	dead := listen(t, file("rdma-relay-dead-00000000-1.sock"))
	dead.SetUnlinkOnClose(false)
	must(t, dead.Close())
	foreign := listen(t, file("other-plugin.sock"))
	foreign.SetUnlinkOnClose(false)
	must(t, foreign.Close())
	living := listen(t, file("rdma-relay-living-00000000-1.sock"))
	defer func() { _ = living.Close() }()
	must(t, os.WriteFile(file("rdma-relay-file.sock"), nil, 0o600))

	// A Dir cleans when it first finds the directory; this one is another process's.
	n.run(NewDir(n.Dir(), 0, n.log()).Run)
	gone := func() bool { _, err := os.Lstat(file("rdma-relay-dead-00000000-1.sock")); return os.IsNotExist(err) }
	waitFor(t, gone)
	for _, name := range []string{"other-plugin.sock", "rdma-relay-living-00000000-1.sock", "rdma-relay-file.sock"} {
		if _, err := os.Lstat(file(name)); err != nil {
			t.Errorf("%s was removed", name)
		}
	}
}

func TestR22_DirectoryThatCannotBeWrittenForAWhile(t *testing.T) {
	n := newNode(t, fakekubelet.ByPath)
	must(t, n.Start())
	k := n.keep(widget, 10, DefaultTiming)
	n.eventually(healthy(widget, 10))
	// Root may write anywhere, so the way to our sockets is barred by taking the
	// directory's place: kubelet.sock stays reachable through a link.
	moved := n.Dir() + ".away"
	must(t, os.Rename(n.Dir(), moved))
	must(t, os.WriteFile(n.Dir(), nil, 0o600))
	must(t, n.DropStream(widget))
	k.until(t, func(s State) bool { return !s.Session && s.Problem != "" })
	must(t, os.Remove(n.Dir()))
	must(t, os.Rename(moved, n.Dir()))
	n.eventually(sessions(2, 10))
}

func TestKubeletThatAcceptsAndNeverOpensASession(t *testing.T) {
	n := newNode(t, fakekubelet.ByPath)
	silent := &silentKubelet{calls: make(chan string, 100)}
	server := grpc.NewServer()
	pluginapi.RegisterRegistrationServer(server, silent)
	socket := listen(t, n.SocketPath())
	n.run(func(ctx context.Context) {
		defer context.AfterFunc(ctx, server.Stop)()
		_ = server.Serve(socket)
	})
	timing := DefaultTiming
	timing.Session = 30 * time.Millisecond
	k := n.keep(widget, 10, timing)
	k.until(t, func(s State) bool { return strings.Contains(s.Problem, "opened no session within 30ms") })
	seen := map[string]bool{}
	for range 3 { // it goes on trying, each time under another name
		seen[<-silent.calls] = true
	}
	if len(seen) != 3 {
		t.Errorf("three registrations named %d endpoints, want 3", len(seen))
	}
}

// silentKubelet accepts registrations and does nothing.
type silentKubelet struct {
	pluginapi.UnimplementedRegistrationServer
	calls chan string
}

func (k *silentKubelet) Register(_ context.Context, r *pluginapi.RegisterRequest) (*pluginapi.Empty, error) {
	select {
	case k.calls <- r.Endpoint:
	default:
	}
	return &pluginapi.Empty{}, nil
}

func listen(t *testing.T, path string) *net.UnixListener {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	must(t, err)
	return l
}

// waitFor looks until a condition of the file system holds.
func waitFor(t *testing.T, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(within)
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("it has not happened within 5 s")
		}
	}
}

// Kubelet up to 1.36 does so when it reaps an older instance's session at the
// moment at which it has taken a newer one's registration.
func TestKubeletThatHangsUpBeforeTheSession(t *testing.T) {
	n := newNode(t, fakekubelet.ByPath)
	rude := &rudeKubelet{dir: n.Dir(), calls: make(chan string, 100)}
	server := grpc.NewServer()
	pluginapi.RegisterRegistrationServer(server, rude)
	socket := listen(t, n.SocketPath())
	n.run(func(ctx context.Context) {
		defer context.AfterFunc(ctx, server.Stop)()
		_ = server.Serve(socket)
	})
	timing := DefaultTiming
	timing.Session = time.Hour // it is not this that helps
	n.keep(widget, 10, timing)
	for range 3 {
		select {
		case <-rude.calls:
		case <-time.After(within):
			t.Fatalf("it waits for a session that nobody will open\nlog:\n%s", n.logs)
		}
	}
}

// rudeKubelet dials back, asks for the options, hangs up and accepts.
type rudeKubelet struct {
	pluginapi.UnimplementedRegistrationServer
	dir   string
	calls chan string
}

func (k *rudeKubelet) Register(ctx context.Context, r *pluginapi.RegisterRequest) (*pluginapi.Empty, error) {
	conn, err := grpc.NewClient("unix:"+filepath.Join(k.dir, r.Endpoint), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	if _, err := pluginapi.NewDevicePluginClient(conn).GetDevicePluginOptions(ctx, &pluginapi.Empty{}); err != nil {
		return nil, err
	}
	select {
	case k.calls <- r.Endpoint:
	default:
	}
	return &pluginapi.Empty{}, nil
}
