//go:build !kubelet136

// What our NUMA hints make of a pod's admission: kubelet's own topology manager and
// device manager together.
//
// SPDX-License-Identifier: Apache-2.0

package k8s

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
)

// numaNodes is how many NUMA nodes the made-up machine has. HCAs 0 and 1 are on the
// first of them, 2 and 3 on the second.
const numaNodes = 2

// alignedKubelet is a kubelet with a topology manager.
type alignedKubelet struct {
	*kubelet
	topology topologymanager.Manager
}

// startAligned starts a kubelet with the policy, at container scope.
func startAligned(t *testing.T, dir, policy string) *alignedKubelet {
	t.Helper()
	logOnFailure(t, "kubelet", &kubeletLog)
	k := &alignedKubelet{kubelet: &kubelet{t: t, dir: dir}}
	nodes := machine()
	made := reflect.ValueOf(topologymanager.NewManager).Call([]reflect.Value{
		reflect.ValueOf(klog.Background()), nodes.Elem(), reflect.ValueOf(policy),
		reflect.ValueOf(topologymanager.ContainerTopologyScope), reflect.ValueOf(map[string]string(nil)),
	})
	if err, failed := made[1].Interface().(error); failed {
		t.Fatal(err)
	}
	k.topology = made[0].Interface().(topologymanager.Manager)
	// The two slices differ in their element type only, which newManager can't name.
	m, err := newManager(klog.Background(), filepath.Join(dir, "kubelet.sock"), *(*[]struct{})(nodes.UnsafePointer()), k.topology)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Start(klog.Background(), k.activePods, sourcesReady{}, containermap.NewContainerMap(), sets.New[string]()); err != nil {
		t.Fatal(err)
	}
	k.m = m
	t.Cleanup(k.stop)
	k.topology.AddHintProvider(klog.Background(), m)
	return k
}

// machine is a pointer to a slice of cadvisor's Node with the IDs 0, 1, …
func machine() reflect.Value {
	nodes := reflect.New(reflect.TypeOf(topologymanager.NewManager).In(1))
	nodes.Elem().Set(reflect.MakeSlice(nodes.Elem().Type(), numaNodes, numaNodes))
	for i := range numaNodes {
		nodes.Elem().Index(i).FieldByName("Id").SetInt(int64(i))
	}
	return nodes
}

// admitAligned does what kubelet does at admission with a topology manager.
func (k *alignedKubelet) admitAligned(pod *v1.Pod) lifecycle.PodAdmitResult {
	k.t.Helper()
	k.mu.Lock()
	k.pods = append(k.pods, pod)
	k.mu.Unlock()
	ctx, cancel := context.WithTimeout(k.t.Context(), patience)
	defer cancel()
	result := k.topology.Admit(ctx, &lifecycle.PodAdmitAttributes{Pod: pod, Operation: lifecycle.AddOperation})
	if !result.Admit {
		k.remove(pod)
	}
	return result
}

// mustGet admits a pod that asks for so many of each resource, and returns the IDs that
// it got of all.
func (k *alignedKubelet) mustGet(name string, asks map[string]int64) []string {
	k.t.Helper()
	pod := podAsking(name, asks)
	if result := k.admitAligned(pod); !result.Admit {
		k.t.Fatalf("pod %s, which asks for %v, is turned away: %s: %s", name, asks, result.Reason, result.Message)
	}
	var ids []string
	for resourceName := range asks {
		ids = append(ids, k.idsOf(pod, resourceName)...)
	}
	slices.Sort(ids)
	return ids
}

// mustNotGet wants the topology manager to turn a pod away.
func (k *alignedKubelet) mustNotGet(name string, asks map[string]int64) {
	k.t.Helper()
	pod := podAsking(name, asks)
	result := k.admitAligned(pod)
	if result.Admit || result.Reason != topologymanager.ErrorTopologyAffinity {
		k.t.Errorf("pod %s, which asks for %v: %+v; want it turned away for its topology", name, asks, result)
	}
	for resourceName := range asks {
		if ids := k.idsOf(pod, resourceName); len(ids) > 0 {
			k.t.Errorf("pod %s was turned away and holds %q", name, ids)
		}
	}
}

