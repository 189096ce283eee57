// Kubelet's device manager, in this process.
//
// SPDX-License-Identifier: Apache-2.0

package k8s

import (
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"
	_ "unsafe" // for go:linkname

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
)

// newManager is what NewManagerImpl calls with the constant
// /var/lib/kubelet/device-plugins/kubelet.sock. The topology is always nil here, so
// its element type (cadvisor's Node, in another package in each release) need not
// be named. empty.s lets the function lack a body.
//
//go:linkname newManager k8s.io/kubernetes/pkg/kubelet/cm/devicemanager.newManagerImpl
func newManager(logger klog.Logger, socket string, topology []struct{}, store topologymanager.Store) (*devicemanager.ManagerImpl, error)

// startManager starts a device manager over a directory, where it finds the
// checkpoint of the one before and wipes every socket.
func startManager(dir string, activePods func() []*v1.Pod) (*devicemanager.ManagerImpl, error) {
	m, err := newManager(klog.Background(), filepath.Join(dir, "kubelet.sock"), nil, noTopology())
	if err != nil {
		return nil, fmt.Errorf("make the device manager: %w", err)
	}
	if err := m.Start(klog.Background(), activePods, sourcesReady{}, containermap.NewContainerMap(), sets.New[string]()); err != nil {
		return nil, fmt.Errorf("start the device manager: %w", err)
	}
	return m, nil
}

type sourcesReady struct{}

func (sourcesReady) AddSource(string) {}
func (sourcesReady) AllReady() bool   { return true }

// counts is what node status shows of one resource.
type counts struct{ Capacity, Allocatable int64 }

// absent stands for a resource that node status does not name.
var absent = counts{-1, -1}

// full is n devices, all healthy.
func full(n int) counts { return counts{int64(n), int64(n)} }

// countsOf reads all resources of a manager.
func countsOf(m *devicemanager.ManagerImpl) map[string]counts {
	capacity, allocatable := capacityOf(m)
	all := make(map[string]counts, len(capacity))
	for name, quantity := range capacity {
		free := allocatable[name]
		all[string(name)] = counts{quantity.Value(), free.Value()}
	}
	return all
}

// kubelet is a device manager with the pods that run on the node. Its methods are
// for the test's own goroutine.
type kubelet struct {
	t   testing.TB
	dir string
	m   *devicemanager.ManagerImpl

	probes int

	mu   sync.Mutex
	pods []*v1.Pod
}

func startKubelet(t testing.TB, dir string) *kubelet {
	t.Helper()
	logOnFailure(t, "kubelet", &kubeletLog)
	k := &kubelet{t: t, dir: dir}
	k.start()
	t.Cleanup(k.stop)
	return k
}

func (k *kubelet) start() {
	k.t.Helper()
	m, err := startManager(k.dir, k.activePods)
	if err != nil {
		k.t.Fatal(err)
	}
	k.m = m
}

// stop closes all connections and takes kubelet.sock away. May be called twice.
func (k *kubelet) stop() {
	if err := k.m.Stop(klog.Background()); err != nil {
		k.t.Error(err)
	}
}

// restart is a new kubelet with an empty memory over the same directory.
func (k *kubelet) restart() {
	k.t.Helper()
	k.stop()
	k.start()
}

func (k *kubelet) activePods() []*v1.Pod {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.pods)
}

func (k *kubelet) counts(resource string) counts {
	if c, ok := countsOf(k.m)[resource]; ok {
		return c
	}
	return absent
}

// wait returns how long it took until a resource had these counts.
func (k *kubelet) wait(resource string, want counts) time.Duration {
	k.t.Helper()
	return eventually(k.t, "capacity and allocatable of "+resource, want, func() counts { return k.counts(resource) })
}

// waitFull returns how long it took until all of the resources had n healthy devices.
func (k *kubelet) waitFull(resources []string, n int) time.Duration {
	k.t.Helper()
	return waitFull(k.t, resources, n, func() map[string]counts { return countsOf(k.m) })
}

