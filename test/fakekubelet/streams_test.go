// SPDX-License-Identifier: Apache-2.0

package fakekubelet_test

// This file shows the faults of live sessions, and what is recorded of them.

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rdma-relay/rdma-relay/test/fakekubelet"
)

func (p *plugin) lists() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sent
}

func TestResponsesAreRecordedInOrderWithTheirSession(t *testing.T) {
	k := start(t, fakekubelet.Options{})
	p := registered(t, k, 2)
	p.list(nil)
	wait(t, k, fakekubelet.Listed(widget, 0, 0))
	mixed := devices("w", 3)
	mixed[1].Health = "Unhealthy"
	p.list(mixed)
	wait(t, k, fakekubelet.Listed(widget, 3, 2))
	var got [][2]int
	last := k.State().Binds[0].At
	for _, r := range k.State().ResponsesIn(1) {
		if r.At.Before(last) || r.Resource != widget || r.Boot != 1 {
			t.Errorf("response %+v", r)
		}
		last = r.At
		got = append(got, [2]int{len(r.Devices), r.Healthy()})
	}
	if len(got) != 3 || got[0] != [2]int{2, 2} || got[1] != [2]int{0, 0} || got[2] != [2]int{3, 2} {
		t.Errorf("lists %v", got)
	}
	if r := k.State().Resources[widget]; len(r.Healthy) != 2 || len(r.Unhealthy) != 1 || r.Unhealthy[0] != "w1" {
		t.Errorf("resource %+v", r)
	}
}

func TestR1ABlackholedSessionTakesNothingWhileASecondOneIsServed(t *testing.T) {
	k := start(t, fakekubelet.Options{})
	p := registered(t, k, 2)
	check(t, k.Blackhole(widget))
	number, err := k.SecondSession(widget)
	check(t, err)
	for n := range 20 { // many rounds, so that a first session that is read would show
		p.list(devices("w", n))
		wait(t, k, fakekubelet.Listed(widget, n, n))
	}
	if n := len(k.State().ResponsesIn(number)); n < 20 {
		t.Errorf("%d lists in session %d", n, number)
	}
	if s := k.State(); len(s.ResponsesIn(1)) != 1 || !s.Sessions[0].Blackholed || !s.Sessions[0].Live() {
		t.Errorf("session 1: %+v", s.Sessions[0])
	}
}

func TestThePluginsEndShowsInABlackholeWhileKubeletMissesIt(t *testing.T) {
	for name, end := range map[string]func(*plugin){"of the stream": (*plugin).endStreams, "of the process": (*plugin).stop} {
		t.Run(name, func(t *testing.T) {
			k := start(t, fakekubelet.Options{})
			p := registered(t, k, 2)
			check(t, k.Blackhole(widget))
			end(p)
			wait(t, k, func(s fakekubelet.State) bool { return !s.Sessions[0].PluginEnded.IsZero() })
			if s := k.State(); s.Sessions[0].Live() || !s.Sessions[0].Ended.IsZero() || s.Allocatable(widget) != 2 {
				t.Errorf("session 1: %+v", s.Sessions[0])
			}
			k.Resume(widget)
			wait(t, k, fakekubelet.Listed(widget, 2, 0))
		})
	}
}

func TestKubeletsOwnEndIsNotThePlugins(t *testing.T) {
	k := start(t, fakekubelet.Options{})
	registered(t, k, 2)
	check(t, k.BlackholeSession(1))
	number, err := k.SecondSession(widget)
	check(t, err)
	check(t, k.DropSession(number)) // the last one that is read: kubelet closes the connection under the other
	wait(t, k, ended(2))
	for _, x := range k.State().Sessions {
		if !x.PluginEnded.IsZero() {
			t.Errorf("session %+v", x)
		}
	}
}

func TestBlackholeFillsTheWindowAndResumeEmptiesIt(t *testing.T) {
	k := start(t, fakekubelet.Options{})
	p := registered(t, k, 1)
	check(t, k.BlackholeSession(1))
	const flood = 100
	p.flood(flood, devices(strings.Repeat("x", 1000), 100))

	// Each Allocate goes over the same connection, so a sender that is not stuck gets on in the meantime.
	for same, sent := 0, 1; same < 100; same++ {
		_, err := k.Allocate(deadline(t), widget, "x")
		check(t, err)
		if now := p.lists(); now != sent || now < 2 {
			same, sent = 0, now
		}
	}
	if n := p.lists(); n >= flood {
		t.Errorf("the plugin could send all its %d lists", n)
	}
	if n := len(k.State().Responses); n != 1 {
		t.Errorf("%d lists were taken", n)
	}
	k.Resume(widget)
	wait(t, k, func(s fakekubelet.State) bool { return len(s.Responses) == 1+flood })
}

func TestFreezeHoldsBackTheWholeConnection(t *testing.T) {
	k := start(t, fakekubelet.Options{})
	p := registered(t, k, 1)
	check(t, k.Freeze(widget))
	p.list(devices("w", 2))
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := k.Allocate(ctx, widget, "w0"); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("Allocate: %v", err)
	}
	if n := len(k.State().Responses); n != 1 {
		t.Errorf("%d lists were taken", n)
	}
	k.Resume(widget)
	wait(t, k, fakekubelet.Listed(widget, 2, 2))
	_, err := k.Allocate(deadline(t), widget, "w0")
	check(t, err)
}

func TestSecondSessionLeavesTheFirstOpen(t *testing.T) {
	for name, second := range map[string]func(*fakekubelet.Kubelet, string) (int, error){
		"on the same connection": (*fakekubelet.Kubelet).SecondSession,
		"on a new connection":    (*fakekubelet.Kubelet).SecondConnection,
	} {
		t.Run(name, func(t *testing.T) {
			k := start(t, fakekubelet.Options{})
			p := registered(t, k, 2)
			number, err := second(k, widget)
			check(t, err)
			wait(t, k, func(s fakekubelet.State) bool { return len(s.ResponsesIn(number)) == 1 })
			if n := len(k.State().LiveSessions(widget)); n != 2 {
				t.Fatalf("%d live sessions", n)
			}
			check(t, k.DropSession(1))
			wait(t, k, ended(1))
			p.list(devices("w", 5))
			wait(t, k, fakekubelet.Listed(widget, 5, 5))
			if n := len(k.State().Registrations); n != 1 {
				t.Errorf("%d Registers", n)
			}
			check(t, k.DropStream(widget))
			wait(t, k, fakekubelet.Listed(widget, 5, 0))
		})
	}
}

func TestStreamVerbsNeedASession(t *testing.T) {
	k := start(t, fakekubelet.Options{})
	second := func(f func(string) (int, error)) error { _, err := f(widget); return err }
	for name, err := range map[string]error{
		"DropStream":       k.DropStream(widget),
		"DropSession":      k.DropSession(1),
		"CutConnection":    k.CutConnection(widget),
		"Blackhole":        k.Blackhole(widget),
		"BlackholeSession": k.BlackholeSession(1),
		"Freeze":           k.Freeze(widget),
		"SecondSession":    second(k.SecondSession),
		"SecondConnection": second(k.SecondConnection),
	} {
		if !errors.Is(err, fakekubelet.ErrNoSession) {
			t.Errorf("%s: %v", name, err)
		}
	}
	k.Resume(widget)
}