func podAsking(name string, asks map[string]int64) *v1.Pod {
	pod := podWith(name, "", 0)
	limits := v1.ResourceList{}
	for resourceName, n := range asks {
		limits[v1.ResourceName(resourceName)] = *resource.NewQuantity(n, resource.DecimalSI)
	}
	pod.Spec.Containers[0].Resources = v1.ResourceRequirements{Limits: limits, Requests: limits}
	return pod
}

// alignedNode is a node with four HCAs on two NUMA nodes, and resources given as
// entries of the config file. numa changes the HCAs' nodes; "" takes the file away.
func alignedNode(t *testing.T, policy string, numa map[int]string, entries ...string) *alignedKubelet {
	t.Helper()
	n := newNode(t, 4)
	for i := range 4 {
		file := "sys/devices/pci0000:00/" + pciAddress(i) + "/numa_node"
		text, given := numa[i]
		switch {
		case !given:
			n.host.file(file, fmt.Sprintln(i/2))
		case text == "":
			n.host.remove(file)
		default:
			n.host.file(file, text+"\n")
		}
	}
	config := `{"configList":[` + strings.Join(entries, ",") + `]}`
	if err := os.WriteFile(filepath.Join(n.run, "config.json"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	k := startAligned(t, n.plugins, policy)
	n.startDiscovery()
	n.startProxy()
	var parsed struct {
		ConfigList []struct{ ResourceName string }
	}
	if err := json.Unmarshal([]byte(config), &parsed); err != nil {
		t.Fatal(err)
	}
	for _, r := range parsed.ConfigList {
		eventually(t, "devices of "+r.ResourceName, true, func() bool { return k.counts("rdma/"+r.ResourceName).Allocatable > 0 })
	}
	return k
}

// one is a question for n of the resource slot.
func one(n int64) map[string]int64 { return map[string]int64{"rdma/slot": n} }

// onHCAs wants the IDs to be so many slots, all on these HCAs and on each of them.
func onHCAs(t *testing.T, ids []string, n int, hcas ...int) {
	t.Helper()
	used := map[string]bool{}
	for _, id := range ids {
		for _, i := range hcas {
			if strings.HasPrefix(id, pciAddress(i)) {
				used[pciAddress(i)] = true
				n--
			}
		}
	}
	if n != 0 || len(used) != len(hcas) {
		t.Errorf("slots %q, want them on HCAs %v", ids, hcas)
	}
}

const (
	slots     = `{"resourceName":"slot","sharing":"perDevice","rdmaHcaMax":2,"selectors":{"vendors":["15b3"]}}`
	packed    = `{"resourceName":"slot","sharing":"perDevice","rdmaHcaMax":4,"preferredAllocation":"pack","selectors":{"vendors":["15b3"]}}`
	unhinted  = `{"resourceName":"slot","sharing":"perDevice","rdmaHcaMax":2,"topologyHints":false,"selectors":{"vendors":["15b3"]}}`
	poolOfAll = `{"resourceName":"pool","rdmaHcaMax":8,"selectors":{"vendors":["15b3"]}}`
)

func poolOn(hca int) string {
	return fmt.Sprintf(`{"resourceName":"pool","rdmaHcaMax":8,"selectors":{"ifNames":[%q]}}`, netName(hca))
}

func TestSingleNUMANodePolicyKeepsAContainerOnOneNode(t *testing.T) {
	k := alignedNode(t, topologymanager.PolicySingleNumaNode, nil, slots)
	k.mustNotGet("five", one(5)) // a node has four slots
	onHCAs(t, k.mustGet("three", one(3)), 3, 0, 1)
	onHCAs(t, k.mustGet("two", one(2)), 2, 2, 3) // one slot is left on the first node
	k.mustNotGet("three-more", one(3))           // there are as many, but on both nodes
	onHCAs(t, k.mustGet("one-more", one(1)), 1, 0+1)
	onHCAs(t, k.mustGet("last", one(2)), 2, 2, 3)
}

func TestRestrictedPolicyTakesTwoNodesOnlyWhereOneNeverWillDo(t *testing.T) {
	k := alignedNode(t, topologymanager.PolicyRestricted, nil, slots)
	five := k.mustGet("five", one(5))
	if len(five) != 5 {
		t.Errorf("slots %q", five)
	}
	k.mustNotGet("two", one(3)) // one node would have done, had it three slots left
}

func TestPreferredSlotsLieOnTheNodeThatTheTopologyManagerChose(t *testing.T) {
	k := alignedNode(t, topologymanager.PolicySingleNumaNode, nil, packed)
	onHCAs(t, k.mustGet("four", one(4)), 4, 0) // all on one device
	onHCAs(t, k.mustGet("three", one(3)), 3, 1)
	onHCAs(t, k.mustGet("six", one(6)), 6, 2, 3)
	onHCAs(t, k.mustGet("one", one(1)), 1, 1) // fills up the device that is in use
}

func TestResourcesOfOneContainerMeetOnOneNode(t *testing.T) {
	both := map[string]int64{"rdma/slot": 1, "rdma/pool": 1}
	k := alignedNode(t, topologymanager.PolicySingleNumaNode, nil, slots, poolOn(3))
	for i := range 4 { // the pool is on the second node, which has four slots
		ids := k.mustGet(fmt.Sprint("pod-", i), both)
		if !strings.HasPrefix(ids[0], pciAddress(2)) && !strings.HasPrefix(ids[0], pciAddress(3)) && !strings.HasPrefix(ids[1], pciAddress(2)) && !strings.HasPrefix(ids[1], pciAddress(3)) {
			t.Errorf("slots %q are on two nodes", ids)
		}
	}
	k.mustNotGet("fifth", both)
	onHCAs(t, k.mustGet("other-node", one(2)), 2, 0, 1)
}

// R52: a hint that would lie is not given, and nothing is turned away for it.
func TestR52_NoHintsWhereTheyWouldLie(t *testing.T) {
	for name, tc := range map[string]struct {
		numa  map[int]string
		entry string
		asks  map[string]int64
	}{
		"a pool over two nodes":           {nil, poolOfAll, map[string]int64{"rdma/pool": 8}},
		"the node is not known":           {map[int]string{0: "-1", 1: "-1", 2: "-1", 3: "-1"}, slots, one(8)},
		"no node is told":                 {map[int]string{0: "", 1: "", 2: "", 3: ""}, slots, one(8)},
		"switched off":                    {nil, unhinted, one(8)},
		"a pool of which one isn't known": {map[int]string{0: "0", 1: "0", 2: "0", 3: "-1"}, poolOfAll, map[string]int64{"rdma/pool": 8}},
	} {
		t.Run(name, func(t *testing.T) {
			k := alignedNode(t, topologymanager.PolicySingleNumaNode, tc.numa, tc.entry)
			k.mustGet("all", tc.asks)
			for resourceName := range tc.asks {
				for id, device := range allocatableDevices(k.m)[resourceName] {
					if device.GetTopology() != nil {
						t.Errorf("%s has the hint %v", id, device.GetTopology())
					}
				}
			}
		})
	}
}

// R52: of devices with and without a known node those with one serve the pods that
// need one node.
func TestR52_DevicesWithoutANodeStayForPodsThatDoNotCare(t *testing.T) {
	k := alignedNode(t, topologymanager.PolicySingleNumaNode, map[int]string{2: "-1", 3: "-1"}, slots)
	onHCAs(t, k.mustGet("four", one(4)), 4, 0, 1)
}

// R52: with many slots the topology manager is slow at best. The list that kubelet
// takes at most must not stop it.
func TestR52_AdmissionWithManySlotsEnds(t *testing.T) {
	const many = `{"resourceName":"slot","sharing":"perDevice","rdmaHcaMax":5000,"selectors":{"vendors":["15b3"]}}`
	k := alignedNode(t, topologymanager.PolicySingleNumaNode, nil, many)
	began := time.Now()
	onHCAs(t, k.mustGet("eight", one(8)), 8, 0, 1)
	t.Logf("admission with 20,000 slots took %v", time.Since(began))
}
