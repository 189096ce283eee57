// A node under fire: host, kubelet, the two programs, and what they should show.
//
// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/rdma-relay/rdma-relay/test/fakehost"
	"github.com/rdma-relay/rdma-relay/test/fakekubelet"
)

const hcas = 4

// node is everything that a fault may hit. Only the campaign's goroutine uses it.
type node struct {
	t          testing.TB
	dir        string
	kubelet    *fakekubelet.Kubelet
	host       *fakehost.Host
	discoveryd *process
	proxy      *process
	want       model
	kills      int // of kubelet, so far

	directories int // that the device-plugins path has led to
}

// newNode is a node on which everything has just been started.
func newNode(t testing.TB, b fakekubelet.Bookkeeping) *node {
	t.Helper()
	dir, err := os.MkdirTemp("", "chaos") // t.TempDir's paths are too long for a socket
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	n := &node{t: t, dir: dir, want: model{config: settings{Pool: 20, Each: 4}}}
	n.host, err = fakehost.New(n.path("host"), fakehost.PlainFiles())
	must(t, err)
	for i := range hcas {
		must(t, n.host.Add(fakehost.HCA{PCI: fmt.Sprintf("0000:%x0:00.0", i+1), Name: fmt.Sprint("mlx5_", i), Index: i}))
		n.want.hcas = append(n.want.hcas, hca{name: fmt.Sprint("mlx5_", i), present: true, active: true})
	}
	must(t, n.configure(n.want.config))
	n.kubelet = fakekubelet.New(n.path("dp"), fakekubelet.Options{Bookkeeping: b, DialTimeout: time.Second})
	t.Cleanup(func() { must(t, n.kubelet.Close()) })
	must(t, n.kubelet.Start())
	n.discoveryd = newProcess(t, n.path("discoveryd.log"), binary("discoveryd"), "serve", "--host-root="+n.host.Root(),
		"--socket="+n.path("d.sock"), "--allow-uids="+strconv.Itoa(os.Getuid()), "--resync-interval=5s", "--log-level=debug")
	n.proxy = newProcess(t, n.path("pluginproxy.log"), binary("pluginproxy"), "serve", "--config="+n.path("config.json"),
		"--discovery-socket="+n.path("d.sock"), "--device-plugins-dir="+n.path("dp"), "--metrics-address=", "--log-level=debug")
	must(t, n.discoveryd.start())
	must(t, n.proxy.start())
	return n
}

func (n *node) path(name string) string { return filepath.Join(n.dir, name) }

// settings are what a configuration of these tests is made from.
type settings struct {
	Pool  int  // slots of rdma/pool
	Each  int  // slots of rdma/each on each device
	Third bool // there is rdma/third with one slot on each device
}

func (s settings) text() string {
	third := ""
	if s.Third {
		third = `,{"resourceName":"third","rdmaHcaMax":1,"sharing":"perDevice","selectors":{"vendors":["15b3"]},"health":"present"}`
	}
	return fmt.Sprintf(`{"configList":[
 {"resourceName":"pool","rdmaHcaMax":%d,"selectors":{"vendors":["15b3"]}},
 {"resourceName":"each","rdmaHcaMax":%d,"sharing":"perDevice","selectors":{"vendors":["15b3"]}}%s
]}`, s.Pool, s.Each, third)
}

// configure replaces the configuration file in one step.
func (n *node) configure(s settings) error {
	if err := os.WriteFile(n.path("config.new"), []byte(s.text()), 0o600); err != nil {
		return err
	}
	if err := os.Rename(n.path("config.new"), n.path("config.json")); err != nil {
		return err
	}
	n.want.config = s
	return nil
}

// replaceDirectory makes the device-plugins path lead to another directory, by way of
// a link.
func (n *node) replaceDirectory() error {
	n.directories++
	next := fmt.Sprint("dp.", n.directories)
	return errors.Join(
		os.Mkdir(n.path(next), 0o750), os.Rename(n.path("dp"), n.path("dp.old")), os.Symlink(next, n.path("dp")),
		n.restartKubelet(), os.RemoveAll(n.path("dp.old")))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
