// Hosts that change while both programs run.
//
// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rdma-relay/rdma-relay/test/fakehost"
	"github.com/rdma-relay/rdma-relay/test/fakekubelet"
)

// made is the host with that name, on a node.
func made(t *testing.T, name string) (*node, *fakehost.Host) {
	t.Helper()
	n := newNode(t)
	all := All()
	i := slices.IndexFunc(all, func(h Host) bool { return h.Name == name })
	if i < 0 {
		t.Fatalf("no host %s", name)
	}
	tree, err := all[i].Make(n.root())
	must(t, err)
	return n, tree
}

// each is a resource with a slot on each device, healthy while its port is active.
func each(selector string, values ...string) entry {
	return entry{ResourceName: "each", RdmaHcaMax: 1, Sharing: "perDevice", Selectors: map[string]any{selector: values}}
}

func TestR25_DriversThatAreLoadedAfterTheStart(t *testing.T) {
	n, tree := made(t, "gpu-node-bond")
	names := []string{"mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3", "mlx5_4", "mlx5_7", "mlx5_bond_0"}
	for _, name := range names {
		must(t, tree.UnbindDriver(name))
	}
	n.serve(each("vendors", "15b3"))
	n.await(fakekubelet.Listed("rdma/each", 0, 0))
	for _, name := range names {
		must(t, tree.BindDriver(name))
	}
	n.await(fakekubelet.Listed("rdma/each", 7, 3)) // InfiniBand is down
}

func TestR27_VirtualFunctionsThatComeAndGo(t *testing.T) {
	n, tree := made(t, "connectx6dx-switchdev")
	n.serve(each("deviceIDs", "101e"))
	n.await(fakekubelet.Listed("rdma/each", 2, 2))
	names, err := tree.AddVFs("mlx5_0", 4)
	must(t, err)
	n.await(fakekubelet.Listed("rdma/each", 6, 6))
	for _, name := range names[:3] {
		must(t, tree.Remove(name))
	}
	n.await(fakekubelet.Listed("rdma/each", 3, 3))
}

func TestR29_DeviceRenamedAHundredTimesIsNeverTwoNorNonsense(t *testing.T) {
	n, tree := made(t, "gpu-node-bond")
	const address = "0000:1f:00.0"
	const scans = 20
	var enough atomic.Bool
	done := make(chan error)
	go func() {
		name := "mlx5_1"
		var err error
		for i := 0; i < 100 || i%2 != 0 || !enough.Load(); i++ {
			next := fmt.Sprint([]string{"rocep31s0f0_", "mlx5_"}[i%2], 100+i%50)
			if err = tree.Rename(name, next); err != nil {
				break
			}
			name = next
		}
		if err == nil {
			err = tree.Rename(name, "mlx5_1")
		}
		done <- err
	}()
	for i, running := 0, true; running; i++ {
		enough.Store(i >= scans)
		select {
		case err := <-done:
			must(t, err)
			running = false
		default:
		}
		var seen []string
		s := n.scan()
		for _, d := range s.GetDevices() {
			if d.GetParent().GetPciAddress() == address {
				seen = append(seen, d.GetName())
			}
		}
		if len(seen) > 1 {
			t.Errorf("a scan found %q", seen)
		}
		if !running && !slices.Equal(seen, []string{"mlx5_1"}) || len(s.GetDevices()) < 7 {
			t.Errorf("in the end there are %d devices, at %s %q", len(s.GetDevices()), address, seen)
		}
	}
}

// A port is switched from InfiniBand to Ethernet.
func TestR34_PortThatIsSwitchedChangesTheResources(t *testing.T) {
	n, tree := made(t, "connectx3-vpi")
	n.serve(pool("fabric", "linkTypes", "infiniband"), pool("roce", "linkTypes", "ether"))
	n.await(fakekubelet.All(fakekubelet.Listed("rdma/fabric", 2, 2), fakekubelet.Listed("rdma/roce", 2, 2)))
	must(t, tree.Change("mlx4_0", func(hca *fakehost.HCA) {
		hca.Ports[0].LinkLayer = fakehost.Ethernet
		hca.Nets[1] = fakehost.Net{Name: "enp130s0", Type: "1", OperState: "up", DevPort: "0"}
	}))
	n.await(fakekubelet.All(fakekubelet.Listed("rdma/fabric", 0, 0), fakekubelet.Listed("rdma/roce", 2, 2)))
}

func TestR45_APodGetsTheFilesOfItsPoolAndNoOthers(t *testing.T) {
	n, _ := made(t, "connectx7-ib-h100")
	a, b := pool("a", "rdmaDevices", "mlx5_2"), pool("b", "rdmaDevices", "mlx5_5")
	a.RdmaHcaMax, b.RdmaHcaMax = 5, 5
	n.serve(a, b)
	for _, test := range []struct {
		resource string
		ids      []string
		want     string
	}{
		{"a", []string{"3"}, "uverbs2 rdma_cm umad2 issm2"},
		{"b", []string{"0", "1", "4"}, "uverbs5 rdma_cm umad5 issm5"},
	} {
		files, variables := n.allocate(test.resource, test.ids...)
		if got := strings.Join(files, " "); got != test.want {
			t.Errorf("%s %v gives %s, want %s", test.resource, test.ids, got, test.want)
		}
		if len(variables) != 2 {
			t.Errorf("variables %q", variables)
		}
	}
	both, err := n.kubelet.AllocateContainers(t.Context(), "rdma/a", []string{"0"}, []string{"1"})
	must(t, err)
	if got := len(both.GetContainerResponses()); got != 2 {
		t.Errorf("%d answers for two containers", got)
	}
	for _, answer := range both.GetContainerResponses() {
		if len(answer.GetDevices()) != 4 {
			t.Errorf("a container gets %v", answer.GetDevices())
		}
	}
}
