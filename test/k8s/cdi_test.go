// CDI names at kubelet: several resources of one container, a restart, and a
// directory that can't be used.
//
// SPDX-License-Identifier: Apache-2.0

package k8s

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// startCDINode is a node on which discoveryd keeps its spec in dir.
func startCDINode(t *testing.T, hcas int, dir string, entries ...string) *node {
	t.Helper()
	n := newNode(t, hcas)
	config := `{"configList":[` + strings.Join(entries, ",") + `]}`
	if err := os.WriteFile(filepath.Join(n.run, "config.json"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	n.kubelet = startKubelet(t, n.plugins)
	n.discovery = startProcess(t, "discoveryd", exec.Command(binary(t, "discoveryd"), "serve",
		"--socket="+n.discoverySocket(), "--host-root="+n.host.root, "--allow-uids="+strconv.Itoa(os.Getuid()), "--cdi-dir="+dir))
	n.startProxy()
	return n
}

// namesFor are the CDI names that kubelet gives a pod's container, sorted. It gives
// nothing else.
func (k *kubelet) namesFor(pod *v1.Pod) []string {
	k.t.Helper()
	options, err := k.m.GetDeviceRunContainerOptions(k.t.Context(), pod, &pod.Spec.Containers[0])
	if err != nil || options == nil {
		k.t.Fatalf("container options of pod %s: %v, %v", pod.Name, options, err)
	}
	if len(options.Devices)+len(options.Mounts)+len(options.Annotations) > 0 {
		k.t.Errorf("pod %s gets more than CDI names: %+v", pod.Name, options)
	}
	var names []string
	for _, d := range options.CDIDevices {
		names = append(names, d.Name)
	}
	slices.Sort(names)
	return names
}

// inSpec are the names that the spec in dir explains, sorted.
func inSpec(t *testing.T, dir string) []string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dir, "rdma-relay.dev-hca.json"))
	if err != nil {
		return nil
	}
	var spec struct {
		Kind    string
		Devices []struct{ Name string }
	}
	if err := json.Unmarshal(content, &spec); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, d := range spec.Devices {
		names = append(names, spec.Kind+"="+d.Name)
	}
	slices.Sort(names)
	return names
}

func wantNames(t *testing.T, got []string, hcas ...int) {
	t.Helper()
	var want []string
	for _, i := range hcas {
		want = append(want, "rdma-relay.dev/hca="+pciAddress(i))
	}
	if !slices.Equal(got, want) {
		t.Errorf("names %q, want %q", got, want)
	}
}

const cdiSlots = `{"resourceName":"slot","sharing":"perDevice","rdmaHcaMax":2,"cdi":true,"selectors":{"vendors":["15b3"]}}`

func cdiPoolOn(hca int) string {
	return fmt.Sprintf(`{"resourceName":"pool","rdmaHcaMax":8,"cdi":true,"selectors":{"ifNames":[%q]}}`, netName(hca))
}

// R65, with the HCA that is in both resources named once; and the names are those of
// a pod that runs when kubelet has restarted.
func TestR65_AContainerGetsTheCDIDevicesOfAllItsResources(t *testing.T) {
	dir := shortDir(t)
	n := startCDINode(t, 3, dir, cdiSlots, cdiPoolOn(1))
	n.kubelet.waitFull([]string{"rdma/slot"}, 6)
	n.kubelet.waitFull([]string{"rdma/pool"}, 8)
	pod := podAskingBoth("both", 5)
	n.kubelet.mustAdmit(pod)
	wantNames(t, n.kubelet.namesFor(pod), 0, 1, 2)
	wantNames(t, inSpec(t, dir), 0, 1, 2)
	other := podWith("other", "rdma/pool", 3)
	n.kubelet.mustAdmit(other)
	wantNames(t, n.kubelet.namesFor(other), 1)

	n.kubelet.restart()
	n.kubelet.waitFull([]string{"rdma/slot"}, 6)
	wantNames(t, n.kubelet.namesFor(pod), 0, 1, 2)
}

func podAskingBoth(name string, slots int64) *v1.Pod {
	pod, pool := podWith(name, "rdma/slot", slots), podWith(name, "rdma/pool", 1)
	for resourceName, quantity := range pool.Spec.Containers[0].Resources.Limits {
		pod.Spec.Containers[0].Resources.Limits[resourceName] = quantity
	}
	return pod
}

// R64: what kubelet is given at any moment is in the spec at that moment.
func TestR64_CDIDeviceThatComesLaterIsGivenByItsName(t *testing.T) {
	dir := shortDir(t)
	n := startCDINode(t, 0, dir, cdiPoolOn(0))
	n.kubelet.wait("rdma/pool", counts{})
	if names := inSpec(t, dir); names != nil {
		t.Errorf("a spec without devices: %q", names)
	}
	for round := range 3 {
		n.host.plug(0)
		n.kubelet.wait("rdma/pool", full(8))
		pod := podWith(fmt.Sprint("pod-", round), "rdma/pool", 1)
		n.kubelet.mustAdmit(pod)
		wantNames(t, n.kubelet.namesFor(pod), 0)
		wantNames(t, inSpec(t, dir), 0)
		n.kubelet.remove(pod)
		n.host.unplug(0)
		n.kubelet.wait("rdma/pool", counts{})
		eventually(t, "names in the spec", 0, func() int { return len(inSpec(t, dir)) })
	}
}

// R67: a directory that can't be used makes the devices unhealthy, and no pod fails
// at its runtime.
func TestR67_WithoutASpecKubeletKnowsThatTheDevicesAreUnhealthy(t *testing.T) {
	parent := filepath.Join(shortDir(t), "run")
	n := startCDINode(t, 1, filepath.Join(parent, "cdi"), cdiPoolOn(0))
	n.kubelet.wait("rdma/pool", counts{Capacity: 8})
	if err := n.kubelet.admit(podWith("early", "rdma/pool", 1)); err == nil {
		t.Error("a pod was admitted")
	}
	if err := os.Mkdir(parent, 0o755); err != nil {
		t.Fatal(err)
	}
	n.kubelet.wait("rdma/pool", full(8))
	pod := podWith("late", "rdma/pool", 1)
	n.kubelet.mustAdmit(pod)
	wantNames(t, n.kubelet.namesFor(pod), 0)
}
