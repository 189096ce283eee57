// Running the two programs: their logs, their end.
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// stopLimit is how long a program may take to end after SIGTERM; the design
// gives it 5 s.
const stopLimit = 10 * time.Second

// process is one of the two programs while it runs.
type process struct {
	name string
	log  *logFile
	pid  int
	done chan struct{} // closed when it has ended
	err  error         // why; to be read after done
}

// start runs a program with its log in a file. The caller stops it.
func start(path, name, logPath string, args ...string) (*process, error) {
	file, err := os.Create(logPath)
	if err != nil {
		return nil, err
	}
	p := &process{name: name, log: &logFile{file: file, grown: make(chan struct{})}, done: make(chan struct{})}
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = p.log, p.log
	// A group of its own keeps Ctrl-C from it: the demo ends things in order.
	// Should the demo be killed, the kernel ends it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	started := make(chan error)
	go func() {
		defer close(p.done)
		defer func() { _ = file.Close() }()
		runtime.LockOSThread() // Pdeathsig follows the thread (prctl(2))
		defer runtime.UnlockOSThread()
		if p.err = cmd.Start(); p.err == nil {
			p.pid = cmd.Process.Pid
		}
		started <- p.err
		if p.err == nil {
			p.err = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		<-p.done
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return p, nil
}

// stop asks the program to end and waits for it. An end with anything but 0 is an
// error.
func (p *process) stop() error {
	select {
	case <-p.done:
		return p.ended()
	default:
	}
	_ = syscall.Kill(p.pid, syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(stopLimit):
		_ = syscall.Kill(p.pid, syscall.SIGKILL)
		<-p.done
		return fmt.Errorf("%s did not end within %v of SIGTERM and was killed%s", p.name, stopLimit, p.log.tail())
	}
	if p.err != nil {
		return fmt.Errorf("%s: %w%s", p.name, p.err, p.log.tail())
	}
	return nil
}

// ended describes an end that nobody asked for.
func (p *process) ended() error {
	why := p.err
	if why == nil {
		why = errors.New("exit status 0")
	}
	return fmt.Errorf("%s ended by itself: %w%s", p.name, why, p.log.tail())
}

// logFile writes a program's output to a file, and can be searched meanwhile.
type logFile struct {
	mu    sync.Mutex
	file  *os.File
	text  bytes.Buffer
	grown chan struct{} // closed and made anew with each write
}

// Write takes output of the program.
func (l *logFile) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Write(b)
	close(l.grown)
	l.grown = make(chan struct{})
	return l.file.Write(b)
}

// get returns the lines so far, and a channel that is closed when there is more.
func (l *logFile) get() ([]string, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Split(strings.TrimSpace(l.text.String()), "\n"), l.grown
}

// tail is the end of the log for an error message.
func (l *logFile) tail() string {
	lines, _ := l.get()
	if lines[0] == "" {
		return " (its log is empty)"
	}
	return "\n    " + strings.Join(lines[max(0, len(lines)-8):], "\n    ")
}
