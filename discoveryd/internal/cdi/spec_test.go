// What the spec says, read by the CDI library that runtimes use.
//
// SPDX-License-Identifier: Apache-2.0

package cdi

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rdma-relay/rdma-relay/internal/cdiname"
	v1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

const prefix = "rdma-relay.dev/hca="

func TestContainerGetsEveryFileOfItsDevice(t *testing.T) {
	dir := t.TempDir()
	names := newDaemon(t, dir).place(hca(0, 0), hca(1, 1))
	wantNames(t, names, "mlx5_0 0000:10:00.0", "mlx5_1 0000:11:00.0")
	files, rules := inject(t, dir, names["mlx5_1"])
	if want := []string{"rdma_cm c 10:58", "uverbs1 c 231:193", "umad1 c 231:1", "issm1 c 231:65"}; !slices.Equal(files, want) {
		t.Errorf("files %q, want %q", files, want)
	}
	if want := []string{"true c 10:58 rw", "true c 231:193 rw", "true c 231:1 rw", "true c 231:65 rw"}; !slices.Equal(rules, want) {
		t.Errorf("rules %q, want %q", rules, want)
	}
}

// Kubelet merges the names of all resources of a container into one list. Whatever
// stands in it, nothing is lost and rdma_cm comes once.
func TestR65_DevicesOfSeveralResourcesGoTogether(t *testing.T) {
	dir := t.TempDir()
	names := newDaemon(t, dir).place(hca(0, 0), hca(1, 1), hca(2, 2))
	files, rules := inject(t, dir, names["mlx5_0"], names["mlx5_2"], names["mlx5_0"])
	slices.Sort(files)
	want := []string{"issm0 c 231:64", "issm2 c 231:66", "rdma_cm c 10:58", "umad0 c 231:0", "umad2 c 231:2", "uverbs0 c 231:192", "uverbs2 c 231:194"}
	if !slices.Equal(files, want) {
		t.Errorf("files %q, want %q", files, want)
	}
	if n := strings.Count(strings.Join(rules, "\n"), "10:58"); n != 1 {
		t.Errorf("%d rules for rdma_cm: %q", n, rules)
	}
}

func TestTheFileReadsLikeThis(t *testing.T) {
	dir := t.TempDir()
	d := hca(0, 3)
	d.CharDevices = []*v1.CharDevice{d.CharDevices[0], d.CharDevices[3]}
	newDaemon(t, dir).place(d)
	content, err := os.ReadFile(fileAt(dir))
	must(t, err)
	const want = `{
  "cdiVersion": "0.5.0",
  "kind": "rdma-relay.dev/hca",
  "devices": [
    {
      "name": "0000:10:00.0",
      "containerEdits": {
        "deviceNodes": [
          {
            "path": "/dev/infiniband/uverbs3",
            "type": "c",
            "major": 231,
            "minor": 195,
            "permissions": "rw"
          }
        ]
      }
    }
  ],
  "containerEdits": {
    "deviceNodes": [
      {
        "path": "/dev/infiniband/rdma_cm",
        "type": "c",
        "major": 10,
        "minor": 58,
        "permissions": "rw"
      }
    ]
  }
}
`
	if string(content) != want {
		t.Errorf("got %s", content)
	}
}

func TestEveryKindOfDeviceHasAValidName(t *testing.T) {
	sf, rxe, odd, recorded := hca(1, 1), hca(2, 2), hca(3, 3), hca(4, 4)
	sf.Parent.Function, sf.Parent.AuxiliaryName = v1.FunctionKind_FUNCTION_KIND_SF, "mlx5_core.sf.2"
	rxe.Parent, rxe.NodeGuid = &v1.Parent{Bus: v1.Bus_BUS_NONE}, "0250:56ff:fe00:0001"
	odd.Parent, odd.Name = &v1.Parent{}, "mlx5 _3/="
	for _, c := range recorded.CharDevices {
		c.Major, c.Minor = 0, 0
	}
	dir := t.TempDir()
	names := newDaemon(t, dir).place(hca(0, 0), sf, rxe, odd, recorded)
	var want []string
	for _, name := range names {
		want = append(want, strings.TrimPrefix(name, prefix))
	}
	slices.Sort(want)
	wantResolvable(t, dir, want...)
	if len(want) != 5 || want[0] == "" {
		t.Errorf("names %q", want)
	}
}