func waitFull(t testing.TB, resources []string, n int, now func() map[string]counts) time.Duration {
	t.Helper()
	return eventually(t, fmt.Sprintf("resources with all %d devices", n), len(resources), func() int {
		all, have := now(), 0
		for _, name := range resources {
			if all[name] == full(n) {
				have++
			}
		}
		return have
	})
}

// admit does for a pod what kubelet does at admission: allocate. The pod runs from
// then on if that succeeded.
func (k *kubelet) admit(pod *v1.Pod) error {
	k.t.Helper()
	k.mu.Lock()
	k.pods = append(k.pods, pod)
	k.mu.Unlock()
	err := allocate(k.t.Context(), k.m, pod)
	if err != nil {
		k.remove(pod)
	}
	return err
}

func (k *kubelet) mustAdmit(pod *v1.Pod) {
	k.t.Helper()
	if err := k.admit(pod); err != nil {
		k.t.Fatalf("admit pod %s: %v", pod.Name, err)
	}
}

// probe admits a pod with one device and takes it away again.
func (k *kubelet) probe(resource string) error {
	k.t.Helper()
	k.probes++ // the same pod twice would have its device already
	pod := podWith(fmt.Sprintf("probe-%d", k.probes), resource, 1)
	defer k.remove(pod)
	return k.admit(pod)
}

// usable waits until kubelet shows all n devices and a pod gets one: after a Register at
// the wrong moment kubelet 1.36 shows them and refuses each pod.
func (k *kubelet) usable(resource string, n int) {
	k.t.Helper()
	type state struct {
		counts
		refusal string
	}
	eventually(k.t, resource+" and what a pod is told", state{counts: full(n)}, func() state {
		s := state{counts: k.counts(resource)}
		if s.counts == full(n) {
			if err := k.probe(resource); err != nil {
				s.refusal = err.Error()
			}
		}
		return s
	})
}

func (k *kubelet) remove(pod *v1.Pod) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pods = slices.DeleteFunc(k.pods, func(p *v1.Pod) bool { return p == pod })
}

// given is what kubelet hands to the container runtime for a pod.
type given struct {
	devices []string // "path on the host:path in the container:permissions", sorted
	env     map[string]string
}

func (k *kubelet) given(pod *v1.Pod) given {
	k.t.Helper()
	options, err := k.m.GetDeviceRunContainerOptions(k.t.Context(), pod, &pod.Spec.Containers[0])
	if err != nil {
		k.t.Fatalf("container options of pod %s: %v", pod.Name, err)
	}
	g := given{env: map[string]string{}}
	if options == nil {
		return g
	}
	for _, d := range options.Devices {
		g.devices = append(g.devices, d.PathOnHost+":"+d.PathInContainer+":"+d.Permissions)
	}
	slices.Sort(g.devices)
	for _, e := range options.Envs {
		g.env[e.Name] = e.Value
	}
	return g
}

// idsOf returns the device IDs that a pod holds of a resource, sorted.
func (k *kubelet) idsOf(pod *v1.Pod, resource string) []string {
	var ids []string
	for id := range k.m.GetDevices(string(pod.UID), pod.Spec.Containers[0].Name)[resource] {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// podWith asks for n devices of a resource.
func podWith(name, resourceName string, n int64) *v1.Pod {
	limits := v1.ResourceList{v1.ResourceName(resourceName): *resource.NewQuantity(n, resource.DecimalSI)}
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name)},
		Spec: v1.PodSpec{Containers: []v1.Container{{
			Name:      "main",
			Resources: v1.ResourceRequirements{Limits: limits, Requests: limits},
		}}},
	}
}

// registrations counts the Register calls for some resources that kubelet has had in
// this process, refused ones too.
func registrations(t testing.TB, resources ...string) int {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, family := range families {
		if family.GetName() != "kubelet_device_plugin_registration_total" {
			continue
		}
		for _, metric := range family.Metric {
			if slices.Contains(resources, metric.Label[0].GetValue()) {
				n += int(metric.Counter.GetValue())
			}
		}
	}
	return n
}
