// The command line, run as its own process.
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rdma-relay/rdma-relay/test/fakehost"
)

// asCommand makes the test binary be the program.
const asCommand = "DISCOVERYD_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
	}
	os.Exit(m.Run())
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), asCommand+"=1")
	return cmd
}

// run returns what the command has printed and its exit code.
func run(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := command(t, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// newHost is a fake host in a directory with a short path, and that directory.
func newHost(t *testing.T) (host *fakehost.Host, dir string) {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "dd")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	host, err = fakehost.Mini(filepath.Join(dir, "host"))
	must(t, err)
	return host, dir
}

func TestExitCodes(t *testing.T) {
	host, dir := newHost(t)
	file := filepath.Join(dir, "file")
	must(t, os.WriteFile(file, nil, 0o600))
	long := filepath.Join(dir, strings.Repeat("x", 120))
	root := "--host-root=" + host.Root()
	for _, test := range []struct {
		args string
		code int
		says string
	}{
		{"version", 0, ""},
		{"--help", 0, ""},
		{"serv", 2, "serv"},
		{"list now", 2, "no arguments"},
		{"list -o xml", 2, "table, wide, json or yaml"},
		{"list --nope", 2, "--nope"},
		{"list --host-root=/none", 2, "/none/sys"},
		{"list --host-root=" + dir, 2, dir + "/sys"},
		{"list " + root, 0, ""},
		{"list " + root + " --socket=/none", 2, "one of the two"},
		{"list --socket=/none/s.sock", 1, "/none/s.sock"},
		{"probe --socket=" + file, 1, file},
		{"probe --socket=" + dir + "/none", 1, "no such file"},
		{"serve --log-level=loud " + root, 2, "loud"},
		{"serve --log-format=xml " + root, 2, "xml"},
		{"serve --resync-interval=10ms " + root, 2, "1s"},
		{"serve --allow-uids=-1 " + root, 2, "-1"},
		{"serve --allow-uids=root " + root, 2, "root"},
		{"serve --host-root=/none --socket=" + dir + "/s", 2, "/none/sys"},
		{"serve " + root + " --socket=" + long, 2, "too long"},
		{"serve " + root + " --socket=" + file, 1, "not a socket but a regular file"},
		{"serve " + root + " --socket=" + host.Root(), 1, "not a socket but a directory"},
		{"serve " + root + " --socket=" + file + "/s.sock", 1, "not a directory"},
		{"serve " + root + " --socket=" + dir + "/none/s.sock", 1, "no such file"},
		{"serve " + root + " --socket=/proc/s.sock", 1, "/proc"},
	} {
		_, stderr, code := run(t, strings.Fields(test.args)...)
		if code != test.code || !strings.Contains(stderr, test.says) || (code != 0) != (stderr != "") {
			t.Errorf("%s: exit %d, want %d; says %q, want %q", test.args, code, test.code, stderr, test.says)
		}
		if strings.Count(stderr, "\n") > 1 && !strings.Contains(stderr, "Did you mean") {
			t.Errorf("%s: says more than one line: %q", test.args, stderr)
		}
	}
}

// serveInBackground starts the daemon and waits until it answers.
func serveInBackground(t *testing.T, args ...string) (end func() (stderr string, code int)) {
	t.Helper()
	cmd := command(t, append([]string{"serve"}, args...)...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	must(t, cmd.Start())
	return func() (string, int) {
		t.Helper()
		must(t, cmd.Process.Signal(syscall.SIGTERM))
		_ = cmd.Wait()
		return errs.String(), cmd.ProcessState.ExitCode()
	}
}

func probe(t *testing.T, socket string) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; {
		_, stderr, code := run(t, "probe", "--socket="+socket)
		if code == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(stderr)
		}
	}
}

func TestServeListProbeAndSIGTERM(t *testing.T) {
	host, dir := newHost(t)
	socket := filepath.Join(dir, "d.sock")
	uid := syscall.Getuid()
	end := serveInBackground(t, "--socket="+socket, "--host-root="+host.Root(), "--log-format=json", "--allow-uids=0,"+strconv.Itoa(uid))
	probe(t, socket)

	asked, _, code := run(t, "list", "-o", "json", "--socket="+socket)
	scanned, _, code2 := run(t, "list", "-o", "json", "--host-root="+host.Root())
	var a, b struct {
		InstanceID string `json:"instance_id"`
		Generation string `json:"generation"`
		Devices    any    `json:"devices"`
	}
	must(t, json.Unmarshal([]byte(asked), &a))
	must(t, json.Unmarshal([]byte(scanned), &b))
	if code != 0 || code2 != 0 || a.InstanceID == "" || a.Generation != "1" || b.InstanceID != "" {
		t.Errorf("asked %s, scanned %s", asked, scanned)
	}
	if one, other := compact(t, a.Devices), compact(t, b.Devices); one != other {
		t.Errorf("the daemon sees\n%s\na scan sees\n%s", one, other)
	}
	if _, stderr, code := run(t, "serve", "--socket="+socket, "--host-root="+host.Root()); code != 1 || !strings.Contains(stderr, "in use by a living process") {
		t.Errorf("a second daemon: exit %d, %s", code, stderr)
	}

	stderr, code := end()
	if code != 0 {
		t.Errorf("exit %d: %s", code, stderr)
	}
	for line := range strings.Lines(stderr) {
		if !json.Valid([]byte(line)) {
			t.Errorf("not JSON: %s", line)
		}
	}
	if _, err := os.Lstat(socket); !os.IsNotExist(err) {
		t.Errorf("the socket is still there: %v", err)
	}
}

func TestR18_KilledDaemonDoesNotBlockTheNext(t *testing.T) {
	host, dir := newHost(t)
	socket := filepath.Join(dir, "d.sock")
	args := []string{"--socket=" + socket, "--host-root=" + host.Root(), "--allow-uids=" + strconv.Itoa(syscall.Getuid())}
	cmd := command(t, append([]string{"serve"}, args...)...)
	must(t, cmd.Start())
	probe(t, socket)
	must(t, cmd.Process.Kill())
	_ = cmd.Wait()
	if _, err := os.Lstat(socket); err != nil {
		t.Fatal("nothing is left to be replaced")
	}
	end := serveInBackground(t, args...)
	probe(t, socket)
	if stderr, code := end(); code != 0 {
		t.Errorf("exit %d: %s", code, stderr)
	}
}

func compact(t *testing.T, v any) string {
	t.Helper()
	out, err := json.Marshal(v)
	must(t, err)
	return string(out)
}