func TestTheVersionIsTheLowestThatWillDo(t *testing.T) {
	rxe := hca(0, 0)
	rxe.Parent = &v1.Parent{Bus: v1.Bus_BUS_NONE} // its name begins with a letter
	for version, d := range map[string]*v1.Device{"0.3.0": rxe, "0.5.0": hca(0, 0)} {
		s := describe(snapshot(d))
		if _, err := s.encode(); err != nil || s.Version != version {
			t.Errorf("version %s, %v; want %s", s.Version, err, version)
		}
	}
}

func TestOfTwoDevicesWithOneNameTheFirstKeepsIt(t *testing.T) {
	a, b := hca(0, 0), hca(1, 1)
	a.Parent, b.Parent = &v1.Parent{Bus: v1.Bus_BUS_NONE}, &v1.Parent{Bus: v1.Bus_BUS_NONE}
	a.NodeGuid, b.NodeGuid = "0250:56ff:fe00:0001", "0250:56ff:fe00:0001"
	dir := t.TempDir()
	wantNames(t, newDaemon(t, dir).place(a, b), "mlx5_0 guid-0250-56ff-fe00-0001", "mlx5_1 ")
	if files, _ := inject(t, dir, prefix+"guid-0250-56ff-fe00-0001"); len(files) != 4 || !slices.Contains(files, "uverbs0 c 231:192") {
		t.Errorf("files %q", files)
	}
}

// As without CDI: see companion.go of pluginproxy's resources.
func TestR33_EachNodeOfAFunctionIsGivenOnce(t *testing.T) {
	planes, second := hca(1, 11), hca(2, 12)
	planes.Name, planes.CharDevices = "aaa", planes.CharDevices[1:] // no uverbs, and first by name
	planes.Parent.PciAddress, second.Parent.PciAddress = "0000:10:00.0", "0000:10:00.0"
	dir := t.TempDir()
	wantNames(t, newDaemon(t, dir).place(planes, hca(0, 0), second), "aaa ", "mlx5_0 0000:10:00.0", "mlx5_2 ")
	files, _ := inject(t, dir, prefix+"0000:10:00.0")
	want := []string{"rdma_cm c 10:58", "uverbs0 c 231:192", "umad0 c 231:0", "issm0 c 231:64",
		"umad11 c 231:11", "issm11 c 231:75", "uverbs12 c 231:204", "umad12 c 231:12", "issm12 c 231:76"}
	if !slices.Equal(files, want) {
		t.Errorf("files %q, want %q", files, want)
	}
}

func TestOnlyDevicesThatCanBeUsedAreNamed(t *testing.T) {
	bare, noVerbs, strange, limited := hca(0, 0), hca(1, 1), hca(2, 2), hca(3, 3)
	bare.Name = ""
	noVerbs.CharDevices = noVerbs.CharDevices[1:]
	strange.Reasons = []*v1.Reason{{Code: v1.ReasonCode_REASON_CODE_UNREADABLE}}
	limited.Reasons = []*v1.Reason{{Code: v1.ReasonCode_REASON_CODE_NOT_ANSWERING}}
	dir := t.TempDir()
	newDaemon(t, dir).place(bare, noVerbs, strange, limited)
	wantResolvable(t, dir, "0000:13:00.0")
}

func TestAThousandDevices(t *testing.T) {
	var devices []*v1.Device
	for i := range 1024 {
		d := hca(0, i)
		d.Name, d.Parent.PciAddress = fmt.Sprintf("mlx5_%d", i), fmt.Sprintf("%04x:00:00.0", i)
		devices = append(devices, d)
	}
	dir := t.TempDir()
	names := newDaemon(t, dir).place(devices...)
	if got := len(resolvable(t, dir)); got != 1024 || len(names) != 1024 {
		t.Errorf("%d of %d names are found", got, len(names))
	}
}

func BenchmarkPlace(b *testing.B) {
	for _, devices := range []int{8, 1024} {
		s := snapshot()
		for i := range devices {
			d := hca(0, i)
			d.Name, d.Parent.PciAddress = fmt.Sprintf("mlx5_%d", i), fmt.Sprintf("%04x:00:00.0", i)
			s.Devices = append(s.Devices, d)
		}
		b.Run(fmt.Sprintf("unchanged,devices=%d", devices), func(b *testing.B) {
			specs := New(b.TempDir(), discard())
			defer specs.Remove()
			b.ReportAllocs()
			for b.Loop() {
				specs.Place(s)
			}
			if s.Devices[0].GetCdiName() != cdiname.Qualified("0000:00:00.0") {
				b.Fatal(s.GetNode().GetCdi().GetProblem())
			}
		})
	}
}
