// SPDX-License-Identifier: Apache-2.0

package fakekubelet_test

// This file shows the two book-keepings: what a second Register and the end of a stream do to a resource.

import (
	"strings"
	"testing"
	"time"

	"github.com/rdma-relay/rdma-relay/test/fakekubelet"
)

var (
	byPath = fakekubelet.Options{Bookkeeping: fakekubelet.ByPath}
	byName = fakekubelet.Options{Bookkeeping: fakekubelet.ByName}
)

// registered starts a plugin on p.sock, registers it and waits for its n devices.
func registered(t *testing.T, k *fakekubelet.Kubelet, n int) *plugin {
	t.Helper()
	p := serve(t, k.Dir(), "p.sock", "w", n)
	check(t, register(t, k, "p.sock"))
	wait(t, k, fakekubelet.Listed(widget, n, n))
	return p
}

func TestEndOfStreamMarksUnhealthyAndNobodyCallsAgain(t *testing.T) {
	for _, opts := range []fakekubelet.Options{byPath, byName} {
		for name, end := range map[string]func(*fakekubelet.Kubelet, *plugin){
			"plugin returns":       func(_ *fakekubelet.Kubelet, p *plugin) { p.endStreams() },
			"plugin dies":          func(_ *fakekubelet.Kubelet, p *plugin) { p.stop() },
			"stream is dropped":    func(k *fakekubelet.Kubelet, _ *plugin) { check(t, k.DropStream(widget)) },
			"session is dropped":   func(k *fakekubelet.Kubelet, _ *plugin) { check(t, k.DropSession(1)) },
			"connection is broken": func(k *fakekubelet.Kubelet, _ *plugin) { check(t, k.CutConnection(widget)) },
		} {
			t.Run(opts.Bookkeeping.String()+" "+name, func(t *testing.T) {
				k := start(t, opts)
				p := registered(t, k, 3)
				end(k, p)
				wait(t, k, fakekubelet.Listed(widget, 3, 0))
				s := k.State()
				if n := len(s.Sessions); n != 1 {
					t.Errorf("%d sessions", n)
				}
				r := s.Resources[widget]
				if !r.Stopped || len(r.Unhealthy) != 3 || !r.Devices[0].Healthy() {
					t.Errorf("resource %+v", r)
				}
				if _, err := k.Allocate(deadline(t), widget, "w0"); err == nil || !strings.Contains(err.Error(), "stopped") {
					t.Errorf("Allocate: %v", err)
				}
			})
		}
	}
}

func TestCapacityRunsOutAfterTheGraceTimeAndTheKeyStays(t *testing.T) {
	opts := byPath
	opts.StopGrace = 50 * time.Millisecond
	k := start(t, opts)
	registered(t, k, 3)
	lost := time.Now()
	check(t, k.DropStream(widget))
	wait(t, k, fakekubelet.Listed(widget, 3, 0))
	wait(t, k, fakekubelet.Listed(widget, 0, 0))
	if after := time.Since(lost); after < opts.StopGrace {
		t.Errorf("capacity ran out after %v", after)
	}
	if _, ok := k.State().Resources[widget]; !ok {
		t.Error("the node status lost the key")
	}
	serve(t, k.Dir(), "q.sock", "q", 2)
	check(t, register(t, k, "q.sock"))
	wait(t, k, fakekubelet.Listed(widget, 2, 2))
}

func TestByPathASecondRegisterOnAHeldPathPoisonsIt(t *testing.T) {
	k := start(t, byPath)
	p := registered(t, k, 4)
	refused := func() {
		t.Helper()
		if err := register(t, k, "p.sock"); err == nil || !strings.Contains(err.Error(), "device plugin already connected") {
			t.Fatalf("Register: %v", err)
		}
	}
	refused()
	p.list(devices("w", 3))
	wait(t, k, fakekubelet.Listed(widget, 3, 3)) // the old stream still feeds
	p.stop()
	wait(t, k, reaped(1))
	p.listen(t)
	refused()
	if s := k.State(); s.Allocatable(widget) != 3 {
		t.Errorf("the dead plugin's devices are gone: %v", s)
	}
	serve(t, k.Dir(), "q.sock", "q", 2)
	check(t, register(t, k, "q.sock"))
	wait(t, k, fakekubelet.Listed(widget, 2, 2))
	check(t, k.Restart())
	p.stop()
	p.listen(t)
	check(t, register(t, k, "p.sock"))
}

