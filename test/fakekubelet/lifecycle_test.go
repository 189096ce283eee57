// SPDX-License-Identifier: Apache-2.0

package fakekubelet_test

// This file shows what a plugin sees of kubelet's starts and ends.

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rdma-relay/rdma-relay/test/fakekubelet"
)

func there(t *testing.T, path string) bool {
	t.Helper()
	_, err := os.Lstat(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return err == nil
}

func TestStartWipesSocketsAndNothingElse(t *testing.T) {
	dir := shortDir(t)
	check(t, os.MkdirAll(filepath.Join(dir, "sub"), 0o755))
	check(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	for _, name := range []string{"a.sock", "sub/b.sock"} {
		l, err := net.Listen("unix", filepath.Join(dir, name))
		check(t, err)
		defer func() { _ = l.Close() }()
	}
	k := fakekubelet.New(dir, fakekubelet.Options{})
	defer func() { check(t, k.Close()) }()
	check(t, k.StaleSocket())
	if _, err := net.Dial("unix", k.SocketPath()); err == nil {
		t.Fatal("somebody listens on the stale kubelet.sock")
	}
	check(t, k.Start())
	for name, want := range map[string]bool{"a.sock": false, "sub/b.sock": true, "file": true, "kubelet.sock": true} {
		if got := there(t, filepath.Join(dir, name)); got != want {
			t.Errorf("%s there: %t, want %t", name, got, want)
		}
	}
	if err := k.Start(); !errors.Is(err, fakekubelet.ErrRunning) {
		t.Errorf("second Start: %v", err)
	}
}

func TestStartMakesTheDirectoryForItsOwnerAndGroupOnly(t *testing.T) {
	k := start(t, fakekubelet.Options{})
	info, err := os.Stat(k.Dir())
	check(t, err)
	if info.Mode().Perm() != 0o750 {
		t.Errorf("mode %o", info.Mode().Perm())
	}
}

func TestEndsOfKubelet(t *testing.T) {
	for _, tc := range []struct {
		name       string
		end        func(*fakekubelet.Kubelet) error
		leavesSock bool
	}{
		{"stop unlinks kubelet.sock", (*fakekubelet.Kubelet).Stop, false},
		{"kill leaves kubelet.sock", (*fakekubelet.Kubelet).Kill, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k := start(t, fakekubelet.Options{})
			p := serve(t, k.Dir(), "p.sock", "w", 3)
			check(t, register(t, k, "p.sock"))
			wait(t, k, fakekubelet.Listed(widget, 3, 3))
			check(t, tc.end(k))
			s := k.State()
			if s.Running || s.Capacity(widget) != 0 || len(s.LiveSessions(widget)) != 0 {
				t.Errorf("after the end: %v", s)
			}
			if there(t, k.SocketPath()) != tc.leavesSock {
				t.Errorf("kubelet.sock there: %t", !tc.leavesSock)
			}
			if !there(t, p.path) {
				t.Error("the plugin's socket is gone before the next start")
			}
			check(t, k.Start())
			if there(t, p.path) {
				t.Error("the plugin's socket is still there after the start")
			}
			s = k.State()
			if s.Boot != 2 || s.Bind() != 2 || s.Capacity(widget) != 0 || len(s.SessionsOf(widget)) != 1 {
				t.Errorf("kubelet came back by itself: %v", s)
			}
			p.stop()
			p.listen(t)
			check(t, register(t, k, "p.sock"))
			wait(t, k, fakekubelet.Listed(widget, 3, 3))
			if n := len(k.State().RegistrationsAt(widget, 2)); n != 1 {
				t.Errorf("%d Registers at the second bind", n)
			}
		})
	}
}

func TestRestartEndsStreamsBeforeTheSocketsGo(t *testing.T) {
	k := start(t, fakekubelet.Options{})
	serve(t, k.Dir(), "p.sock", "w", 3)
	check(t, register(t, k, "p.sock"))
	wait(t, k, fakekubelet.Listed(widget, 3, 3))
	check(t, k.Restart())
	s := k.State()
	if end, bound := s.Sessions[0].Ended, s.Binds[1].At; end.IsZero() || !end.Before(bound) {
		t.Errorf("stream ended at %v, kubelet.sock bound at %v", end, bound)
	}
}

func TestReplaceKeepsOldStreamsUntilToldToEndThem(t *testing.T) {
	k := start(t, fakekubelet.Options{})
	p := serve(t, k.Dir(), "p.sock", "w", 3)
	check(t, register(t, k, "p.sock"))
	wait(t, k, fakekubelet.Listed(widget, 3, 3))
	endOld, err := k.Replace()
	check(t, err)
	if there(t, p.path) || !there(t, k.SocketPath()) {
		t.Error("sockets not wiped and kubelet.sock not made anew")
	}
	p.list(devices("w", 5))
	wait(t, k, func(s fakekubelet.State) bool { return len(s.ResponsesIn(1)) == 2 })
	if s := k.State(); s.Capacity(widget) != 0 || len(s.LiveSessions(widget)) != 1 {
		t.Errorf("the new kubelet took the old one's list: %v", s)
	}
	endOld()
	if n := len(k.State().LiveSessions(widget)); n != 0 {
		t.Errorf("%d live sessions", n)
	}
	check(t, k.RestartReversed(t.Context(), time.Millisecond))
}

func TestR9RebindKeepsSessionsAndCountsRegistersPerSocket(t *testing.T) {
	k := start(t, fakekubelet.Options{})
	serve(t, k.Dir(), "p.sock", "w", 3)
	serve(t, k.Dir(), "q.sock", "w", 3)
	check(t, register(t, k, "p.sock"))
	wait(t, k, fakekubelet.Listed(widget, 3, 3))
	before, err := os.Stat(k.SocketPath())
	check(t, err)
	check(t, k.Rebind())
	after, err := os.Stat(k.SocketPath())
	check(t, err)
	if before.ModTime().Equal(after.ModTime()) && os.SameFile(before, after) {
		t.Error("kubelet.sock is the same file")
	}
	s := k.State()
	if s.Boot != 1 || s.Bind() != 2 || len(s.LiveSessions(widget)) != 1 || s.Allocatable(widget) != 3 {
		t.Errorf("after rebind: %v", s)
	}
	check(t, register(t, k, "q.sock"))
	s = k.State()
	if len(s.RegistrationsAt(widget, 1)) != 1 || len(s.RegistrationsAt(widget, 2)) != 1 {
		t.Errorf("registrations: %v", s)
	}
}
