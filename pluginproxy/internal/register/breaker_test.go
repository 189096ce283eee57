// What nobody does on purpose, and what hits a node all the same.
//
// SPDX-License-Identifier: Apache-2.0

package register

import (
	"context"
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

// never waits long enough to believe that a condition does not come about.
func (n *node) never(cond func(fakekubelet.State) bool) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	if n.Wait(ctx, cond) == nil {
		n.t.Errorf("it has happened: %v\nlog:\n%s", n.State(), n.logs)
	}
}

// The keeper that dials finds the new kubelet.sock before the poll does.
func TestKubeletThatTheDirHasNotSeenYet(t *testing.T) {
	bothKubelets(t, func(t *testing.T, n *node) {
		must(t, n.Start())
		n.dir = NewDir(n.Dir(), time.Hour, n.log()) // and nobody runs it
		n.keep(widget, 10, DefaultTiming)
		n.eventually(healthy(widget, 10))
		must(t, n.Restart())
		n.eventually(healthy(widget, 10))
		n.never(func(s fakekubelet.State) bool { return len(s.Registrations) > 2 })
	})
}

// Without kubelet.sock nobody can be asked to take us back, and a session needs
// neither file.
func TestSessionOutlivesTheFilesAroundIt(t *testing.T) {
	for name, wipe := range map[string]func(n *node) error{
		"directory emptied":     func(n *node) error { return n.CleanDirectory() },
		"directory made anew":   func(n *node) error { return n.RecreateDirectory() },
		"own socket goes first": func(n *node) error { return firstError(n.RemovePluginSockets(), os.Remove(n.SocketPath())) },
	} {
		t.Run(name, func(t *testing.T) {
			bothKubelets(t, func(t *testing.T, n *node) {
				must(t, n.Start())
				n.keep(widget, 10, DefaultTiming)
				n.eventually(healthy(widget, 10))
				must(t, wipe(n))
				n.never(func(s fakekubelet.State) bool { return !healthy(widget, 10)(s) })
				must(t, n.Rebind())
				n.eventually(func(s fakekubelet.State) bool { return healthy(widget, 10)(s) && last(s).Bind == s.Bind() })
				if got := n.sockets(); len(got) != 1 {
					t.Errorf("sockets %v, want one", got)
				}
			})
		})
	}
}

func TestALongSessionEndsTheBackOffWhateverEndsIt(t *testing.T) {
	n := newNode(t, fakekubelet.ByPath)
	n.RefuseNext(5, nil) // the next wait would be 2.4 seconds or more
	must(t, n.Start())
	timing := DefaultTiming
	timing.Stable = time.Millisecond
	n.keep(widget, 10, timing)
	n.eventually(healthy(widget, 10))
	must(t, n.RemovePluginSockets())
	n.eventuallyWithin(2*time.Second, sessions(2, 10))
}

func TestSinceIsWhenTheStateChangedNotTheReason(t *testing.T) {
	n := newNode(t, fakekubelet.ByPath)
	k := n.keep(widget, 10, DefaultTiming)
	k.until(t, func(s State) bool { return strings.HasPrefix(s.Problem, "waiting for") })
	before, _ := k.State()
	must(t, n.StaleSocket())
	k.until(t, func(s State) bool { return strings.Contains(s.Problem, "connection refused") })
	if after, _ := k.State(); after.Since != before.Since {
		t.Errorf("since %v, then since %v", before.Since, after.Since)
	}
}

