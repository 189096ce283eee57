// A user that kubelet's directory and socket were not made for.
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/rdma-relay/rdma-relay/test/fakekubelet"
)

func TestR74_DirectoryOfAnotherUser(t *testing.T) {
	uid := os.Geteuid()
	s := &serving{place: newPlace(t)}
	s.Kubelet = fakekubelet.New(s.path("dp"), fakekubelet.Options{})
	t.Cleanup(func() { must(t, s.Close()) })
	s.daemon()
	must(t, s.Start())
	must(t, os.Chmod(s.path("dp"), 0o000))
	t.Cleanup(func() { _ = os.Chmod(s.path("dp"), 0o700) })

	// The test's own binary lies where nobody else may go.
	binary, err := os.ReadFile(os.Args[0])
	must(t, err)
	must(t, os.WriteFile(s.path("pluginproxy"), binary, 0o700))
	p := &program{t: t, ended: make(chan struct{})}
	p.cmd = exec.CommandContext(t.Context(), s.path("pluginproxy"), "serve", "--config", s.file("config.json", good),
		"--discovery-socket", s.path("discovery.sock"), "--device-plugins-dir", s.path("dp"), "--metrics-address=")
	if uid == 0 { // for whom no mode is a barrier
		uid = 65532
		for _, name := range []string{"", "pluginproxy", "config.json", "discovery.sock"} {
			must(t, os.Chmod(s.path(name), 0o777))
		}
		p.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
	}
	p.cmd.Dir = "/"
	p.cmd.Env = append(os.Environ(), asProgram+"=1", "GORACE=atexit_sleep_ms=0")
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	must(t, p.cmd.Start())
	go func() { defer close(p.ended); p.err = p.cmd.Wait() }()
	t.Cleanup(func() { _ = p.cmd.Process.Kill(); <-p.ended })
	s.program = p

	once := func(words ...string) {
		t.Helper()
		until(t, words[0], func() bool {
			for line := range strings.Lines(p.stderr.String()) {
				if strings.Contains(line, "no session with kubelet") && all(line, words) {
					return true
				}
			}
			return false
		}, &p.stderr)
	}
	who := fmt.Sprintf("as uid %d", uid)
	once("permission denied", who, "stat", s.SocketPath())
	must(t, os.Chmod(s.SocketPath(), 0o000))
	must(t, os.Chmod(s.path("dp"), 0o755))
	once("connect: permission denied", who, s.SocketPath())
	must(t, os.Chmod(s.path("dp"), 0o777))
	must(t, os.Chmod(s.SocketPath(), 0o777))
	s.eventually(fakekubelet.Listed(hca, 10, 10))
	if got := strings.Count(p.stderr.String(), "no session with kubelet"); got > 3 {
		t.Errorf("%d lines about the session, want one for each reason:\n%s", got, &p.stderr)
	}
	p.terminate()
}

func all(line string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(line, w) {
			return false
		}
	}
	return true
}
