// A component of the cluster as a process with a log file.
//
// SPDX-License-Identifier: Apache-2.0

//go:build cluster

package cluster

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// programs is where the programs of build.sh lie.
func programs() string { return cmp.Or(os.Getenv("RDMA_RELAY_CLUSTER_BIN"), "../../../bin/cluster") }

// program is the absolute path of one of them.
func program(name string) (string, error) {
	path, err := filepath.Abs(filepath.Join(programs(), name))
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%w (make e2e-cluster builds it)", err)
	}
	return path, nil
}

// process is a child that is waited for.
type process struct {
	name   string
	log    string
	cmd    *exec.Cmd
	exited chan struct{} // closed when cmd.ProcessState is there
}

// start runs a program of build.sh; a second start appends to the same log.
func (c *cluster) start(name string, args ...string) (*process, error) {
	path, err := program(name)
	if err != nil {
		return nil, err
	}
	p := &process{name: name, log: filepath.Join(c.dir, "logs", name+".log"), exited: make(chan struct{})}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.cmd = exec.Command(path, args...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(path)+":"+os.Getenv("PATH")+":/usr/sbin:/sbin")
	// Not in the terminal's group: a ^C is for the tests, who end the rest.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		defer close(p.exited)
		_ = p.cmd.Wait() // the way it ended is read from ProcessState
	}()
	return p, nil
}

// kill is kill -9, and returns when the process is gone. May be called twice, and on
// a process that was never started.
func (p *process) kill() {
	if p == nil {
		return
	}
	_ = p.cmd.Process.Kill() // one that has gone already is what is wanted
	<-p.exited
}

// ended is an error with the end of the log when the process has ended by itself.
func (p *process) ended() error {
	select {
	case <-p.exited:
		return fmt.Errorf("%s ended: %v\n%s", p.name, p.cmd.ProcessState, tail(p.log, 20))
	default:
		return nil
	}
}

// tail is the last lines of a file, or why it can't be read.
func tail(path string, lines int) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
