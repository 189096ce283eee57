// One of our own processes dies or hangs.
//
// SPDX-License-Identifier: Apache-2.0

package k8s

import (
	"slices"
	"testing"
)

// While discoveryd is away the last snapshot is served, to a new kubelet too.
func TestListIsServedWithoutDiscovery(t *testing.T) {
	for name, takeAway := range map[string]func(n *node) (bringBack func()){
		"killed": func(n *node) func() {
			n.discovery.kill()
			return n.startDiscovery
		},
		"hangs": func(n *node) func() { return n.discovery.pause() },
	} {
		t.Run(name, func(t *testing.T) {
			n := startNode(t, 2, pool("hca", 100), poolOf(0, "first", 100))
			n.kubelet.wait(hca, full(100))
			n.kubelet.wait("rdma/first", full(100))
			bringBack := takeAway(n)
			for range 3 {
				n.kubelet.usable(hca, 100)
				n.kubelet.restart()
			}
			n.kubelet.usable(hca, 100)
			n.kubelet.usable("rdma/first", 100)

			n.host.unplug(0)
			bringBack()
			n.kubelet.wait("rdma/first", full(0))
			pod := podWith("a", hca, 1)
			n.kubelet.mustAdmit(pod)
			if got := n.kubelet.given(pod).env["RDMADEVICE_RDMA_HCA"]; got != rdmaName(1) {
				t.Errorf("given %q, want %s", got, rdmaName(1))
			}
			n.terminate()
		})
	}
}

// discoveryd starts anew, again and again: kubelet sees nothing of it.
func TestDiscoveryIsKilledAgainAndAgain(t *testing.T) {
	n := startNode(t, 1, pool("hca", 100))
	n.kubelet.wait(hca, full(100))
	registered := registrations(t, hca)
	for range 10 {
		n.discovery.kill()
		n.startDiscovery()
		n.kubelet.usable(hca, 100)
	}
	if got := registrations(t, hca); got != registered {
		t.Errorf("%d further registrations, want none", got-registered)
	}
	n.terminate()
}

// R16, R18, R20: kill -9 leaves a socket behind and kubelet without a plugin. The next
// process lists the same IDs, so that what pods hold stays theirs.
func TestProxyIsKilled(t *testing.T) {
	n := startNode(t, 1, pool("hca", 3))
	n.kubelet.wait(hca, full(3))
	runs := podWith("runs", hca, 2)
	n.kubelet.mustAdmit(runs)
	held := n.kubelet.idsOf(runs, hca)
	for round := range 6 {
		n.proxy.kill()
		if round%2 == 0 { // else the next one is there before kubelet has seen the death
			n.kubelet.wait(hca, counts{Capacity: 3, Allocatable: 0})
		}
		n.startProxy()
		n.kubelet.usable(hca, 3)
	}
	other := podWith("other", hca, 1)
	n.kubelet.mustAdmit(other)
	if got := n.kubelet.idsOf(runs, hca); !slices.Equal(got, held) || len(got) != 2 {
		t.Errorf("the running pod has %v, had %v", got, held)
	}
	if got := n.kubelet.idsOf(other, hca); len(got) != 1 || slices.Contains(held, got[0]) {
		t.Errorf("the other pod has %v, the running one %v", got, held)
	}
	eventually(t, "own sockets, those of the dead cleaned", 1, func() int { return len(n.sockets()) })
	n.terminate()
}

// Everything of ours dies at once, and kubelet restarts meanwhile.
func TestBothAreKilledWhileKubeletRestarts(t *testing.T) {
	n := startNode(t, 1, pool("hca", 100))
	for range 5 {
		n.kubelet.usable(hca, 100)
		n.proxy.kill()
		n.discovery.kill()
		n.startProxy() // finds no discoveryd, and a kubelet that is about to go
		n.kubelet.restart()
		n.startDiscovery()
	}
	n.kubelet.usable(hca, 100)
	n.terminate()
}
