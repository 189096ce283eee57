// The file and the directory change under the daemon.
//
// SPDX-License-Identifier: Apache-2.0

package cdi

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rdma-relay/rdma-relay/discoveryd/internal/notice"
	v1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scanning places the devices whenever a scan is due, as the daemon does.
func (d *daemon) scanning(devices ...*v1.Device) (scans func() int) {
	d.t.Helper()
	n := notice.New()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{}, 2)
	placed := make(chan int, 1)
	placed <- 0
	go func() {
		n.Run(ctx, discard(), d.Specs)
		ended <- struct{}{}
	}()
	go func() {
		for {
			d.Place(snapshot(devices...))
			placed <- 1 + <-placed
			select {
			case <-n.Due():
			case <-ctx.Done():
				ended <- struct{}{}
				return
			}
		}
	}()
	d.t.Cleanup(func() { cancel(); <-ended; <-ended })
	return func() int {
		count := <-placed
		placed <- count
		return count
	}
}

func (d *daemon) good() bool {
	content, _ := os.ReadFile(d.path)
	wanted, _ := describe(snapshot(hca(0, 0))).encode()
	return string(content) == string(wanted)
}

func TestSpecComesBackWhateverIsDoneToIt(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cdi")
	d := newDaemon(t, dir)
	d.scanning(hca(0, 0))
	eventually(t, "the spec", d.good)
	for name, harm := range map[string]func(){
		"removed":    func() { must(t, os.Remove(d.path)) },
		"edited":     func() { put(t, d.path, "{}") },
		"replaced":   func() { put(t, d.path+"~", "{}"); must(t, os.Rename(d.path+"~", d.path)) },
		"moved away": func() { must(t, os.Rename(d.path, d.path+"~")) },
		"directory removed": func() { // it may come back before it is quite gone
			eventually(t, "the directory's end", func() bool { return os.RemoveAll(dir) == nil })
		},
		"directory moved away": func() { must(t, os.Rename(dir, dir+"-old")) },
	} {
		for range 2 {
			harm()
			eventually(t, "the spec after: "+name, d.good)
			must(t, os.RemoveAll(dir+"-old"))
		}
	}
}

func TestOlderDaemonsSpecComesBackWhenTheNewerOneEnds(t *testing.T) {
	dir := t.TempDir()
	older := newDaemon(t, dir)
	older.scanning(hca(0, 0))
	eventually(t, "the spec", older.good)
	newer := newDaemon(t, dir)
	newer.place(hca(0, 3))
	newer.Remove()
	eventually(t, "the older daemon's spec", older.good)
}

func TestDirectoryThatComesLaterIsFound(t *testing.T) {
	parent := filepath.Join(t.TempDir(), "run")
	d := newDaemon(t, filepath.Join(parent, "cdi"))
	d.scanning(hca(0, 0))
	eventually(t, "the problem", d.broken)
	must(t, os.Mkdir(parent, 0o700))
	eventually(t, "the spec", d.good)
}

func TestOwnWritesAndOtherFilesAskForNoScan(t *testing.T) {
	dir := t.TempDir()
	d := newDaemon(t, dir)
	scans := d.scanning(hca(0, 0))
	calm := func() (count int) {
		t.Helper()
		count, since := -1, time.Now()
		eventually(t, "a calm moment", func() bool {
			if now := scans(); now != count {
				count, since = now, time.Now()
			}
			return time.Since(since) > 100*time.Millisecond
		})
		return count
	}
	eventually(t, "the spec", d.good)
	must(t, os.Remove(d.path)) // when it comes back the directory is being watched
	eventually(t, "the spec", d.good)
	before := calm()
	for range 20 {
		put(t, filepath.Join(dir, "nvidia.com-gpu.json"), "{}")
	}
	// Events come in order: when the last one is answered, the others were too.
	must(t, os.Remove(d.path))
	eventually(t, "the spec", d.good)
	if n := calm() - before; n != 1 {
		t.Errorf("%d scans, want one", n)
	}
}
