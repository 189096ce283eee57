// The command capture, as its own process.
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestCapture(t *testing.T) {
	host, dir := newHost(t)
	root := "--host-root=" + host.Root()
	archive := filepath.Join(dir, "host.tar.gz")
	for _, test := range []struct {
		name string
		args string
		code int
		says string // on standard error
	}{
		{"no file named", root, 2, "-o: give the file to write"},
		{"no host", "--host-root=" + dir + " -o " + archive, 2, "no host there"},
		{"no directory", root + " -o " + filepath.Join(dir, "nowhere/x"), 1, "no such file or directory"},
		{"arguments", root + " x", 2, "takes no arguments"},
		{"first", root + " -o " + archive, 0, "1 RDMA devices, "},
		{"again", root + " -o " + archive, 2, "host.tar.gz: exists already; --force replaces a regular file"},
		{"again with force", root + " --force -o " + archive, 0, "Look into it before you send it: tar xzOf " + archive + " capture.txt"},
		{"over a device", root + " --force -o /dev/null", 2, "is not a regular file"},
	} {
		t.Run(test.name, func(t *testing.T) {
			stdout, stderr, code := run(t, append([]string{"capture"}, strings.Fields(test.args)...)...)
			if code != test.code || stdout != "" || !strings.Contains(stderr, test.says) {
				t.Errorf("exit code %d, printed %q and\n%s", code, stdout, stderr)
			}
		})
	}
	written, err := os.ReadFile(archive)
	must(t, err)
	stdout, stderr, code := run(t, "capture", root, "-o", "-")
	if code != 0 || stdout != string(written) || !strings.Contains(stderr, "replaced: 1 GUIDs") {
		t.Errorf("exit code %d, %d bytes for %d, and\n%s", code, len(stdout), len(written), stderr)
	}

	// What the documentation says to do with it.
	replay := filepath.Join(dir, "replay")
	must(t, os.Mkdir(replay, 0o755))
	tar, err := exec.LookPath("tar")
	if err != nil {
		t.Skip("no tar here")
	}
	if out, err := exec.CommandContext(t.Context(), tar, "xf", archive, "-C", replay).CombinedOutput(); err != nil {
		t.Fatalf("tar: %v\n%s", err, out)
	}
	live, _, _ := run(t, "list", root)
	again, _, _ := run(t, "list", "--host-root="+replay)
	if live != again || !strings.Contains(again, "mlx5_0") {
		t.Errorf("list prints\n%s and of the replay\n%s", live, again)
	}
}
