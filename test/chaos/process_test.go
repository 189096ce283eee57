// One of the two programs as a process that is killed, stopped and started again.
//
// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// binaries is the directory into which TestMain builds the programs.
var binaries string

func binary(name string) string { return filepath.Join(binaries, name) }

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "chaosbin")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binaries = dir
	build := exec.Command("go", "build", "-race", "-o", dir, "./discoveryd", "./pluginproxy")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the programs: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// process is a program that may run. Only one goroutine uses it.
type process struct {
	t    testing.TB
	log  string
	args []string
	cmd  *exec.Cmd
	gone chan struct{} // closed when cmd has ended
	said int64         // length of the log when cmd was started
}

// newProcess is a program that does not run yet; what it writes goes to the file log.
func newProcess(t testing.TB, log string, args ...string) *process {
	p := &process{t: t, log: log, args: args}
	t.Cleanup(func() { p.kill(); p.checkLog() })
	return p
}

func (p *process) name() string { return filepath.Base(p.args[0]) }

// start runs it, if it does not run.
func (p *process) start() error {
	if p.running() {
		return nil
	}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	said, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	cmd := exec.Command(p.args[0], p.args[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return err
	}
	gone := make(chan struct{})
	go func() { defer close(gone); _ = cmd.Wait() }()
	p.cmd, p.gone, p.said = cmd, gone, said
	return nil
}

// running tells whether it has been started and has not ended.
func (p *process) running() bool {
	if p.cmd == nil {
		return false
	}
	select {
	case <-p.gone:
		return false
	default:
		return true
	}
}

func (p *process) signal(s syscall.Signal) error {
	if !p.running() {
		return nil
	}
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// kill ends it as SIGKILL does, if it runs.
func (p *process) kill() {
	if p.running() {
		_ = p.signal(syscall.SIGKILL)
		<-p.gone
	}
}

// terminate ends it as a shutdown does: by SIGTERM, to exit code 0 within 5 s. The
// race detector and a busy machine get twice as long.
func (p *process) terminate() error {
	if !p.running() {
		return nil
	}
	// A process that is stopped would take no signal but SIGKILL.
	if err := errors.Join(p.signal(syscall.SIGCONT), p.signal(syscall.SIGTERM)); err != nil {
		return err
	}
	select {
	case <-p.gone:
	case <-time.After(10 * time.Second):
		return fmt.Errorf("%s has not ended within 10 s of SIGTERM", p.name())
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 && p.hasSpoken() {
		return fmt.Errorf("%s ended with exit code %d on SIGTERM", p.name(), code)
	}
	return nil
}

// hasSpoken tells whether cmd has written anything. One that has not was so young that
// it had not come to its handling of signals.
func (p *process) hasSpoken() bool {
	info, err := os.Stat(p.log)
	return err != nil || info.Size() > p.said
}

// fewFiles lets the process open just one more file. The returned function gives it
// back what it had.
func (p *process) fewFiles() (restore func() error, err error) {
	nothing := func() error { return nil }
	if !p.running() {
		return nothing, nil
	}
	pid := p.cmd.Process.Pid
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return nothing, err
	}
	var old unix.Rlimit
	few := unix.Rlimit{Cur: uint64(len(open)) + 1}
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &old); err != nil {
		return nothing, err
	}
	few.Max = old.Max
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &few, nil); err != nil {
		return nothing, err
	}
	return func() error {
		if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &old, nil); err != nil && !errors.Is(err, unix.ESRCH) {
			return err
		}
		return nil
	}, nil
}

// checkLog fails the test for what must never be in a log.
func (p *process) checkLog() {
	text, err := os.ReadFile(p.log)
	if err != nil {
		p.t.Error(err)
	}
	for _, bad := range []string{"DATA RACE", "panic:", "fatal error:"} {
		if i := bytes.Index(text, []byte(bad)); i >= 0 {
			p.t.Errorf("%s: %s", p.name(), text[i:min(len(text), i+4000)])
		}
	}
}