func TestByPathTwoPluginsOfAResource(t *testing.T) {
	k := start(t, byPath)
	p := registered(t, k, 4)
	q := serve(t, k.Dir(), "q.sock", "q", 2)
	check(t, register(t, k, "q.sock"))
	wait(t, k, fakekubelet.Listed(widget, 2, 2))
	if n := len(k.State().LiveSessions(widget)); n != 2 {
		t.Fatalf("%d live sessions, want the older one to stay", n)
	}
	p.list(devices("w", 5)) // whoever pushes last wins
	wait(t, k, fakekubelet.Listed(widget, 5, 5))
	allocate := func(want *plugin) {
		t.Helper()
		resp, err := k.Allocate(deadline(t), widget, "w0")
		check(t, err)
		if got := resp.Envs["SOCKET"]; got != want.path {
			t.Errorf("Allocate went to %s, want %s", got, want.path)
		}
	}
	allocate(q) // the newest registrant
	q.stop()
	wait(t, k, func(s fakekubelet.State) bool { return s.Resources[widget].Endpoint == p.path })
	if s := k.State(); s.Allocatable(widget) != 5 {
		t.Errorf("promotion changed the list: %v", s)
	}
	allocate(p)
	p.stop()
	wait(t, k, fakekubelet.Listed(widget, 5, 0))
}

func TestR6ByNameTheOlderStreamsEndDisconnectsTheNewerPlugin(t *testing.T) {
	k := start(t, byName)
	p := registered(t, k, 4)
	serve(t, k.Dir(), "q.sock", "q", 2)
	check(t, register(t, k, "q.sock"))
	wait(t, k, fakekubelet.Listed(widget, 2, 2))
	p.stop()
	wait(t, k, fakekubelet.All(fakekubelet.Listed(widget, 2, 0), reaped(2)))
	check(t, register(t, k, "q.sock")) // the key is free again
	wait(t, k, fakekubelet.Listed(widget, 2, 2))
}

func TestByNameARegisterWhileTheOldOneIsReapedIsStoppedThoughItsStreamLives(t *testing.T) {
	k := start(t, byName)
	p := registered(t, k, 4)
	q := serve(t, k.Dir(), "q.sock", "q", 2)
	k.SlowReap(0, 0, time.Hour)
	p.endStreams()
	<-p.connClosed
	check(t, register(t, k, "q.sock"))
	wait(t, k, fakekubelet.Listed(widget, 2, 2))
	k.SlowReap(0, 0, 0)
	wait(t, k, func(s fakekubelet.State) bool { return s.Resources[widget].Stopped })
	if s := k.State(); len(s.LiveSessions(widget)) != 1 || s.Allocatable(widget) != 0 {
		t.Errorf("want a live session without healthy devices: %v", s)
	}
	q.list(devices("q", 3)) // numbers come back with the next list, Allocate does not
	wait(t, k, fakekubelet.Listed(widget, 3, 3))
	if _, err := k.Allocate(deadline(t), widget, "q0"); err == nil {
		t.Error("Allocate works on a stopped endpoint")
	}
}

func TestByNameARegisterBeforeTheLookupIsDisconnected(t *testing.T) {
	k := start(t, byName)
	p := registered(t, k, 4)
	serve(t, k.Dir(), "q.sock", "q", 2)
	k.SlowReap(time.Hour, 0, 0)
	p.stop()
	wait(t, k, ended(1))
	check(t, register(t, k, "q.sock"))
	k.SlowReap(0, 0, 0)
	wait(t, k, fakekubelet.All(ended(2), func(s fakekubelet.State) bool { return s.Resources[widget].Stopped }))
}

func TestAFailedRegisterDropsTheOlderClientOfItsKey(t *testing.T) {
	for _, tc := range []struct {
		name      string
		opts      fakekubelet.Options
		endpoint  string
		forgotten bool
	}{
		{"by name on another path", byName, "nobody.sock", true},
		{"by path on another path", byPath, "nobody.sock", false},
		{"by path on the same path", byPath, "p.sock", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k := start(t, tc.opts)
			registered(t, k, 4)
			k.DialBackFails(1)
			k.SetDialTimeout(20 * time.Millisecond)
			if err := register(t, k, tc.endpoint); err == nil {
				t.Fatal("accepted")
			}
			check(t, k.DropStream(widget))
			wait(t, k, reaped(1))
			if got := k.State().Allocatable(widget) == 4; got != tc.forgotten {
				t.Errorf("the end was overlooked: %t", got)
			}
		})
	}
}
