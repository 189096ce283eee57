// The daemon with --cdi-dir: what the stream names is in the spec.
//
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/rdma-relay/rdma-relay/discoveryd/internal/cdi"
	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
	"github.com/rdma-relay/rdma-relay/test/fakehost"
)

// described tells which paths the spec in dir gives for each CDI name.
func described(t *testing.T, dir string) map[string][]string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dir, cdi.FileName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	must(t, err)
	var spec specs.Spec
	must(t, json.Unmarshal(content, &spec))
	paths := map[string][]string{}
	for _, d := range spec.Devices {
		for _, node := range d.ContainerEdits.DeviceNodes {
			paths[spec.Kind+"="+d.Name] = append(paths[spec.Kind+"="+d.Name], node.Path)
		}
	}
	return paths
}

// named wants the device to have a name, under which the spec describes the uverbs
// file that the snapshot has.
func named(t *testing.T, dir string, d *discoveryv1.Device) {
	t.Helper()
	paths := described(t, dir)[d.GetCdiName()]
	if len(paths) == 0 || paths[0] != d.GetCharDevices()[0].GetPath() {
		t.Errorf("%s is named %q, for which the spec has %q", d.GetName(), d.GetCdiName(), paths)
	}
}

// R64: when the snapshot comes the spec is there, whatever has changed.
func TestR64_SpecIsInPlaceBeforeTheSnapshotThatNamesIt(t *testing.T) {
	host, socket := newHost(t)
	opts := options(host, socket)
	opts.CDIDir = filepath.Join(t.TempDir(), "cdi")
	must(t, host.Remove("mlx5_0"))
	d := start(t, opts)
	s := watch(t, socket)
	if first := until(t, s, has()); first.GetNode().GetCdi() == nil || first.GetNode().GetCdi().GetProblem() != "" {
		t.Errorf("node is %v", first.GetNode())
	}
	for n := range 5 {
		must(t, host.Add(fakehost.HCA{PCI: "0000:5e:00.0", Name: "mlx5_1", Index: n})) // other files each time
		named(t, opts.CDIDir, until(t, s, has("mlx5_1")).GetDevices()[0])
		must(t, host.Remove("mlx5_1"))
		until(t, s, has())
		if got := described(t, opts.CDIDir); len(got) != 0 {
			t.Errorf("the spec still has %q", got)
		}
	}
	must(t, host.Add(fakehost.HCA{PCI: "0000:5e:00.0", Name: "mlx5_1", Index: 1}))
	until(t, s, has("mlx5_1"))
	foreign := filepath.Join(opts.CDIDir, "rdma-relay.dev-other.yaml")
	must(t, os.WriteFile(foreign, []byte("{{{"), 0o600))
	must(t, d.stop())
	entries, err := os.ReadDir(opts.CDIDir)
	must(t, err)
	if len(entries) != 1 || entries[0].Name() != filepath.Base(foreign) {
		t.Errorf("the end leaves %v", entries)
	}
}

func TestR67_CDIDirectoryThatCanNotBeUsedHoldsUpNothing(t *testing.T) {
	host, socket := newHost(t)
	opts := options(host, socket)
	parent := filepath.Join(t.TempDir(), "run")
	opts.CDIDir = filepath.Join(parent, "cdi")
	start(t, opts)
	s := watch(t, socket)
	first := until(t, s, has("mlx5_0"))
	if first.GetNode().GetCdi().GetProblem() == "" || first.GetDevices()[0].GetCdiName() != "" {
		t.Errorf("snapshot is %v", first)
	}
	must(t, os.Mkdir(parent, 0o700))
	mended := until(t, s, func(s *discoveryv1.Snapshot) bool { return s.GetNode().GetCdi().GetProblem() == "" })
	named(t, opts.CDIDir, mended.GetDevices()[0])
}

func TestWithoutADirectoryThereIsNoCDI(t *testing.T) {
	host, socket := newHost(t)
	start(t, options(host, socket))
	s := until(t, watch(t, socket), has("mlx5_0"))
	if s.GetNode().GetCdi() != nil || s.GetDevices()[0].GetCdiName() != "" {
		t.Errorf("snapshot is %v", s)
	}
}
