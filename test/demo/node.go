// The node of the demo: a recorded host, the two programs, a fake kubelet.
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/rdma-relay/rdma-relay/test/fakehost"
	"github.com/rdma-relay/rdma-relay/test/fakekubelet"
)

// The two resources of the story: all adapters shared, and one of them.
const (
	pool, poolSlots       = "rdma/hca_pool", 64
	storage, storageSlots = "rdma/hca_storage", 10
	adapter, adapterNet   = "mlx5_3", "ens4np0"
)

const proxyConfig = `{
  "configList": [
    {"resourceName": "hca_pool",    "rdmaHcaMax": 64, "selectors": {"vendors": ["15b3"]}},
    {"resourceName": "hca_storage", "rdmaHcaMax": 10, "selectors": {"ifNames": ["` + adapterNet + `"]}}
  ]
}
`

// node is all that runs, below one temporary directory.
type node struct {
	bin, dir string
	host     *fakehost.Host
	kubelet  *fakekubelet.Kubelet
	daemon   *process
	proxy    *process
	metrics  string // pluginproxy's address, known once it serves

	fail  context.CancelCauseFunc // hears of a program that ends by itself
	watch sync.WaitGroup          // for those who call fail
}

// longestTempDir leaves room for a socket's path below it, in bytes: unix(7)
// allows 107, and the rest of the path up to a socket's name takes up to 84.
const longestTempDir = 20

// newNode makes the host and its kubelet; the programs are started by the story.
// fail is called when one of them ends by itself.
func newNode(o options, fail context.CancelCauseFunc) (*node, error) {
	bin, err := filepath.Abs(o.bin)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"discoveryd", "pluginproxy"} {
		if _, err := os.Stat(filepath.Join(bin, name)); err != nil {
			return nil, fmt.Errorf("%w (run `make build` first)", err)
		}
	}
	temp := o.temp
	if len(temp) > longestTempDir {
		temp = "/tmp"
	}
	dir, err := os.MkdirTemp(temp, "rdma-relay-demo-")
	if err != nil {
		return nil, err
	}
	n := &node{bin: bin, dir: dir, fail: fail}
	n.kubelet = fakekubelet.New(n.path("kubelet"), fakekubelet.Options{})
	// Plain files, so that root's demo is the same as anybody's.
	n.host, err = fakehost.GPUNode8(n.path("host"), fakehost.PlainFiles())
	if err == nil {
		err = os.WriteFile(n.path("config.json"), []byte(proxyConfig), 0o644)
	}
	if err != nil {
		return nil, errors.Join(err, n.close())
	}
	return n, nil
}

func (n *node) path(name string) string    { return filepath.Join(n.dir, name) }
func (n *node) program(name string) string { return filepath.Join(n.bin, name) }
func (n *node) socket() string             { return n.path("discovery.sock") }

// startPrograms runs discoveryd and pluginproxy; they find each other.
func (n *node) startPrograms() error {
	var err error
	n.daemon, err = n.start("discoveryd", "serve",
		"--host-root="+n.host.Root(), "--socket="+n.socket(), "--allow-uids="+strconv.Itoa(os.Getuid()))
	if err != nil {
		return err
	}
	n.proxy, err = n.start("pluginproxy", "serve",
		"--config="+n.path("config.json"), "--discovery-socket="+n.socket(),
		"--device-plugins-dir="+n.kubelet.Dir(), "--metrics-address=127.0.0.1:0")
	return err
}

// start runs one program and has an eye on it.
func (n *node) start(name string, args ...string) (*process, error) {
	p, err := start(n.program(name), name, n.path(name+".log"), args...)
	if err != nil {
		return nil, err
	}
	n.watch.Go(func() {
		<-p.done
		n.fail(p.ended())
	})
	return p, nil
}

// findMetrics waits until pluginproxy's log tells its HTTP address: port 0 let
// the kernel choose one that is free.
func (n *node) findMetrics(ctx context.Context) error {
	for {
		lines, grown := n.proxy.log.get()
		for _, line := range lines {
			if _, rest, ok := strings.Cut(line, "address=127.0.0.1:"); ok {
				port, _, _ := strings.Cut(rest, " ")
				n.metrics = "127.0.0.1:" + port
				return nil
			}
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return fmt.Errorf("pluginproxy's log tells no HTTP address: %w", context.Cause(ctx))
		}
	}
}

// ask runs one of the programs' tools and returns what it prints.
func (n *node) ask(ctx context.Context, name string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, n.program(name), args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// close ends everything in the order of a node that shuts down, and waits for it.
func (n *node) close() error {
	var errs []error
	for _, p := range []*process{n.proxy, n.daemon} {
		if p != nil {
			errs = append(errs, p.stop())
		}
	}
	n.watch.Wait()
	errs = append(errs, n.kubelet.Close(), os.RemoveAll(n.dir))
	return errors.Join(errs...)
}

// commands are worth trying while everything is up.
func (n *node) commands() []string {
	return []string{
		n.program("pluginproxy") + " status --metrics-address=" + n.metrics,
		n.program("discoveryd") + " list --socket=" + n.socket(),
		n.program("pluginproxy") + " check --config=" + n.path("config.json") + " --discovery-socket=" + n.socket(),
		"curl -s http://" + n.metrics + "/metrics | grep ^rdma_relay",
		"",
		"mv " + filepath.Join(n.host.Root(), "sys/class/infiniband", adapter) + " " + n.dir + "   # no such adapter any more",
		"mv " + n.path(adapter) + " " + filepath.Join(n.host.Root(), "sys/class/infiniband") + "   # there again",
		"tail -f " + n.path("pluginproxy.log") + " " + n.path("discoveryd.log"),
		"ls -l " + n.kubelet.Dir(),
	}
}
