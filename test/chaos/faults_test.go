// What may go wrong. A fault that lasts comes with what ends it.
//
// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"syscall"
	"time"

	"github.com/rdma-relay/rdma-relay/test/fakehost"
	"github.com/rdma-relay/rdma-relay/test/fakekubelet"
)

// fault is one kind. hit does the harm and returns what ends it; nil when nothing of
// it lasts.
type fault struct {
	name string
	hit  func(n *node, r *rand.Rand) (end func() error, err error)
}

// once is a fault of which nothing lasts.
func once(name string, hit func(n *node, r *rand.Rand) error) fault {
	return fault{name, func(n *node, r *rand.Rand) (func() error, error) { return nil, hit(n, r) }}
}

// kubeletFaults all end in a kubelet that has to be served anew.
var kubeletFaults = []fault{
	once("kubelet is killed and starts at once", func(n *node, _ *rand.Rand) error {
		return n.restartKubelet()
	}),
	{"kubelet is killed and stays away", func(n *node, _ *rand.Rand) (func() error, error) {
		return n.kubelet.Start, n.killKubelet()
	}},
	{"kubelet ends and stays away", func(n *node, _ *rand.Rand) (func() error, error) {
		return n.kubelet.Start, n.kubelet.Stop()
	}},
	once("kubelet ends and starts at once", func(n *node, _ *rand.Rand) error { return n.kubelet.Restart() }),
	once("kubelet is killed twice within 5 ms", func(n *node, r *rand.Rand) error {
		err := n.restartKubelet()
		wait(r, 5*time.Millisecond)
		return errors.Join(err, n.restartKubelet())
	}),
	once("the new kubelet comes before the old one's connections end", func(n *node, r *rand.Rand) error {
		return n.kubelet.RestartReversed(n.t.Context(), upTo(r, 50*time.Millisecond))
	}),
	once("kubelet.sock is bound anew", func(n *node, _ *rand.Rand) error { return n.kubelet.Rebind() }),
	once("the directory is made anew", func(n *node, _ *rand.Rand) error {
		return errors.Join(n.kubelet.RecreateDirectory(), n.restartKubelet())
	}),
	once("the directory is emptied", func(n *node, _ *rand.Rand) error {
		return errors.Join(n.kubelet.CleanDirectory(), n.restartKubelet())
	}),
	once("the directory is another one", func(n *node, _ *rand.Rand) error { return n.replaceDirectory() }),
}

