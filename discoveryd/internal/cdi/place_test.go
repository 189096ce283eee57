// The file over a daemon's life: devices that come and go, restarts, other files.
//
// SPDX-License-Identifier: Apache-2.0

package cdi

import (
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	v1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// At every step the file and the names of the snapshot describe the same devices.
func TestR64_SpecFollowsTheDevices(t *testing.T) {
	dir := t.TempDir()
	d := newDaemon(t, dir)
	wantNames(t, d.place())
	wantFiles(t, dir) // a spec without devices is no valid one
	d.wantProblem("")

	names := d.place(hca(0, 0))
	wantNames(t, names, "mlx5_0 0000:10:00.0")
	wantResolvable(t, dir, "0000:10:00.0")

	// Replaced by another card in the same slot, or its driver loaded again.
	names = d.place(hca(0, 7))
	wantNames(t, names, "mlx5_0 0000:10:00.0")
	if files, _ := inject(t, dir, names["mlx5_0"]); !slices.Contains(files, "uverbs7 c 231:199") || slices.Contains(files, "uverbs0 c 231:192") {
		t.Errorf("files %q", files)
	}

	d.place(hca(1, 1))
	wantResolvable(t, dir, "0000:11:00.0")
	d.place()
	wantFiles(t, dir)
	d.place(hca(1, 1))
	wantResolvable(t, dir, "0000:11:00.0")
	wantFiles(t, dir, FileName)
	if n := d.log.count("\n"); n != 1 {
		t.Errorf("%d lines, want only the first: %s", n, d.log.b.String())
	}
}

func TestUnchangedSpecIsNotWrittenAgain(t *testing.T) {
	dir := t.TempDir()
	d := newDaemon(t, dir)
	d.place(hca(0, 0))
	before, _, err := identify(fileAt(dir))
	must(t, err)
	down := hca(0, 0) // what the spec does not say may change
	down.Ports = []*v1.Port{{Number: 1, State: v1.PortState_PORT_STATE_DOWN}}
	d.place(down)
	after, _, err := identify(fileAt(dir))
	must(t, err)
	if before != after {
		t.Error("it was written again")
	}
}

func TestR66_RestartAndEndTouchNoFileOfOthers(t *testing.T) {
	dir := t.TempDir()
	foreign := map[string]string{
		"nvidia.com-gpu.json":         `{"cdiVersion":"0.5.0","kind":"nvidia.com/gpu","devices":[{"name":"0","containerEdits":{"env":["A=1"]}}]}`,
		"rdma-relay.dev-other.yaml":   "cdiVersion: 0.5.0\nkind: rdma-relay.dev/other\ndevices: [{name: x, containerEdits: {env: [A=1]}}]\n",
		"rdma-relay.dev-hca.json.bak": "mine",
		"rdma-relay.dev-hca.yaml":     "mine",
		".rdma-relay.dev-hca.json.x":  "mine",
		"broken.yaml":                 "{{{",
		"read-only.json":              "{}",
	}
	for name, text := range foreign {
		put(t, filepath.Join(dir, name), text)
	}
	must(t, os.Chmod(filepath.Join(dir, "read-only.json"), 0o400))
	check := func() {
		t.Helper()
		for name, text := range foreign {
			if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != text {
				t.Errorf("%s holds %q, %v", name, got, err)
			}
		}
		if got := len(listing(t, dir)); got > len(foreign)+1 {
			t.Errorf("left over: %q", listing(t, dir))
		}
	}

	// One was killed while it wrote, after it had placed two devices.
	dead := newDaemon(t, dir)
	dead.place(hca(0, 0), hca(1, 1))
	dead.kill()
	half := filepath.Join(dir, hiddenStart+"ABCDEFGH"+hiddenEnd)
	put(t, half, `{"cdiVersion`)
	old := time.Now().Add(-time.Minute)
	must(t, os.Chtimes(half, old, old))

	d := newDaemon(t, dir)
	d.place(hca(1, 4))
	check()
	wantResolvable(t, dir, "0000:11:00.0")
	if files, _ := inject(t, dir, prefix+"0000:11:00.0"); !slices.Contains(files, "uverbs4 c 231:196") {
		t.Errorf("files %q", files)
	}
	d.Remove()
	check()
	if _, err := os.Lstat(fileAt(dir)); err == nil {
		t.Error("the spec is still there")
	}
	d.Remove()
}

func TestKilledDaemonsSpecGoesWithItsDevices(t *testing.T) {
	dir := t.TempDir()
	dead := newDaemon(t, dir)
	dead.place(hca(0, 0))
	dead.kill()
	d := newDaemon(t, dir)
	d.place() // the devices were taken out meanwhile
	wantFiles(t, dir)
	d.wantProblem("")
}

func TestHalfWrittenFileOfALivingDaemonStays(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, hiddenStart+"ABCDEFGH"+hiddenEnd)
	file, err := os.Create(path)
	must(t, err)
	defer file.Close()
	must(t, unix.Flock(int(file.Fd()), unix.LOCK_EX))
	old := time.Now().Add(-time.Minute)
	must(t, os.Chtimes(path, old, old))
	newDaemon(t, dir).place(hca(0, 0))
	wantFiles(t, dir, filepath.Base(path), FileName)
}

