// Fuzz test of the spec: whatever a snapshot holds, runtimes can read it.
//
// SPDX-License-Identifier: Apache-2.0

package cdi

import (
	"testing"

	"google.golang.org/protobuf/proto"
	"tags.cncf.io/container-device-interface/pkg/cdi"
	"tags.cncf.io/container-device-interface/pkg/parser"
	"tags.cncf.io/container-device-interface/specs-go"

	v1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

func FuzzDescribe(f *testing.F) {
	odd := hca(3, 3)
	odd.Parent, odd.Name = nil, "a/b=c d"
	odd.CharDevices = append(odd.CharDevices, &v1.CharDevice{}, &v1.CharDevice{Kind: 1, Path: "/dev/mem", Major: 1 << 31})
	nodeless := hca(4, 4)
	nodeless.CharDevices = []*v1.CharDevice{{Kind: v1.CharDeviceKind_CHAR_DEVICE_KIND_UVERBS}}
	for _, s := range []*v1.Snapshot{snapshot(), snapshot(hca(0, 0), hca(1, 1), hca(0, 2)), snapshot(odd, nodeless, &v1.Device{})} {
		data, err := proto.Marshal(s)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s := &v1.Snapshot{}
		if proto.Unmarshal(data, s) != nil {
			return
		}
		wanted := describe(s)
		content, err := wanted.encode()
		if err != nil {
			t.Fatal(err)
		}
		if len(wanted.devices) != len(wanted.Devices) || (content == nil) != (len(wanted.devices) == 0) {
			t.Fatalf("%d names for %d devices, content %q", len(wanted.devices), len(wanted.Devices), content)
		}
		if content == nil {
			return
		}
		for name, good := range wanted.compare(content) {
			if !good {
				t.Errorf("%q is not read as it was written", name)
			}
		}
		check(t, content)
	})
}

// check holds what the library asks of a spec when it reads one.
func check(t *testing.T, content []byte) {
	t.Helper()
	read, err := cdi.ParseSpec(content)
	if err != nil {
		t.Fatalf("%v:\n%s", err, content)
	}
	if err := specs.ValidateVersion(read); err != nil {
		t.Error(err)
	}
	if err := (&cdi.ContainerEdits{ContainerEdits: &read.ContainerEdits}).Validate(); err != nil {
		t.Error(err)
	}
	for i := range read.Devices {
		d := &read.Devices[i]
		if err := parser.ValidateDeviceName(d.Name); err != nil {
			t.Error(err)
		}
		if err := (&cdi.ContainerEdits{ContainerEdits: &d.ContainerEdits}).Validate(); err != nil || len(d.ContainerEdits.DeviceNodes) == 0 {
			t.Errorf("device %q: %v, %d files", d.Name, err, len(d.ContainerEdits.DeviceNodes))
		}
	}
}