// otherFaults hit the sessions, the programs, the files and the hardware.
var otherFaults = []fault{
	once("a stream is dropped", func(n *node, r *rand.Rand) error { return n.kubelet.DropStream(n.resource(r)) }),
	once("a connection is cut", func(n *node, r *rand.Rand) error { return n.kubelet.CutConnection(n.resource(r)) }),
	once("a second session", func(n *node, r *rand.Rand) error {
		_, err := n.kubelet.SecondSession(n.resource(r))
		return err
	}),
	once("a second connection", func(n *node, r *rand.Rand) error {
		_, err := n.kubelet.SecondConnection(n.resource(r))
		return err
	}),
	{"kubelet stops reading a stream", func(n *node, r *rand.Rand) (func() error, error) {
		resource := n.resource(r)
		return func() error { n.kubelet.Resume(resource); return nil }, n.kubelet.Blackhole(resource)
	}},
	{"kubelet stops reading a connection", func(n *node, r *rand.Rand) (func() error, error) {
		resource := n.resource(r)
		return func() error { n.kubelet.Resume(resource); return nil }, n.kubelet.Freeze(resource)
	}},
	{"registrations are refused", func(n *node, r *rand.Rand) (func() error, error) {
		n.kubelet.RefuseNext(1+r.IntN(3), nil)
		return func() error { n.kubelet.RefuseNext(0, nil); return nil }, n.restartKubelet()
	}},
	{"kubelet is slow to register", func(n *node, r *rand.Rand) (func() error, error) {
		n.kubelet.SlowRegister(upTo(r, 50*time.Millisecond))
		return func() error { n.kubelet.SlowRegister(0); return nil }, n.restartKubelet()
	}},
	{"kubelet is slow to answer", func(n *node, r *rand.Rand) (func() error, error) {
		n.kubelet.SlowAnswer(upTo(r, 50*time.Millisecond))
		return func() error { n.kubelet.SlowAnswer(0); return nil }, n.restartKubelet()
	}},
	{"kubelet is slow to reap", func(n *node, r *rand.Rand) (func() error, error) {
		n.kubelet.SlowReap(upTo(r, 20*time.Millisecond), upTo(r, 20*time.Millisecond), upTo(r, 20*time.Millisecond))
		return func() error { n.kubelet.SlowReap(0, 0, 0); return nil }, n.kubelet.DropStream(n.resource(r))
	}},
	once("our sockets are removed", func(n *node, _ *rand.Rand) error { return n.kubelet.RemovePluginSockets() }),

	{"discoveryd is killed", func(n *node, _ *rand.Rand) (func() error, error) {
		n.discoveryd.kill()
		return n.discoveryd.start, nil
	}},
	{"discoveryd is terminated", func(n *node, _ *rand.Rand) (func() error, error) {
		return n.discoveryd.start, n.discoveryd.terminate()
	}},
	{"discoveryd hangs", func(n *node, _ *rand.Rand) (func() error, error) {
		return func() error { return n.discoveryd.signal(syscall.SIGCONT) }, n.discoveryd.signal(syscall.SIGSTOP)
	}},
	once("discoveryd's socket is removed", func(n *node, _ *rand.Rand) error { return os.Remove(n.path("d.sock")) }),
	{"pluginproxy is killed", func(n *node, _ *rand.Rand) (func() error, error) {
		n.proxy.kill()
		return n.proxy.start, nil
	}},
	{"pluginproxy is terminated", func(n *node, _ *rand.Rand) (func() error, error) {
		return n.proxy.start, n.proxy.terminate()
	}},
	{"pluginproxy hangs", func(n *node, _ *rand.Rand) (func() error, error) {
		return func() error { return n.proxy.signal(syscall.SIGCONT) }, n.proxy.signal(syscall.SIGSTOP)
	}},
	{"pluginproxy runs out of files", func(n *node, _ *rand.Rand) (func() error, error) { return n.proxy.fewFiles() }},
	{"discoveryd runs out of files", func(n *node, _ *rand.Rand) (func() error, error) { return n.discoveryd.fewFiles() }},

	once("another configuration", func(n *node, r *rand.Rand) error {
		return n.configure(settings{Pool: 1 + r.IntN(200), Each: 1 + r.IntN(20), Third: r.IntN(2) == 0})
	}),
	{"a broken configuration", func(n *node, _ *rand.Rand) (func() error, error) {
		return func() error { return n.configure(n.want.config) }, os.WriteFile(n.path("config.json"), []byte(`{"configList":[`), 0o600)
	}},

	once("a port goes down or comes up", func(n *node, r *rand.Rand) error { return n.flap(r.IntN(hcas), 1) }),
	once("a port flaps", func(n *node, r *rand.Rand) error { return n.flap(r.IntN(hcas), 1+r.IntN(20)) }),
	once("an HCA is unplugged or plugged", func(n *node, r *rand.Rand) error { return n.plug(r.IntN(hcas)) }),
	{"all HCAs are gone", func(n *node, _ *rand.Rand) (func() error, error) { return n.plugAll, n.unplugAll() }},
	once("an HCA is renamed", func(n *node, r *rand.Rand) error {
		i, to := r.IntN(hcas), fmt.Sprint("rocep", r.IntN(1e6))
		if !n.want.hcas[i].present {
			return nil
		}
		err := n.host.Rename(n.want.hcas[i].name, to)
		n.want.hcas[i].name = to
		return err
	}),
	once("an HCA's uverbs device has another number", func(n *node, r *rand.Rand) error {
		if h := n.want.hcas[r.IntN(hcas)]; h.present {
			return n.host.Renumber(h.name, 100+r.IntN(1e6))
		}
		return nil
	}),
}

// harmless are the errors of verbs that met nothing to do harm to.
var harmless = []error{fakekubelet.ErrNoSession, fakekubelet.ErrNotRunning, fakekubelet.ErrRunning, os.ErrNotExist, context.DeadlineExceeded}

func serious(err error) bool {
	for _, h := range harmless {
		if errors.Is(err, h) {
			return false
		}
	}
	return err != nil
}

func (n *node) killKubelet() error {
	n.kills++
	return n.kubelet.Kill()
}

// restartKubelet restarts it as a node does, where SIGTERM and SIGKILL are the same to
// the device manager.
func (n *node) restartKubelet() error { return errors.Join(n.killKubelet(), n.kubelet.Start()) }

// resource is one of those that are always there.
func (n *node) resource(r *rand.Rand) string { return []string{"rdma/pool", "rdma/each"}[r.IntN(2)] }

func (n *node) flap(i, times int) error {
	h := &n.want.hcas[i]
	if !h.present {
		return nil
	}
	for range times {
		h.active = !h.active
		state := map[bool]string{true: fakehost.StateActive, false: fakehost.StateDown}[h.active]
		if err := n.host.SetPortState(h.name, 1, state); err != nil {
			return err
		}
	}
	return nil
}

func (n *node) plug(i int) error {
	h := &n.want.hcas[i]
	if h.present {
		h.present, h.active = false, false
		return n.host.Remove(h.name)
	}
	h.name, h.present, h.active = fmt.Sprint("mlx5_", i), true, true
	return n.host.Add(fakehost.HCA{PCI: fmt.Sprintf("0000:%x0:00.0", i+1), Name: h.name, Index: i})
}

func (n *node) unplugAll() error {
	var all error
	for i := range n.want.hcas {
		if n.want.hcas[i].present {
			all = errors.Join(all, n.plug(i))
		}
	}
	return all
}

func (n *node) plugAll() error {
	var all error
	for i := range n.want.hcas {
		if !n.want.hcas[i].present {
			all = errors.Join(all, n.plug(i))
		}
	}
	return all
}

func upTo(r *rand.Rand, d time.Duration) time.Duration { return time.Duration(r.Int64N(int64(d))) }

// wait is a part of the schedule: it lets a chosen time pass between two faults, and
// nothing depends on what has happened by then.
func wait(r *rand.Rand, most time.Duration) { <-time.After(upTo(r, most)) }
