// Kubelet restarts: in good order, killed, a hundred times, and while the host changes.
//
// SPDX-License-Identifier: Apache-2.0

package k8s

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// R1, R21: devices come and go while one kubelet ends and the next begins. Whatever
// was in flight, the end is what the host has.
func TestHostChangesWhileKubeletRestarts(t *testing.T) {
	n := startNode(t, 2, poolOf(0, "moving", 50), poolOf(1, "steady", 50))
	n.kubelet.wait("rdma/moving", full(50))
	n.kubelet.wait("rdma/steady", full(50))
	runs := podWith("runs", "rdma/steady", 3)
	n.kubelet.mustAdmit(runs)
	ids, given := n.kubelet.idsOf(runs, "rdma/steady"), n.kubelet.given(runs)

	for round := range 8 {
		stop := n.host.toggle(0)
		for range 3 {
			n.kubelet.restart()
			n.kubelet.wait("rdma/steady", full(50))
		}
		there := stop()
		if round == 7 && there {
			n.host.unplug(0) // both ends are seen, whatever the dice say
			there = false
		}
		if there {
			n.kubelet.usable("rdma/moving", 50)
		} else {
			n.kubelet.wait("rdma/moving", full(0))
			n.host.plug(0)
			n.kubelet.usable("rdma/moving", 50)
		}
	}

	if got := n.kubelet.idsOf(runs, "rdma/steady"); !slices.Equal(got, ids) {
		t.Errorf("the pod that ran all the time has %v, had %v", got, ids)
	}
	if got := n.kubelet.given(runs); !slices.Equal(got.devices, given.devices) {
		t.Errorf("the pod that ran all the time has %v, had %v", got.devices, given.devices)
	}
	n.terminate()
}

// A pod that was admitted before the restart keeps its devices, and no other gets them.
func TestRunningPodKeepsItsDevicesOverARestart(t *testing.T) {
	n := startNode(t, 1, pool("hca", 3))
	n.kubelet.wait(hca, full(3))
	a := podWith("a", hca, 2)
	n.kubelet.mustAdmit(a)
	held := n.kubelet.idsOf(a, hca)
	n.kubelet.restart()
	n.kubelet.wait(hca, full(3))
	b := podWith("b", hca, 1)
	n.kubelet.mustAdmit(b)
	if got := n.kubelet.idsOf(a, hca); !slices.Equal(got, held) || len(held) != 2 {
		t.Errorf("pod a has %v, had %v", got, held)
	}
	if got := n.kubelet.idsOf(b, hca); len(got) != 1 || slices.Contains(held, got[0]) {
		t.Errorf("pod b has %v, pod a has %v", got, held)
	}
	if err := n.kubelet.admit(podWith("c", hca, 1)); err == nil {
		t.Error("a fourth device was given out")
	}
}

// R3: the peer of this project stays at zero after some of these.
func TestHundredRestartsInARow(t *testing.T) {
	n := startNode(t, 8, pool("hca", 1000))
	n.kubelet.wait(hca, full(1000))
	var times durations
	for range 100 {
		n.kubelet.restart()
		times = append(times, n.kubelet.wait(hca, full(1000)))
	}
	n.kubelet.usable(hca, 1000)
	if sockets := n.sockets(); len(sockets) != 1 {
		t.Errorf("own sockets %v, want one", sockets)
	}
	// testsum shows such a line; without its first word benchstat reads it.
	fmt.Printf("MEASURED BenchmarkHundredRestarts/resources=1/slots=1000 %d %d ns/op %s\n", len(times), times.mean(), times.percentiles())
	n.terminate()
}

// The next kubelet starts before anybody could see the end of the last.
func TestRestartsWithoutAPause(t *testing.T) {
	n := startNode(t, 1, pool("hca", 10))
	n.kubelet.wait(hca, full(10))
	for range 5 {
		for range 10 {
			n.kubelet.restart()
		}
		n.kubelet.usable(hca, 10)
	}
	n.terminate()
}

// A kubelet that is killed leaves kubelet.sock and our sockets lying there.
func TestKubeletIsKilled(t *testing.T) {
	n := newNode(t, 2, pool("hca", 100))
	kubelet := startKubeletProcess(t, n.plugins)
	n.startDiscovery()
	n.startProxy()
	kubelet.wait(hca, full(100))
	for range 5 {
		kubelet.kill()
		kubelet = startKubeletProcess(t, n.plugins)
		t.Logf("full %v after the start", kubelet.wait(hca, full(100)))
	}
	n.terminate()
}

// A kubelet that hangs for a while and then goes on is served as before.
func TestKubeletHangsForAWhile(t *testing.T) {
	n := newNode(t, 1, poolOf(0, "hca", 100), poolOf(1, "late", 100))
	kubelet := startKubeletProcess(t, n.plugins)
	n.startDiscovery()
	n.startProxy()
	kubelet.wait(hca, full(100))
	resume := kubelet.pause()
	n.host.unplug(0)
	n.host.plug(1)
	<-time.After(time.Second) // the hang itself: changes come within a second
	resume()
	kubelet.wait(hca, full(0))
	kubelet.wait("rdma/late", full(100))
	n.terminate()
}
