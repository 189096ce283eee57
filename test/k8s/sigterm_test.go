// SIGTERM in the middle of anything: exit 0 within 5 s and nothing left behind.
//
// SPDX-License-Identifier: Apache-2.0

package k8s

import (
	"net"
	"path/filepath"
	"testing"
)

func TestSIGTERMEndsBothInGoodOrder(t *testing.T) {
	for name, prepare := range map[string]func(n *node){
		"all is well": func(n *node) {
			n.startAll()
			n.kubelet.wait(hca, full(10))
		},
		"just started": func(n *node) {
			n.startAll()
			eventually(n.t, "the first sign of life", true, func() bool { return registrations(n.t, hca) > 0 })
		},
		"no kubelet": func(n *node) {
			n.startDiscovery()
			n.startProxy()
		},
		"kubelet is gone": func(n *node) {
			n.startAll()
			n.kubelet.wait(hca, full(10))
			n.kubelet.stop()
		},
		"kubelet takes connections and says nothing": func(n *node) {
			l, err := net.Listen("unix", filepath.Join(n.plugins, "kubelet.sock"))
			if err != nil {
				n.t.Fatal(err)
			}
			n.t.Cleanup(func() { l.Close() })
			n.startDiscovery()
			n.startProxy()
			conn, err := l.Accept()
			if err != nil {
				n.t.Fatal(err)
			}
			n.t.Cleanup(func() { conn.Close() })
		},
		"kubelet hangs": func(n *node) {
			k := startKubeletProcess(n.t, n.plugins)
			n.startDiscovery()
			n.startProxy()
			k.wait(hca, full(10))
			k.pause()
			n.host.unplug(0)
		},
		"discoveryd has just come back": func(n *node) {
			n.startAll()
			n.kubelet.wait(hca, full(10))
			n.discovery.kill()
			n.startDiscovery()
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, 1, pool("hca", 10))
			prepare(n)
			n.proxy.running()
			n.discovery.running()
			n.terminate()
			if left := n.sockets(); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// Whatever discoveryd does, pluginproxy ends in time.
func TestSIGTERMWithoutDiscovery(t *testing.T) {
	for name, takeAway := range map[string]func(p *process){
		"never there": nil,
		"killed":      (*process).kill,
		"hangs":       func(p *process) { p.pause() },
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, 1, pool("hca", 10))
			n.kubelet = startKubelet(t, n.plugins)
			if takeAway != nil {
				n.startDiscovery()
				n.discovery.running()
				takeAway(n.discovery)
			}
			n.startProxy()
			n.proxy.running()
			n.proxy.terminate()
			if left := n.sockets(); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}
