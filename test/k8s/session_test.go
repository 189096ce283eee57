// A session is lost while kubelet stays, which is where plugins get stuck: nothing on
// disk has changed and kubelet never calls again.
//
// SPDX-License-Identifier: Apache-2.0

package k8s

import (
	"os"
	"slices"
	"testing"
	"time"
)

func TestKubeletClosesTheConnection(t *testing.T) {
	n := startNode(t, 1, pool("hca", 10))
	// Each loss of so young a session counts as one more failure in a row, so the times
	// grow: kubelet leaks a connection at each that it refuses.
	for range 5 {
		n.kubelet.usable(hca, 10)
		sockets := n.sockets()
		if len(sockets) != 1 {
			t.Fatalf("own sockets %v, want one", sockets)
		}
		begin := time.Now()
		disconnect(t.Context(), n.kubelet.m, hca, sockets[0])
		n.kubelet.usable(hca, 10)
		t.Logf("usable again after %v", time.Since(begin).Round(time.Millisecond))
	}
	n.terminate()
	if left := n.sockets(); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// Somebody cleans the directory while kubelet runs.
func TestOwnSocketIsRemoved(t *testing.T) {
	n := startNode(t, 1, pool("hca", 10))
	n.kubelet.usable(hca, 10)
	before := n.sockets()
	for _, s := range before {
		if err := os.Remove(s); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "a new socket", true, func() bool {
		now := n.sockets()
		return len(now) == 1 && !slices.Equal(now, before)
	})
	n.kubelet.usable(hca, 10)
	n.terminate()
}

// R6: a rolling update that overlaps. The new instance registers beside the old one,
// whose end then takes the new session with it on kubelet 1.36.
func TestNewInstanceBesideTheOld(t *testing.T) {
	n := startNode(t, 1, pool("hca", 10))
	n.kubelet.usable(hca, 10)
	for range 3 {
		older, registered := n.proxy, registrations(t, hca)
		n.startProxy()
		eventually(t, "the new instance has registered", true, func() bool { return registrations(t, hca) > registered })
		begin := time.Now()
		older.terminate()
		n.kubelet.usable(hca, 10)
		t.Logf("usable %v after the end of the old one", time.Since(begin).Round(time.Millisecond))
		<-time.After(500 * time.Millisecond) // what kubelet does late, it has done
		n.kubelet.usable(hca, 10)
		t.Logf("still usable after %v", time.Since(begin).Round(time.Millisecond))
	}
	n.terminate()
}
