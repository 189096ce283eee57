// What kubelet's device manager does by itself, which our rules rest upon. Where 1.36
// and 1.37 differ the test says so; docs/kubelet-versions.md tells it in words.
//
// SPDX-License-Identifier: Apache-2.0

package k8s

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

const widget = "test.example/widget"

// When ListAndWatch ends kubelet closes the connection it ran on, whatever the reason,
// and by itself never calls again.
func TestFactEndOfAStreamClosesItsConnection(t *testing.T) {
	for name, reason := range map[string]error{"good end": nil, "error": errors.New("some reason")} {
		t.Run(name, func(t *testing.T) {
			k := startKubelet(t, shortDir(t))
			p := servePlugin(t, k.dir, "w.sock", 4)
			p.mustRegister(widget)
			s := p.stream()
			k.wait(widget, full(4))
			begin := time.Now()
			s.finish <- reason
			closed := receive(t, "kubelet closes the connection", p.conns.closed)
			t.Logf("handler left → connection closed: %v", closed.Sub(begin))
			k.wait(widget, counts{4, 0})
			select {
			case <-p.streams:
				t.Error("kubelet called ListAndWatch again")
			case <-time.After(500 * time.Millisecond):
			}
			if open := p.conns.open.Load(); open != 0 {
				t.Errorf("%d connections are open", open)
			}
		})
	}
}

// A stop closes the connections; the files stay until the next start takes every
// socket of the directory away.
func TestFactStartWipesSockets(t *testing.T) {
	k := startKubelet(t, shortDir(t))
	p := servePlugin(t, k.dir, "w.sock", 4)
	p.mustRegister(widget)
	s := p.stream()
	k.wait(widget, full(4))
	// The checkpoint is written after the list has come into force.
	eventually(t, "the checkpoint", nil, func() error {
		_, err := os.Stat(filepath.Join(k.dir, "kubelet_internal_checkpoint"))
		return errors.Unwrap(err)
	})
	begin := time.Now()
	k.stop()
	t.Logf("stop → stream ended: %v", receive(t, "end of the stream", s.ended).Sub(begin))
	if _, err := os.Lstat(filepath.Join(k.dir, "w.sock")); err != nil {
		t.Errorf("after the stop: %v", err)
	}
	k.start()
	if _, err := os.Lstat(filepath.Join(k.dir, "w.sock")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after the start: %v, want the file gone", err)
	}
	if c := k.counts(widget); c != full(0) {
		t.Errorf("after the start: %v, want %v: known from the checkpoint, none healthy", c, full(0))
	}
}

// A second Register on a path that kubelet still holds.
func TestFactSecondRegisterOnTheSamePath(t *testing.T) {
	k := startKubelet(t, shortDir(t))
	p := servePlugin(t, k.dir, "w.sock", 4)
	p.mustRegister(widget)
	first := p.stream()
	k.wait(widget, full(4))
	err := p.register(widget)
	if kubeletRelease != "1.36" {
		// Refused, and the path is poisoned: the end of the first stream, which stays
		// open, will not be noticed.
		if err == nil {
			t.Fatal("accepted")
		}
		t.Log(err)
		first.push <- 3
		k.wait(widget, full(3))
		first.finish <- nil
		expectNothing(t, "close of the connection", p.conns.closed)
		if c := k.counts(widget); c != full(3) {
			t.Errorf("%v after the end of the stream, want %v still", c, full(3))
		}
		if err := p.register(widget); err == nil {
			t.Error("a later Register on that path was accepted")
		}
		return
	}
	// Accepted, on a second connection. The end of the first stream closes the
	// second connection, and the first one is never closed.
	if err != nil {
		t.Fatal(err)
	}
	second := p.stream()
	first.finish <- nil
	receive(t, "end of the second stream", second.ended)
	k.wait(widget, counts{4, 0})
	expectNothing(t, "close of the first connection", afterOne(t, p.conns.closed))
	if open := p.conns.open.Load(); open != 1 {
		t.Errorf("%d connections are open, want the leaked first", open)
	}
}

// A second Register from another path, as in a rolling update: both streams stay
// open and each message of either replaces the whole list.
func TestFactSecondRegisterOnAnotherPath(t *testing.T) {
	k := startKubelet(t, shortDir(t))
	older, newer := servePlugin(t, k.dir, "a.sock", 4), servePlugin(t, k.dir, "b.sock", 2)
	older.mustRegister(widget)
	olderStream := older.stream()
	k.wait(widget, full(4))
	newer.mustRegister(widget)
	newerStream := newer.stream()
	k.wait(widget, full(2))
	olderStream.push <- 4
	k.wait(widget, full(4))
	if err := k.admit(podWith("a", widget, 1)); err != nil || newer.allocations.Load() != 1 {
		t.Errorf("Allocate: %v, newer plugin was asked %d times, want 1", err, newer.allocations.Load())
	}

	olderStream.finish <- nil
	if kubeletRelease != "1.36" {
		// The newer one is not touched; the list stays the last that anybody sent.
		receive(t, "close of the older connection", older.conns.closed)
		expectNothing(t, "end of the newer stream", newerStream.ended)
		k.wait(widget, full(4))
		if err := k.admit(podWith("b", widget, 1)); err != nil {
			t.Error(err)
		}
		return
	}
	// The newer one is cut off instead of the older.
	receive(t, "end of the newer stream", newerStream.ended)
	k.wait(widget, counts{4, 0})
	expectNothing(t, "close of the older connection", older.conns.closed)
}

// Each Register that fails after the dial-back leaves its connection open for ever.
func TestFactRefusedRegisterLeaksItsConnection(t *testing.T) {
	if kubeletRelease == "1.36" {
		t.Skip("1.36 refuses none that it could dial")
	}
	k := startKubelet(t, shortDir(t))
	p := servePlugin(t, k.dir, "w.sock", 4)
	p.mustRegister(widget)
	k.wait(widget, full(4))
	const refused = 20
	for range refused {
		if err := p.register(widget); err == nil {
			t.Fatal("accepted")
		}
	}
	expectNothing(t, "close of any connection", p.conns.closed)
	if open := p.conns.open.Load(); open != refused+1 {
		t.Errorf("%d connections are open, want %d", open, refused+1)
	}
}

// expectNothing waits a moment for what must not come.
func expectNothing[T any](t testing.TB, what string, c <-chan T) {
	t.Helper()
	select {
	case <-c:
		t.Errorf("%s: not expected", what)
	case <-time.After(300 * time.Millisecond):
	}
}

// afterOne takes the one value that is expected.
func afterOne[T any](t testing.TB, c <-chan T) <-chan T {
	t.Helper()
	receive(t, "the expected one", c)
	return c
}
