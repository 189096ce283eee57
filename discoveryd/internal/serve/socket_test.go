// What others do to the socket's file while the daemon lives.
//
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rdma-relay/rdma-relay/discoveryd/internal/ask"
)

// startLooking starts a daemon that looks after its socket more often.
func startLooking(t *testing.T, opts Options) *daemon {
	t.Helper()
	return startWith(t, opts, func(d *Daemon) { d.socketCheck = 10 * time.Millisecond })
}

// reachable waits until the daemon answers on the socket.
func reachable(t *testing.T, socket string) {
	t.Helper()
	deadline := time.After(patience)
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for {
		_, err := ask.Snapshot(t.Context(), socket, patience)
		if err == nil {
			return
		}
		select {
		case <-again.C:
		case <-deadline:
			t.Fatal("nobody answers: ", err)
		}
	}
}

func TestRemovedSocketIsMadeAnewAndOpenStreamsLiveOn(t *testing.T) {
	host, socket := newHost(t)
	d := startLooking(t, options(host, socket))
	open := watch(t, socket)
	until(t, open, has("mlx5_0"))
	for range 3 {
		must(t, os.Remove(socket))
		reachable(t, socket)
	}
	must(t, host.Rename("mlx5_0", "rocep59s0f0"))
	until(t, open, has("rocep59s0f0"))
	must(t, d.stop())
	if files, err := filepath.Glob(filepath.Join(filepath.Dir(socket), "*.sock*")); err != nil || len(files) > 0 {
		t.Errorf("left behind: %v %v", files, err)
	}
}

func TestWhatTookTheSocketsPlaceIsLeftAloneAndOutwaited(t *testing.T) {
	host, socket := newHost(t)
	d := startLooking(t, options(host, socket))
	until(t, watch(t, socket), has("mlx5_0"))
	other := socket + ".other"
	must(t, os.WriteFile(other, []byte("not a socket"), 0o600))
	must(t, os.Rename(other, socket))
	const said = "can't be made anew"
	deadline := time.After(patience)
	for d.log.count(said) == 0 {
		select {
		case <-deadline:
			t.Fatal("nothing was said")
		case <-time.After(time.Millisecond):
		}
	}
	if text, err := os.ReadFile(socket); err != nil || string(text) != "not a socket" {
		t.Errorf("the file holds %q, %v", text, err)
	}
	must(t, os.Remove(socket))
	reachable(t, socket)
	if n := d.log.count(said); n != 1 {
		t.Errorf("said %d times", n)
	}
}
