// The two real binaries as processes that a test starts, stops and kills.
//
// SPDX-License-Identifier: Apache-2.0

package k8s

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// binary is where one of our programs lies.
func binary(t testing.TB, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(cmp.Or(os.Getenv("RDMA_RELAY_BIN"), "../../bin"), name))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("%s is not there: run make build, or set RDMA_RELAY_BIN", path)
	}
	return path
}

// process is a child that is waited for and does not outlive its test.
type process struct {
	t      testing.TB
	name   string
	cmd    *exec.Cmd
	log    tail
	exited chan struct{} // closed when cmd.ProcessState is there
}

func startProcess(t testing.TB, name string, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, name: name, cmd: cmd, exited: make(chan struct{})}
	cmd.Stderr = &p.log
	if cmd.Stdout == nil {
		cmd.Stdout = &p.log
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.exited)
		// The way it ended is read from ProcessState.
		_ = cmd.Wait()
	}()
	logOnFailure(t, name, &p.log)
	t.Cleanup(p.kill)
	return p
}

// kill is kill -9, and returns when the process is gone. May be called twice.
func (p *process) kill() {
	// A process that has already gone is what is wanted.
	_ = p.cmd.Process.Kill()
	<-p.exited
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatalf("send %v to %s: %v", s, p.name, err)
	}
}

// terminate sends SIGTERM and demands exit 0 within the 5 s that both programs
// promise.
func (p *process) terminate() {
	p.t.Helper()
	const promised = 5 * time.Second
	p.signal(syscall.SIGTERM)
	begin := time.Now()
	select {
	case <-p.exited:
	case <-time.After(promised):
		p.t.Errorf("%s still runs %v after SIGTERM", p.name, promised)
		return
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		p.t.Errorf("%s ended with %v after SIGTERM, want exit 0", p.name, p.cmd.ProcessState)
	}
	p.t.Logf("%s ended %v after SIGTERM", p.name, time.Since(begin).Round(time.Millisecond))
}

// running waits for the first line of log, before which a process is not yet able to
// end in good order, and fails the test when it has ended by itself.
func (p *process) running() {
	p.t.Helper()
	eventually(p.t, p.name+" has logged something", true, func() bool { return p.log.String() != "" })
	select {
	case <-p.exited:
		p.t.Fatalf("%s ended by itself: %v", p.name, p.cmd.ProcessState)
	default:
	}
}
