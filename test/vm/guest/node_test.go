// The two programs and a kubelet, as on a node.
//
// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
	"github.com/rdma-relay/rdma-relay/test/fakekubelet"
)

// The resources of every node here, over all virtual devices.
const (
	pool = "rdma/pool" // ten slots, healthy while a device is there
	each = "rdma/each" // two slots a device, healthy while its port is active
)

const config = `{"configList":[
 {"resourceName":"pool","rdmaHcaMax":10,"selectors":{"functions":["virtual"]}},
 {"resourceName":"each","rdmaHcaMax":2,"sharing":"perDevice","selectors":{"functions":["virtual"]}}]}`

// node is a host with both programs and a kubelet.
type node struct {
	t       testing.TB
	dir     string
	netns   netns
	kubelet *fakekubelet.Kubelet
	daemon  *process
	proxy   *process
	watch   *watch
	args    []string // of discoveryd, besides the usual ones
}

// netns says in which network name space discoveryd runs.
type netns bool

const (
	hostNetns netns = false
	podNetns  netns = true
)

// startNode returns when kubelet has both resources, whatever their numbers.
func startNode(t testing.TB, where netns, args ...string) *node {
	t.Helper()
	dir, err := os.MkdirTemp("", "node")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	n := &node{t: t, dir: dir, netns: where, args: args}
	must(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o600))
	n.kubelet = fakekubelet.New(filepath.Join(dir, "dp"), fakekubelet.Options{})
	t.Cleanup(func() { must(t, n.kubelet.Close()) })
	must(t, n.kubelet.Start())
	n.startDaemon()
	n.proxy = start(t, "pluginproxy", syscall.SysProcAttr{}, "serve", "--config="+filepath.Join(dir, "config.json"), "--discovery-socket="+n.socket(),
		"--device-plugins-dir="+n.kubelet.Dir(), "--metrics-address=127.0.0.1:9837")
	n.watch = newWatch(t, n.socket())
	n.await("registration", func(s fakekubelet.State) bool {
		return len(s.LiveSessions(pool)) == 1 && len(s.LiveSessions(each)) == 1
	})
	return n
}

func (n *node) socket() string { return filepath.Join(n.dir, "d.sock") }

func (n *node) startDaemon() {
	n.t.Helper()
	attr := syscall.SysProcAttr{}
	if n.netns == podNetns {
		attr.Cloneflags = unix.CLONE_NEWNET // the host's /sys stays mounted
	}
	n.daemon = start(n.t, "discoveryd", attr, append([]string{"serve", "--socket=" + n.socket()}, n.args...)...)
	eventually(n.t, "discoveryd's socket", func() bool { return exists(n.socket()) })
}

// await waits for a state of kubelet.
func (n *node) await(what string, cond func(fakekubelet.State) bool) time.Duration {
	n.t.Helper()
	begin := time.Now()
	ctx, cancel := context.WithTimeout(n.t.Context(), patience)
	defer cancel()
	if err := n.kubelet.Wait(ctx, cond); err != nil {
		n.t.Fatalf("%s: %v\nsnapshot: %v", what, err, n.watch.last())
	}
	return time.Since(begin)
}

// listed waits until kubelet has so many slots of a resource, and healthy ones.
func (n *node) listed(resource string, capacity, healthy int) time.Duration {
	n.t.Helper()
	return n.await(fmt.Sprintf("%s with %d of %d", resource, healthy, capacity), fakekubelet.Listed(resource, capacity, healthy))
}

// devices waits until the snapshot has usable RDMA devices of just these names.
func (n *node) devices(names ...string) *discoveryv1.Snapshot {
	n.t.Helper()
	return n.watch.await(fmt.Sprintf("devices %v", names), func(s *discoveryv1.Snapshot) bool {
		return equal(deviceNames(s), names)
	}).snapshot
}

// get asks pluginproxy's HTTP server.
func (n *node) get(path string) string {
	n.t.Helper()
	req, err := http.NewRequestWithContext(n.t.Context(), http.MethodGet, "http://127.0.0.1:9837"+path, nil)
	must(n.t, err)
	resp, err := http.DefaultClient.Do(req)
	must(n.t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	must(n.t, err)
	return string(body)
}

// process is one of the programs.
type process struct {
	t    testing.TB
	name string
	cmd  *exec.Cmd
	log  log
	dead chan struct{}
	err  error // after dead
}

// start runs a program until the test's end, when it must end well by SIGTERM.
func start(t testing.TB, name string, attr syscall.SysProcAttr, args ...string) *process {
	t.Helper()
	p := &process{t: t, name: name, cmd: exec.Command("/bin/"+name, args...), dead: make(chan struct{})}
	p.cmd.SysProcAttr = &attr
	p.cmd.Stderr = &p.log
	must(t, p.cmd.Start())
	go func() {
		defer close(p.dead)
		p.err = p.cmd.Wait()
	}()
	t.Cleanup(func() {
		p.end(syscall.SIGTERM)
		if t.Failed() {
			t.Logf("log of %s:\n%s", name, p.log.String())
		}
	})
	return p
}

// end sends a signal and waits for the end. SIGTERM must end it well.
func (p *process) end(sig syscall.Signal) {
	p.t.Helper()
	select {
	case <-p.dead:
		if sig == syscall.SIGTERM && p.err != nil && p.cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			p.t.Errorf("%s had ended by itself: %v", p.name, p.err)
		}
		return
	default:
	}
	_ = p.cmd.Process.Signal(sig)
	select {
	case <-p.dead:
		if sig == syscall.SIGTERM && p.err != nil {
			p.t.Errorf("%s: %v", p.name, p.err)
		}
	case <-time.After(patience):
		_ = p.cmd.Process.Kill()
		p.t.Errorf("%s did not end", p.name)
	}
}

// log is what a program logs.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
