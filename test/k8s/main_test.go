// What all tests here share: kubelet's log, waiting, short directories.
//
// SPDX-License-Identifier: Apache-2.0

package k8s

import (
	"fmt"
	"io"
	"os"
	"sync"
	"testing"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/metrics"
)

// patience bounds each wait for something that must come. It is far above what
// anything here takes, so that only a hang or a lost update reaches it.
const patience = 20 * time.Second

// kubeletLog takes what kubelet's packages log in this process.
var kubeletLog tail

func TestMain(m *testing.M) {
	klog.LogToStderr(false)
	// The file of each severity gets those above it too: one file is enough.
	klog.SetOutput(io.Discard)
	klog.SetOutputBySeverity("INFO", &kubeletLog)
	metrics.Register()
	if dir := os.Getenv(kubeletProcessDir); dir != "" {
		if err := runKubeletProcess(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(run(m))
}

// run keeps all short directories in one that goes away at the end: a manager that was
// stopped may still write its checkpoint, and makes the directory again for that.
func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "k8s")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		for range 10 {
			_ = os.RemoveAll(dir)
			<-time.After(200 * time.Millisecond)
			if _, err := os.Lstat(dir); err != nil {
				return
			}
		}
	}()
	shortDirs = dir
	return m.Run()
}

// tail keeps the end of a log.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const tailBytes = 16 << 10

func (w *tail) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = append(w.text, p...)
	if over := len(w.text) - tailBytes; over > 0 {
		w.text = append(w.text[:0], w.text[over:]...)
	}
	return len(p), nil
}

func (w *tail) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return string(w.text)
}

// logOnFailure shows a log when the test has failed, and never otherwise.
func logOnFailure(t testing.TB, name string, log fmt.Stringer) {
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of the log of %s:\n%s", name, log)
		}
	})
}

// eventually waits until got returns want and says how long that took.
func eventually[T comparable](t testing.TB, what string, want T, got func() T) time.Duration {
	t.Helper()
	begin := time.Now()
	tick := time.NewTicker(500 * time.Microsecond)
	defer tick.Stop()
	for {
		have := got()
		if have == want {
			return time.Since(begin)
		}
		if time.Since(begin) > patience {
			t.Fatalf("%s: %v after %v, want %v", what, have, patience, want)
		}
		<-tick.C
	}
}

// receive waits for a value that must come.
func receive[T any](t testing.TB, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("%s: nothing within %v", what, patience)
	}
	var none T // not reached
	return none
}

// shortDirs is where shortDir makes its directories.
var shortDirs string

// shortDir is a t.TempDir whose path leaves room for a socket name: the kernel takes
// 107 bytes (struct sockaddr_un, unix(7)) and t.TempDir spends many on the test's name.
func shortDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp(shortDirs, "")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
