// The life of a resource at one kubelet that stays: registration, allocation, changes.
//
// SPDX-License-Identifier: Apache-2.0

package k8s

import (
	"fmt"
	"maps"
	"slices"
	"testing"
)

const hca = "rdma/hca"

func TestResourceShowsAllItsSlots(t *testing.T) {
	n := startNode(t, 2, pool("hca", 100))
	n.kubelet.wait(hca, full(100))
	ids := slices.Sorted(maps.Keys(allocatableDevices(n.kubelet.m)[hca]))
	want := make([]string, 100)
	for i := range want {
		want[i] = fmt.Sprint(i)
	}
	slices.Sort(want)
	if !slices.Equal(ids, want) {
		t.Errorf("device IDs %v, want 0 to 99", ids)
	}
	n.terminate()
}

func TestPodGetsEveryDeviceOfThePool(t *testing.T) {
	n := startNode(t, 2, pool("hca", 100))
	n.kubelet.wait(hca, full(100))
	pod := podWith("a", hca, 1)
	n.kubelet.mustAdmit(pod)
	got := n.kubelet.given(pod)

	files := append(append(deviceFiles(0), deviceFiles(1)...), "/dev/infiniband/rdma_cm")
	var want []string
	for _, file := range files {
		want = append(want, file+":"+file+":rw")
	}
	slices.Sort(want)
	if !slices.Equal(got.devices, want) {
		t.Errorf("devices\n%v, want\n%v", got.devices, want)
	}
	env := map[string]string{
		"PCIDEVICE_RDMA_HCA":  pciAddress(0) + "," + pciAddress(1),
		"RDMADEVICE_RDMA_HCA": rdmaName(0) + "," + rdmaName(1),
	}
	if !maps.Equal(got.env, env) {
		t.Errorf("environment %v, want %v", got.env, env)
	}
}

func TestNoMorePodsThanSlots(t *testing.T) {
	n := startNode(t, 1, pool("hca", 2))
	n.kubelet.wait(hca, full(2))
	n.kubelet.mustAdmit(podWith("a", hca, 1))
	n.kubelet.mustAdmit(podWith("b", hca, 1))
	if err := n.kubelet.admit(podWith("c", hca, 1)); err == nil {
		t.Error("a third pod was admitted")
	}
}

func TestEightResourcesOfAHundred(t *testing.T) {
	var config []resourceConfig
	var names []string
	for i := range 8 {
		config = append(config, poolOf(i, fmt.Sprintf("hca%d", i), 100))
		names = append(names, fmt.Sprintf("rdma/hca%d", i))
	}
	n := startNode(t, 8, config...)
	n.kubelet.waitFull(names, 100)
	for range 3 {
		n.kubelet.restart()
		n.kubelet.waitFull(names, 100)
	}
	// Each gives its own HCA and no other's.
	for i, name := range names {
		pod := podWith(name, name, 1)
		n.kubelet.mustAdmit(pod)
		if got := n.kubelet.given(pod).env[fmt.Sprintf("RDMADEVICE_RDMA_HCA%d", i)]; got != rdmaName(i) {
			t.Errorf("%s gives %q, want %s", name, got, rdmaName(i))
		}
	}
	n.terminate()
}

func TestHotPlugReachesKubelet(t *testing.T) {
	n := startNode(t, 1, poolOf(0, "there", 10), poolOf(1, "missing", 10))
	n.kubelet.wait("rdma/there", full(10))
	n.kubelet.wait("rdma/missing", full(0))
	n.host.plug(1)
	n.kubelet.wait("rdma/missing", full(10))
	n.host.unplug(0)
	n.kubelet.wait("rdma/there", full(0))
	if got := n.kubelet.counts("rdma/missing"); got != full(10) {
		t.Errorf("the other resource has %v, want %v", got, full(10))
	}
}

func TestPulledCableTakesTheDevicesOutOfAllocatable(t *testing.T) {
	watched := pool("hca", 10)
	watched.Health = "active"
	n := startNode(t, 1, watched)
	n.kubelet.wait(hca, full(10))
	n.host.setPort(0, false)
	n.kubelet.wait(hca, counts{Capacity: 10, Allocatable: 0})
	n.host.setPort(0, true)
	n.kubelet.wait(hca, full(10))
}

// One Register for each resource and kubelet is enough, whatever happens on the host:
// kubelet 1.37 punishes each further one (see facts_test.go).
func TestOneRegisterForEachKubelet(t *testing.T) {
	before := map[string]int{"rdma/steady": registrations(t, "rdma/steady"), "rdma/changing": registrations(t, "rdma/changing")}
	n := startNode(t, 1, pool("steady", 10), poolOf(1, "changing", 10))
	for kubelets := 1; kubelets <= 3; kubelets++ {
		n.kubelet.wait("rdma/steady", full(10))
		n.host.plug(1)
		n.kubelet.wait("rdma/changing", full(10))
		n.host.unplug(1)
		n.kubelet.wait("rdma/changing", full(0))
		for r, already := range before {
			if got := registrations(t, r) - already; got != kubelets {
				t.Errorf("%d registrations of %s at %d kubelets", got, r, kubelets)
			}
		}
		n.kubelet.restart()
	}
}
