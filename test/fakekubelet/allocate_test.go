// SPDX-License-Identifier: Apache-2.0

package fakekubelet_test

// This file shows Allocate, the choice of devices at a pod's admission, and what the checkpoint keeps.

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/rdma-relay/rdma-relay/test/fakekubelet"
)

// pod asks for n widgets in its one container.
func pod(uid string, n int, numa ...int64) fakekubelet.Pod {
	return fakekubelet.Pod{UID: uid, NUMANodes: numa, Containers: []fakekubelet.Container{{Name: "c", Limits: map[string]int{widget: n}}}}
}

func TestAllocateSendsJustTheGivenIDs(t *testing.T) {
	k := start(t, fakekubelet.Options{})
	p := registered(t, k, 2)
	for _, ids := range [][]string{{"999999"}, nil, {"w0", "w0"}} {
		_, err := k.Allocate(deadline(t), widget, ids...)
		check(t, err)
		if got := p.allocated[len(p.allocated)-1]; !slices.Equal(got, ids) {
			t.Errorf("plugin got %v, want %v", got, ids)
		}
	}
	resp, err := k.AllocateContainers(deadline(t), widget, []string{"w0"}, []string{"w1"})
	check(t, err)
	if len(resp.ContainerResponses) != 2 {
		t.Errorf("%d answers", len(resp.ContainerResponses))
	}
	if _, err := k.Allocate(deadline(t), "test.example/other", "w0"); err == nil {
		t.Error("unknown resource allocated")
	}
	check(t, k.Kill())
	if _, err := k.Allocate(deadline(t), widget, "w0"); !errors.Is(err, fakekubelet.ErrNotRunning) {
		t.Errorf("without kubelet: %v", err)
	}
}

func TestUnannouncedCallsAreNotMade(t *testing.T) {
	k := start(t, fakekubelet.Options{})
	p := registered(t, k, 2)
	if _, err := k.PreferredAllocation(deadline(t), widget, []string{"w0"}, nil, 1); !errors.Is(err, fakekubelet.ErrNotAnnounced) {
		t.Errorf("preferred: %v", err)
	}
	if err := k.PreStartContainer(deadline(t), widget, "w0"); !errors.Is(err, fakekubelet.ErrNotAnnounced) {
		t.Errorf("pre-start: %v", err)
	}
	_, err := k.AllocatePod(deadline(t), pod("a", 1))
	check(t, err)
	if len(p.preferred) != 0 {
		t.Errorf("asked %v", p.preferred)
	}
}

func TestPreferenceOfThePluginIsFollowedAndFilledUp(t *testing.T) {
	k := start(t, fakekubelet.Options{})
	p := serve(t, k.Dir(), "p.sock", "w", 5)
	p.opts = &pluginapi.DevicePluginOptions{GetPreferredAllocationAvailable: true}
	check(t, register(t, k, "p.sock"))
	wait(t, k, fakekubelet.Listed(widget, 5, 5))
	p.prefer = func(*pluginapi.ContainerPreferredAllocationRequest) ([]string, error) {
		return []string{"unknown", "w3"}, nil
	}
	grants, err := k.AllocatePod(deadline(t), pod("a", 2))
	check(t, err)
	if got := grants[0].DeviceIDs; !slices.Equal(got, []string{"w0", "w3"}) {
		t.Errorf("got %v", got)
	}
	if r := p.preferred[0]; len(r.AvailableDeviceIDs) != 5 || r.AllocationSize != 2 {
		t.Errorf("asked %v", r)
	}
	p.prefer = func(*pluginapi.ContainerPreferredAllocationRequest) ([]string, error) { return nil, errors.New("no") }
	if _, err := k.AllocatePod(deadline(t), pod("b", 1)); err == nil || !strings.Contains(err.Error(), "GetPreferredAllocation") {
		t.Errorf("error of the plugin: %v", err)
	}
}

