// A kubelet that can be killed: the device manager in a process of its own. Unlike
// Stop, a death leaves kubelet.sock lying there and closes nothing in good order.
//
// SPDX-License-Identifier: Apache-2.0

package k8s

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

// kubeletProcessDir names the environment variable that makes this test binary
// a kubelet over that directory.
const kubeletProcessDir = "RDMA_RELAY_TEST_KUBELET_DIR"

// runKubeletProcess writes the counts of all resources to stdout, a line of JSON
// whenever they have changed, until it is killed.
func runKubeletProcess(dir string) error {
	m, err := startManager(dir, func() []*v1.Pod { return nil })
	if err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	last := map[string]counts{}
	if err := out.Encode(last); err != nil {
		return err
	}
	for range time.Tick(500 * time.Microsecond) {
		now := countsOf(m)
		if maps.Equal(now, last) {
			continue
		}
		last = now
		if err := out.Encode(last); err != nil {
			return fmt.Errorf("the test is gone: %w", err)
		}
	}
	return nil
}

// kubeletProcess is the test's view of it.
type kubeletProcess struct {
	*process
	mu   sync.Mutex
	last map[string]counts
}

// startKubeletProcess returns when the process listens on kubelet.sock.
func startKubeletProcess(t testing.TB, dir string) *kubeletProcess {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), kubeletProcessDir+"="+dir)
	lines, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	k := &kubeletProcess{process: startProcess(t, "kubelet", cmd)}
	started := make(chan struct{})
	read := make(chan struct{})
	go func() {
		defer close(read)
		for s := bufio.NewScanner(lines); s.Scan(); {
			now := map[string]counts{}
			if err := json.Unmarshal(s.Bytes(), &now); err != nil {
				continue // the last line of a killed process may be cut
			}
			k.mu.Lock()
			if k.last == nil {
				close(started)
			}
			k.last = now
			k.mu.Unlock()
		}
	}()
	t.Cleanup(func() { k.kill(); <-read })
	receive(t, "start of the kubelet process", started)
	return k
}

// all returns the counts of all resources, in a map that is not written to any more.
func (k *kubeletProcess) all() map[string]counts {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.last
}

func (k *kubeletProcess) wait(resource string, want counts) time.Duration {
	k.t.Helper()
	return eventually(k.t, "capacity and allocatable of "+resource, want, func() counts {
		if c, ok := k.all()[resource]; ok {
			return c
		}
		return absent
	})
}

func (k *kubeletProcess) waitFull(resources []string, n int) time.Duration {
	k.t.Helper()
	return waitFull(k.t, resources, n, k.all)
}
