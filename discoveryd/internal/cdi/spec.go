// What the spec says: the files of each device, from the snapshot alone.
//
// SPDX-License-Identifier: Apache-2.0

package cdi

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/rdma-relay/rdma-relay/internal/cdiname"
	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

// spec is what the file should say.
type spec struct {
	specs.Spec
	devices map[string]*discoveryv1.Device // by CDI name
}

// describe names each device that a container can be given. Where two have the
// same name the one whose RDMA name sorts first keeps it: the snapshot is sorted.
// A PCI function is given whole: where it has further RDMA devices their files go
// with those of the first.
//
// rdma_cm is the node's, not a device's. It stands in the edits for the whole spec,
// which a runtime applies once, so that a container with several devices doesn't
// get it several times.
func describe(snapshot *discoveryv1.Snapshot) *spec {
	s := &spec{devices: map[string]*discoveryv1.Device{}}
	s.Kind = cdiname.Kind
	edits := map[string]*specs.ContainerEdits{}
	for _, d := range snapshot.GetDevices() {
		name := cdiname.Device(d)
		if s.devices[name] == nil && usable(d) && has(d, discoveryv1.CharDeviceKind_CHAR_DEVICE_KIND_UVERBS) {
			s.devices[name], edits[name] = d, &specs.ContainerEdits{}
			s.give(edits[name], d)
		}
	}
	for _, d := range snapshot.GetDevices() {
		name := cdiname.Device(d)
		if first := s.devices[name]; first != nil && first != d && usable(d) && d.GetParent().GetPciAddress() != "" {
			s.give(edits[name], d)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(edits)) {
		s.Devices = append(s.Devices, specs.Device{Name: name, ContainerEdits: *edits[name]})
	}
	return s
}

// give adds the device's files.
func (s *spec) give(edits *specs.ContainerEdits, d *discoveryv1.Device) {
	for _, c := range files(d) {
		if c.GetKind() != discoveryv1.CharDeviceKind_CHAR_DEVICE_KIND_RDMA_CM {
			edits.DeviceNodes = append(edits.DeviceNodes, node(c))
		} else if s.ContainerEdits.DeviceNodes == nil {
			s.ContainerEdits.DeviceNodes = []*specs.DeviceNode{node(c)}
		}
	}
}

// usable tells whether the device's facts can be relied on. One whose facts make no
// sense might bear another's name.
func usable(d *discoveryv1.Device) bool {
	return d.GetName() != "" && !slices.ContainsFunc(d.GetReasons(), func(r *discoveryv1.Reason) bool {
		return r.GetCode() == discoveryv1.ReasonCode_REASON_CODE_UNREADABLE
	})
}

// files are those that a container may be given. One with a bad path would make the
// whole spec invalid.
func files(d *discoveryv1.Device) []*discoveryv1.CharDevice {
	return slices.DeleteFunc(slices.Clone(d.GetCharDevices()), func(c *discoveryv1.CharDevice) bool {
		return !strings.HasPrefix(c.GetPath(), "/dev/infiniband/")
	})
}

func has(d *discoveryv1.Device, kind discoveryv1.CharDeviceKind) bool {
	return slices.ContainsFunc(files(d), func(c *discoveryv1.CharDevice) bool { return c.GetKind() == kind })
}

// node gives a container a file under its path on the host. Where the numbers are
// not known, as in a recorded tree, the runtime reads them from the file.
func node(c *discoveryv1.CharDevice) *specs.DeviceNode {
	return &specs.DeviceNode{
		Path: c.GetPath(), Type: "c", Permissions: "rw",
		Major: int64(c.GetMajor()), Minor: int64(c.GetMinor()),
	}
}

// encode gives the file's content; nil where there is nothing to say, since a spec
// without a device is not a valid one. The version is the lowest that will do, so
// that old runtimes read it.
func (s *spec) encode() ([]byte, error) {
	if len(s.Devices) == 0 {
		return nil, nil
	}
	version, err := specs.MinimumRequiredVersion(&s.Spec)
	if err != nil {
		return nil, fmt.Errorf("version of the CDI spec: %w", err)
	}
	s.Version = version
	content, err := json.MarshalIndent(s.Spec, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode the CDI spec: %w", err)
	}
	return append(content, '\n'), nil
}

// compare tells which devices another content describes as s does.
func (s *spec) compare(content []byte) map[string]bool {
	other, edits := decode(content)
	same := map[string]bool{}
	for _, d := range s.Devices {
		same[d.Name] = reflect.DeepEqual(edits[d.Name], d.ContainerEdits) && reflect.DeepEqual(other.ContainerEdits, s.ContainerEdits)
	}
	return same
}

// names tells which devices another content describes in some way.
func (s *spec) names(content []byte) map[string]bool {
	_, edits := decode(content)
	named := map[string]bool{}
	for _, d := range s.Devices {
		_, named[d.Name] = edits[d.Name]
	}
	return named
}

// decode reads a content of ours; of another it gives nothing.
func decode(content []byte) (other specs.Spec, edits map[string]specs.ContainerEdits) {
	edits = map[string]specs.ContainerEdits{}
	if json.Unmarshal(content, &other) != nil || other.Kind != cdiname.Kind {
		return specs.Spec{}, edits
	}
	for _, d := range other.Devices {
		edits[d.Name] = d.ContainerEdits
	}
	return other, edits
}