// As with a full disk or no file descriptors left: nothing that kubelet could be
// spared, and nothing new to say at each try.
func TestListenThatFailsIsSaidOnceAndTriedOften(t *testing.T) {
	n := newNode(t, fakekubelet.ByPath)
	must(t, n.Start())
	// On this way to the directory kubelet.sock fits into a socket's address, and
	// our names do not.
	long := n.Dir() + strings.Repeat("d", 90-len(n.Dir()))
	must(t, os.Symlink(n.Dir(), long))
	defer func() { _ = os.Remove(long) }()
	n.dir = NewDir(long, 0, n.log())
	n.run(n.dir.Run)
	k := n.keep(widget, 10, DefaultTiming)
	waitFor(t, func() bool { return k.Sockets.count.Load() >= 9 })
	if got := strings.Count(n.logs.String(), "no session with kubelet"); got != 1 {
		t.Errorf("said %d times, want once:\n%s", got, n.logs)
	}
}

// A kubelet that is stopped (SIGSTOP): the kernel still connects for it.
func TestKubeletThatHangs(t *testing.T) {
	n := newNode(t, fakekubelet.ByPath)
	socket := listen(t, n.SocketPath())
	defer func() { _ = socket.Close() }()
	timing := DefaultTiming
	timing.Register = 50 * time.Millisecond
	k := n.keep(widget, 10, timing)
	k.until(t, func(s State) bool { return strings.Contains(s.Problem, "has not answered") })
	if got := k.Stats.Refused.Load(); got != 0 {
		t.Errorf("%d registrations count as refused by a kubelet that says nothing", got)
	}
	// It wakes up, finds calls that were given up, and then one that was not.
	silent := &silentKubelet{calls: make(chan string, 100)}
	server := grpc.NewServer()
	pluginapi.RegisterRegistrationServer(server, silent)
	n.run(func(ctx context.Context) {
		defer context.AfterFunc(ctx, server.Stop)()
		_ = server.Serve(socket)
	})
	k.until(t, func(s State) bool { return s.Registered })
}

func TestEndComesSoonThoughKubeletHangs(t *testing.T) {
	n := newNode(t, fakekubelet.ByPath)
	socket := listen(t, n.SocketPath())
	defer func() { _ = socket.Close() }()
	k := n.keep(widget, 10, DefaultTiming)
	conn, err := socket.Accept()
	must(t, err)
	defer func() { _ = conn.Close() }()
	_, err = conn.Read(make([]byte, 1)) // the Register call is under way
	must(t, err)
	begin := time.Now()
	k.stop()
	if d := time.Since(begin); d > 2*time.Second {
		t.Errorf("it took %v", d)
	}
}

// Kubelet up to 1.36 forgets whatever client is registered under the name when a
// dial-back fails, so a call that is given up must be over before the next one.
func TestACallGivenUpIsOverBeforeTheNextOne(t *testing.T) {
	n := newNode(t, fakekubelet.ByName)
	n.SlowRegister(time.Hour)
	must(t, n.Start())
	n.keep(widget, 10, DefaultTiming)
	n.eventually(func(s fakekubelet.State) bool { return len(s.Registrations) == 1 })
	must(t, n.RemovePluginSockets())
	n.eventually(func(s fakekubelet.State) bool { return len(s.Registrations) == 2 })
	n.SlowRegister(0)
	n.eventually(healthy(widget, 10))
	calls := n.State().Registrations
	if gap := calls[1].At.Sub(calls[0].Answered); gap < DefaultTiming.Settle {
		t.Errorf("the second call came %v after the end of the first", gap)
	}
}

func TestStrangersSessionDoesNotKeepKubeletOut(t *testing.T) {
	bothKubelets(t, func(t *testing.T, n *node) {
		must(t, n.Start())
		n.keep(widget, 10, DefaultTiming)
		n.eventually(healthy(widget, 10))
		conn, err := grpc.NewClient("unix:"+filepath.Join(n.Dir(), n.sockets()[0]), grpc.WithTransportCredentials(insecure.NewCredentials()))
		must(t, err)
		defer func() { _ = conn.Close() }()
		stream, err := pluginapi.NewDevicePluginClient(conn).ListAndWatch(t.Context(), &pluginapi.Empty{})
		must(t, err)
		_, _ = stream.Recv() // a list, or that it was ended already
		n.eventually(sessions(2, 10))
	})
}
