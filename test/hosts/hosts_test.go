// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the files of testdata anew; look at the difference")

// golden compares with the file in testdata, or writes it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".txt")
	if *update {
		must(t, os.WriteFile(path, []byte(got), 0o644))
		return
	}
	want, err := os.ReadFile(path)
	must(t, err)
	if got == string(want) {
		return
	}
	g, w := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			t.Fatalf("line %d of %s (go test ./test/hosts -update writes it anew)\n got %q\nwant %q", i+1, path, g[i], w[i])
		}
	}
	t.Fatalf("%s has %d lines, want %d", path, len(g), len(w))
}

func TestHosts(t *testing.T) {
	for _, host := range All() {
		t.Run(host.Name, func(t *testing.T) {
			if host.About == "" || len(host.Facts) == 0 || len(configs[host.Name]) == 0 {
				t.Error("nothing tells what it is, where that was published, or how it is used")
			}
			n := newNode(t)
			_, err := host.Make(n.root())
			must(t, err)
			story, gets := n.story(configs[host.Name]...)
			golden(t, host.Name, "# "+host.About+"\n\n"+story)
			for _, r := range reports {
				if r.host == host.Name && gets[r.resource] != r.gets {
					t.Errorf("%s: a pod with %s gets\n%s, want\n%s", r.report, r.resource, gets[r.resource], r.gets)
				}
			}
		})
	}
}

// An archive of a host is the host, to both programs.
func TestReplayedHostsAreTheSame(t *testing.T) {
	for _, host := range All() {
		t.Run(host.Name, func(t *testing.T) {
			live, replay := newNode(t), newNode(t)
			_, err := host.Make(live.root())
			must(t, err)
			live.run("discoveryd", "capture", "-o", live.path("host.tar.gz"), "--host-root="+live.root())
			replay.unpack(live.path("host.tar.gz"))
			a, b := live.run("discoveryd", "list", "--host-root="+live.root()), replay.run("discoveryd", "list", "--host-root="+replay.root())
			if a != b {
				t.Errorf("host:\n%s\nreplay:\n%s", a, b)
			}
		})
	}
}

// TestRecordings replays what 'discoveryd capture' recorded on real kernels. rxe-6.12 is
// from the virtual machine of test/vm (TestRecordingGivesTheSameDevices).
func TestRecordings(t *testing.T) {
	archives, err := filepath.Glob("testdata/*.tar.gz")
	must(t, err)
	for _, archive := range archives {
		name := strings.TrimSuffix(filepath.Base(archive), ".tar.gz")
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.unpack(archive)
			story, _ := n.story(configs[name]...)
			golden(t, name, story)
		})
	}
}

// unpack makes the host of an archive.
func (n *node) unpack(archive string) {
	n.t.Helper()
	must(n.t, os.Mkdir(n.root(), 0o755))
	root, err := os.OpenRoot(n.root())
	must(n.t, err)
	defer root.Close()
	file, err := os.Open(archive)
	must(n.t, err)
	defer file.Close()
	unzip, err := gzip.NewReader(file)
	must(n.t, err)
	for r := tar.NewReader(unzip); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		must(n.t, err)
		switch h.Typeflag {
		case tar.TypeDir:
			must(n.t, root.MkdirAll(strings.TrimSuffix(h.Name, "/"), 0o755))
		case tar.TypeSymlink:
			must(n.t, root.Symlink(h.Linkname, h.Name))
		default:
			text, err := io.ReadAll(r)
			must(n.t, err)
			must(n.t, root.WriteFile(h.Name, text, 0o600))
		}
	}
}