func TestWhateverStandsInTheFilesPlace(t *testing.T) {
	for name, lay := range map[string]func(path string) error{
		"garbage":      func(path string) error { return os.WriteFile(path, []byte("\x00{{{"), 0o600) },
		"nothing":      func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"dead link":    func(path string) error { return os.Symlink("/none/there", path) },
		"fifo":         func(path string) error { return unix.Mkfifo(path, 0o600) },
		"unreadable":   func(path string) error { return os.WriteFile(path, []byte("x"), 0o000) },
		"link to file": func(path string) error { return os.Symlink("other", path) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			put(t, filepath.Join(dir, "other"), "untouched")
			must(t, lay(fileAt(dir)))
			d := newDaemon(t, dir)
			wantNames(t, d.place(hca(0, 0)), "mlx5_0 0000:10:00.0")
			wantResolvable(t, dir, "0000:10:00.0")
			d.Remove()
			wantFiles(t, dir, "other")
			if text, _ := os.ReadFile(filepath.Join(dir, "other")); string(text) != "untouched" {
				t.Errorf("the file behind the link holds %q", text)
			}
		})
	}
}

func TestFileIsReadableWhateverTheUmask(t *testing.T) {
	defer unix.Umask(unix.Umask(0o077))
	dir := t.TempDir()
	newDaemon(t, dir).place(hca(0, 0))
	info, err := os.Stat(fileAt(dir))
	must(t, err)
	if info.Mode().Perm() != 0o644 {
		t.Errorf("mode is %v", info.Mode())
	}
}

// Who opens the file finds one of the two specs as a whole.
func TestReadersNeverSeeHalfASpec(t *testing.T) {
	dir := t.TempDir()
	d := newDaemon(t, dir)
	both := [][]*v1.Device{{hca(0, 0)}, {hca(0, 0), hca(1, 1)}}
	whole := map[string]bool{}
	for _, devices := range both {
		content, err := describe(snapshot(devices...)).encode()
		must(t, err)
		whole[string(content)] = true
	}
	d.place(both[0]...)
	end, ended := make(chan struct{}), make(chan error)
	go func() {
		for {
			select {
			case <-end:
				ended <- nil
				return
			default:
			}
			file, err := os.Open(fileAt(dir))
			if err != nil {
				ended <- err
				return
			}
			content, err := io.ReadAll(file)
			_ = file.Close()
			if err != nil || !whole[string(content)] {
				ended <- &fs.PathError{Op: "half", Path: string(content), Err: err}
				return
			}
		}
	}()
	for i := range 50 {
		d.place(both[i%2]...)
	}
	close(end)
	must(t, <-ended)
}
