// Tests of cdi: true: names instead of files, and what becomes of devices without.
//
// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"slices"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/rdma-relay/rdma-relay/internal/cdiname"
	v1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

const (
	cdiPool      = `{"resourceName":"hca","rdmaHcaMax":1,"cdi":true,"selectors":{"linkTypes":["ether"]}}`
	cdiPerDevice = `{"resourceName":"hca","sharing":"perDevice","rdmaHcaMax":1,"cdi":true,"selectors":{"linkTypes":["ether"]}}`
)

// inCDI is a snapshot whose devices all have CDI names.
func inCDI(devices ...*v1.Device) *v1.Snapshot {
	for _, d := range devices {
		d.CdiName = cdiname.Qualified(cdiname.Device(d))
	}
	return &v1.Snapshot{Node: &v1.Node{Cdi: &v1.Cdi{}}, Devices: devices}
}

// unnamed takes the CDI names of the devices away, for the problem.
func unnamed(snap *v1.Snapshot, problem string, indexes ...int) *v1.Snapshot {
	snap.Node.Cdi.Problem = problem
	for _, i := range indexes {
		snap.Devices[i].CdiName = ""
	}
	return snap
}

func buildCDI(t *testing.T, entry string, snap *v1.Snapshot) *Resource {
	t.Helper()
	return Build(conf(t, entry), snap, Options{})[0]
}

func wantCDI(t *testing.T, r *Resource, ids []string, want ...string) {
	t.Helper()
	answer := mustAllocate(t, r, ids...)
	var names []string
	for _, d := range answer.CdiDevices {
		names = append(names, d.Name)
	}
	if !slices.Equal(names, want) || len(answer.Devices)+len(answer.Mounts)+len(answer.Annotations) != 0 {
		t.Errorf("CDI devices %q, want %q; answer %v", names, want, answer)
	}
}

func TestWithCDINamesAreGivenInsteadOfFiles(t *testing.T) {
	r := buildCDI(t, cdiPool, inCDI(hca(0), rxe("rxe0", "eth0")))
	wantIDs(t, r, "0")
	wantCDI(t, r, []string{"0"}, "rdma-relay.dev/hca=0000:3b:00.0", "rdma-relay.dev/hca=name-rxe0")
	if env := mustAllocate(t, r, "0").Envs; env["PCIDEVICE_RDMA_HCA"] != "0000:3b:00.0" || env["RDMADEVICE_RDMA_HCA"] != "mlx5_0,rxe0" {
		t.Errorf("environment %v", env)
	}
}

// R64: the list and the answer follow the names that are in place, from none on.
func TestR64_PoolThatWasEmptyIsGivenByTheNamesOfNow(t *testing.T) {
	r := buildCDI(t, cdiPool, inCDI())
	wantIDs(t, r)
	_, err := r.Allocate([]string{"0"})
	wantCode(t, err, codes.FailedPrecondition, "no RDMA device is there now")
	r = buildCDI(t, cdiPool, inCDI(hca(4)))
	wantCDI(t, r, []string{"0"}, "rdma-relay.dev/hca=0000:3f:00.0")
	r = buildCDI(t, cdiPool, inCDI(hca(5)))
	wantCDI(t, r, []string{"0"}, "rdma-relay.dev/hca=0000:40:00.0")
}

// R65: a container may have several such resources; their answers hold only names,
// of which kubelet makes one list, and no annotation that one could overwrite.
func TestR65_TwoResourcesOfOneContainerAddUp(t *testing.T) {
	rs := Build(conf(t, `{"resourceName":"a","rdmaHcaMax":1,"cdi":true,"selectors":{"ifNames":["ens0"]}}`,
		`{"resourceName":"b","rdmaHcaMax":1,"cdi":true,"selectors":{"vendors":["15b3"]}}`), inCDI(hca(0), hca(1)), Options{})
	wantCDI(t, rs[0], []string{"0"}, "rdma-relay.dev/hca=0000:3b:00.0")
	wantCDI(t, rs[1], []string{"0"}, "rdma-relay.dev/hca=0000:3b:00.0", "rdma-relay.dev/hca=0000:3c:00.0")
}

// R67: a name that no spec explains is never given.
func TestR67_DeviceWithoutACDINameIsUnhealthyWithTheReason(t *testing.T) {
	for reason, snap := range map[string]*v1.Snapshot{
		"it has no CDI name: discoveryd keeps no CDI spec; give it --cdi-dir": snapshot(hca(0)),
		"it has no CDI name: the disk is full":                                unnamed(inCDI(hca(0)), "the disk is full", 0),
		"it has no CDI name: the CDI spec does not describe it":               unnamed(inCDI(hca(0)), "", 0),
	} {
		r := buildCDI(t, cdiPool, snap)
		wantIDs(t, r, "-0")
		wantHint(t, r, reason)
		if got := r.HCAs[0]; got.Healthy || got.Reason != reason {
			t.Errorf("HCA %+v, want %q", got, reason)
		}
		_, err := r.Allocate([]string{"0"})
		wantCode(t, err, codes.FailedPrecondition, "rdma/hca", "mlx5_0", reason)
		// Resources that give files don't care.
		wantIDs(t, Build(conf(t, pool("")), snap, Options{})[0], "0", "1", "2")
	}
}

func TestOfAPoolOnlyDevicesWithACDINameAreGiven(t *testing.T) {
	r := buildCDI(t, cdiPool, unnamed(inCDI(hca(0), hca(1)), "the disk is full", 1))
	wantIDs(t, r, "0")
	wantCDI(t, r, []string{"0"}, "rdma-relay.dev/hca=0000:3b:00.0")
	if env := mustAllocate(t, r, "0").Envs; env["RDMADEVICE_RDMA_HCA"] != "mlx5_0" {
		t.Errorf("environment %v", env)
	}

	r = buildCDI(t, cdiPerDevice, unnamed(inCDI(hca(0), hca(1)), "the disk is full", 1))
	wantIDs(t, r, "0000:3b:00.0-0", "-0000:3c:00.0-0")
	wantCDI(t, r, []string{"0000:3b:00.0-0"}, "rdma-relay.dev/hca=0000:3b:00.0")
	_, err := r.Allocate([]string{"0000:3b:00.0-0", "0000:3c:00.0-0"})
	wantCode(t, err, codes.FailedPrecondition, "mlx5_1", "the disk is full")
}

func TestNamesOfOtherVendorsAreNotGiven(t *testing.T) {
	for _, name := range []string{"nvidia.com/gpu=all", "rdma-relay.dev/hca=", "rdma-relay.dev/hca=a,nvidia.com/gpu=all", "0000:3b:00.0"} {
		snap := inCDI(hca(0))
		snap.Devices[0].CdiName = name
		wantIDs(t, buildCDI(t, cdiPool, snap), "-0")
	}
}