func TestDevicesNearTheHintComeFirst(t *testing.T) {
	k := start(t, fakekubelet.Options{})
	p := registered(t, k, 1)
	ds := devices("w", 4)
	for i, node := range []int64{0, 0, 1, 1} {
		ds[i].Topology = &pluginapi.TopologyInfo{Nodes: []*pluginapi.NUMANode{{ID: node}}}
	}
	p.list(append(ds, &pluginapi.Device{ID: "a", Health: pluginapi.Healthy}))
	wait(t, k, fakekubelet.Listed(widget, 5, 5))
	for _, want := range [][]string{{"w2", "w3"}, {"w0", "w1"}} {
		grants, err := k.AllocatePod(deadline(t), pod(want[0], 2, 1))
		check(t, err)
		if got := grants[0].DeviceIDs; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
}

func TestThePluginIsAskedAboutTheNearDevicesWhileTheySuffice(t *testing.T) {
	k := start(t, fakekubelet.Options{})
	p := serve(t, k.Dir(), "p.sock", "w", 4)
	p.opts = &pluginapi.DevicePluginOptions{GetPreferredAllocationAvailable: true}
	p.prefer = func(*pluginapi.ContainerPreferredAllocationRequest) ([]string, error) { return nil, nil }
	for i, node := range []int64{1, 1, 0} { // w0 has none
		p.devices[1+i].Topology = &pluginapi.TopologyInfo{Nodes: []*pluginapi.NUMANode{{ID: node}}}
	}
	check(t, register(t, k, "p.sock"))
	wait(t, k, fakekubelet.Listed(widget, 4, 4))
	for i, tc := range []struct {
		size                     int
		available, must, granted []string
	}{
		{1, []string{"w1", "w2"}, nil, []string{"w1"}},
		{3, []string{"w0", "w1", "w2", "w3"}, []string{"w1", "w2"}, []string{"w1", "w2", "w3"}},
	} {
		grants, err := k.AllocatePod(deadline(t), pod("a", tc.size, 1))
		check(t, err)
		if got := grants[0].DeviceIDs; !slices.Equal(got, tc.granted) {
			t.Errorf("granted %v, want %v", got, tc.granted)
		}
		if r := p.preferred[i]; !slices.Equal(r.AvailableDeviceIDs, tc.available) || !slices.Equal(r.MustIncludeDeviceIDs, tc.must) {
			t.Errorf("asked %v, want %+v", r, tc)
		}
		check(t, k.RemovePod("a"))
	}
}

func TestAdmissionErrors(t *testing.T) {
	k := start(t, fakekubelet.Options{})
	admit := func(p fakekubelet.Pod, want string) {
		t.Helper()
		if _, err := k.AllocatePod(deadline(t), p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	admit(pod("a", 1), "cannot allocate unregistered device")
	p := registered(t, k, 2)
	_, err := k.AllocatePod(deadline(t), pod("a", 1))
	check(t, err)
	admit(pod("b", 2), "Requested: 2, Available: 1")
	p.list(devices("w", 2)[1:])
	wait(t, k, fakekubelet.Listed(widget, 1, 1))
	admit(pod("a", 1), "previously allocated devices are no longer healthy")
	check(t, k.DropStream(widget))
	wait(t, k, fakekubelet.Listed(widget, 1, 0))
	admit(pod("b", 1), "no healthy devices present")
	if got := k.State().Allocated[widget]; !slices.Equal(got, []string{"w0"}) {
		t.Errorf("allocated %v", got)
	}
}

func TestCheckpointKeepsGrantsOverRestarts(t *testing.T) {
	k := start(t, fakekubelet.Options{})
	p := registered(t, k, 3)
	want, err := k.AllocatePod(deadline(t), pod("a", 2))
	check(t, err)
	check(t, k.Kill())
	check(t, k.Start())
	s := k.State()
	if !slices.Equal(s.Allocated[widget], want[0].DeviceIDs) || !s.Resources[widget].Stopped {
		t.Errorf("after the restart: %v, allocated %v", s, s.Allocated)
	}
	p.stop()
	p.listen(t)
	check(t, register(t, k, "p.sock"))
	wait(t, k, fakekubelet.Listed(widget, 3, 3))
	got, err := k.AllocatePod(deadline(t), pod("a", 2)) // replayed
	check(t, err)
	if got[0].Response.GetEnvs()["SOCKET"] != p.path || len(p.allocated) != 1 {
		t.Errorf("replayed %v after %d calls", got, len(p.allocated))
	}
	if _, err := k.AllocatePod(deadline(t), pod("b", 2)); err == nil {
		t.Error("the pod's devices were given away")
	}
	check(t, k.RemovePod("a"))
	_, err = k.AllocatePod(deadline(t), pod("b", 2))
	check(t, err)

	check(t, k.Kill())
	check(t, os.WriteFile(filepath.Join(k.Dir(), "kubelet_internal_checkpoint"), []byte("{"), 0o600))
	check(t, k.Start())
	if n := len(k.State().Allocated); n != 0 {
		t.Errorf("%d resources allocated by a broken checkpoint", n)
	}
}

func TestCheckpointNamesTheResourcesThatHaveListed(t *testing.T) {
	k := start(t, fakekubelet.Options{})
	p := registered(t, k, 1)
	p.list(devices("w", 2)) // taken only after the checkpoint of the first list is written
	wait(t, k, fakekubelet.Listed(widget, 2, 2))
	check(t, k.Kill())
	check(t, k.Start())
	if _, err := k.AllocatePod(deadline(t), pod("a", 1)); err == nil || !strings.Contains(err.Error(), "no healthy devices present") {
		t.Errorf("before the plugin is back: %v", err)
	}
}
