// What the tests of the commands share: this test's binary run as pluginproxy.
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rdma-relay/rdma-relay/test/fakedaemon"
)

// asProgram is set in the environment of a process that is to be pluginproxy.
const asProgram = "RDMA_RELAY_TEST_AS_PLUGINPROXY"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	goleak.VerifyTestMain(m)
}

const within = 15 * time.Second

// program is a running pluginproxy.
type program struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdout bytes.Buffer
	stderr logBuffer
	ended  chan struct{}
	err    error
}

// start runs pluginproxy with these arguments; it is killed when the test ends.
func start(t *testing.T, args ...string) *program {
	t.Helper()
	p := &program{t: t, cmd: exec.Command(os.Args[0], args...), ended: make(chan struct{})}
	// The race detector would wait for a second at each good end.
	p.cmd.Env = append(os.Environ(), asProgram+"=1", "GORACE=atexit_sleep_ms=0")
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	must(t, p.cmd.Start())
	go func() { defer close(p.ended); p.err = p.cmd.Wait() }()
	t.Cleanup(func() { _ = p.cmd.Process.Kill(); <-p.ended })
	return p
}

// run is start and wait.
func run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	p := start(t, args...)
	return p.wait(within), p.stdout.String(), p.stderr.String()
}

// wait gives the exit code.
func (p *program) wait(d time.Duration) int {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(d):
		p.t.Fatalf("it has not ended after %v\n%s", d, &p.stderr)
	}
	var exit *exec.ExitError
	if p.err != nil && !errors.As(p.err, &exit) {
		p.t.Fatal(p.err)
	}
	return p.cmd.ProcessState.ExitCode()
}

// says waits until the log holds the text.
func (p *program) says(text string) {
	p.t.Helper()
	until(p.t, text, func() bool { return strings.Contains(p.stderr.String(), text) }, &p.stderr)
}

// terminate sends SIGTERM and wants the end soon, with exit code 0.
func (p *program) terminate() {
	p.t.Helper()
	must(p.t, p.cmd.Process.Signal(syscall.SIGTERM))
	begin := time.Now()
	if code := p.wait(5 * time.Second); code != 0 {
		p.t.Errorf("exit code %d after SIGTERM\n%s", code, &p.stderr)
	}
	p.t.Logf("ended after %v", time.Since(begin))
}

// place is a directory for sockets and files.
type place struct {
	t   *testing.T
	dir string
}

func newPlace(t *testing.T) place {
	t.Helper()
	dir, err := os.MkdirTemp("", "pp") // t.TempDir's paths are too long for a socket
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return place{t, dir}
}

func (p place) path(name string) string { return filepath.Join(p.dir, name) }

// file writes a file and gives its path.
func (p place) file(name, text string) string {
	p.t.Helper()
	must(p.t, os.WriteFile(p.path(name), []byte(text), 0o600))
	return p.path(name)
}

// daemon starts one at discovery.sock.
func (p place) daemon(script fakedaemon.Script) (socket string) {
	p.t.Helper()
	d, err := fakedaemon.Start(p.path("discovery.sock"), script)
	must(p.t, err)
	p.t.Cleanup(d.Stop)
	return p.path("discovery.sock")
}

// good is a configuration of one resource.
const good = `{"configList":[{"resourceName":"hca","rdmaHcaMax":10,"selectors":{"vendors":["15b3"]}}]}`

func until(t *testing.T, what string, cond func() bool, log *logBuffer) {
	t.Helper()
	deadline := time.After(within)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not seen: %s\n%s", what, log)
		}
	}
}

// logBuffer is a log that may be read while it is written.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
