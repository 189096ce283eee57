// Kubelet goes and comes back.
//
// SPDX-License-Identifier: Apache-2.0

package register

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/rdma-relay/rdma-relay/test/fakekubelet"
)

const widget = "example.com/widget"

func TestR3_EachKubeletRestartBringsTheListBack(t *testing.T) {
	for name, restart := range map[string]func(n *node) error{
		"streams end first":    func(n *node) error { return n.Restart() },
		"sockets wiped first":  func(n *node) error { return n.RestartReversed(context.Background(), 50*time.Millisecond) },
		"killed, then started": func(n *node) error { return firstError(n.Kill(), n.Start()) },
	} {
		t.Run(name, func(t *testing.T) {
			bothKubelets(t, func(t *testing.T, n *node) {
				must(t, n.Start())
				n.keep(widget, 10, DefaultTiming)
				n.eventually(healthy(widget, 10))
				for range 10 {
					must(t, restart(n))
					n.eventually(healthy(widget, 10))
				}
				for _, r := range n.State().Registrations {
					if r.Refused() {
						t.Errorf("a registration was refused: %v", r.Err)
					}
				}
			})
		})
	}
}

func TestR3_OldStreamsThatEndTwoSecondsLate(t *testing.T) {
	bothKubelets(t, func(t *testing.T, n *node) {
		must(t, n.Start())
		n.keep(widget, 10, DefaultTiming)
		n.eventually(healthy(widget, 10))
		must(t, n.RestartReversed(context.Background(), 2*time.Second))
		n.eventually(healthy(widget, 10))
	})
}

func TestR9_KubeletSocketAppearsThreeTimesInARow(t *testing.T) {
	bothKubelets(t, func(t *testing.T, n *node) {
		n.keep(widget, 10, DefaultTiming)
		must(t, n.Start())
		n.eventually(healthy(widget, 10))
		must(t, n.Rebind())
		must(t, n.Rebind())
		n.eventually(func(s fakekubelet.State) bool {
			return healthy(widget, 10)(s) && last(s).Bind == s.Bind()
		})
		perBind := map[int]int{}
		for _, r := range n.State().Registrations {
			perBind[r.Bind]++
		}
		for bind, count := range perBind {
			if count > 2 {
				t.Errorf("%d registrations on kubelet.sock number %d, want at most one extra", count, bind)
			}
		}
	})
}

func TestR10_KubeletThatIsNotThereYet(t *testing.T) {
	t.Run("empty directory", func(t *testing.T) {
		bothKubelets(t, func(t *testing.T, n *node) {
			k := n.keep(widget, 10, DefaultTiming)
			k.until(t, func(s State) bool { return s.Problem == "waiting for "+n.SocketPath() })
			must(t, n.Start())
			n.eventually(healthy(widget, 10))
		})
	})
	t.Run("no directory", func(t *testing.T) {
		n := newNode(t, fakekubelet.ByPath)
		must(t, os.Remove(n.Dir()))
		n.keep(widget, 10, DefaultTiming)
		must(t, n.Start())
		n.eventually(healthy(widget, 10))
	})
	t.Run("dead socket", func(t *testing.T) {
		bothKubelets(t, func(t *testing.T, n *node) {
			must(t, n.StaleSocket())
			k := n.keep(widget, 10, DefaultTiming)
			k.until(t, func(s State) bool { return strings.Contains(s.Problem, "connection refused") })
			must(t, n.Start())
			n.eventually(healthy(widget, 10))
		})
	})
	t.Run("slow answer", func(t *testing.T) {
		n := newNode(t, fakekubelet.ByPath)
		n.SlowRegister(time.Second)
		must(t, n.Start())
		n.keep(widget, 10, DefaultTiming)
		n.eventually(healthy(widget, 10))
		if got := len(n.State().Registrations); got != 1 {
			t.Errorf("%d registrations, want 1", got)
		}
	})
}

func TestDirectoryMadeAnew(t *testing.T) {
	bothKubelets(t, func(t *testing.T, n *node) {
		must(t, n.Start())
		n.keep(widget, 10, DefaultTiming)
		n.eventually(healthy(widget, 10))
		for range 3 {
			must(t, n.Kill())
			must(t, n.RecreateDirectory())
			must(t, n.Start())
			n.eventually(healthy(widget, 10))
		}
	})
}

func TestWithoutFileEventsThePollConverges(t *testing.T) {
	n := newNode(t, fakekubelet.ByPath)
	n.dir = NewDir(n.Dir(), 10*time.Millisecond, n.log())
	n.dir.notify = func() (*fsnotify.Watcher, error) { return nil, fmt.Errorf("too many open files") }
	n.run(n.dir.Run)
	must(t, n.Start())
	k := n.keep(widget, 10, DefaultTiming)
	n.eventually(healthy(widget, 10))
	for range 3 {
		must(t, n.Restart())
		n.eventually(healthy(widget, 10))
	}
	must(t, os.Remove(n.Dir()+"/"+n.sockets()[0]))
	n.eventually(func(s fakekubelet.State) bool { return len(s.SessionsOf(widget)) == 5 && healthy(widget, 10)(s) })
	k.until(t, func(s State) bool { return s.Registered && s.Session })
}

func TestOneRegistrationPerKubeletWhileTheSessionLives(t *testing.T) {
	bothKubelets(t, func(t *testing.T, n *node) {
		must(t, n.Start())
		k := n.keep(widget, 10, DefaultTiming)
		n.eventually(healthy(widget, 10))
		for i := range 5 {
			k.offer.Set(slots(i))
			n.eventually(fakekubelet.Listed(widget, i, i))
		}
		must(t, n.Restart())
		n.eventually(healthy(widget, 4))
		if got := len(n.State().Registrations); got != 2 {
			t.Errorf("%d registrations with two kubelets, want 2", got)
		}
	})
}

func last(s fakekubelet.State) fakekubelet.Registration {
	return s.Registrations[len(s.Registrations)-1]
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
