// Each verb does to the tree what the kernel does, and readers never meet a half
// written file.
//
// SPDX-License-Identifier: Apache-2.0

package fakehost

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// text is what a file of the tree says; "absent" when there is none.
func text(t *testing.T, h *Host, path string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(h.Root(), path))
	if errors.Is(err, fs.ErrNotExist) {
		return "absent"
	}
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(string(data), "\n")
}

// names are the entries of a directory of the tree.
func names(t *testing.T, h *Host, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(h.Root(), dir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	var list []string
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return strings.Join(list, " ")
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func expect(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s is %q, want %q", what, got, want)
	}
}

const portDir = "sys/class/infiniband/mlx5_0/ports/1/"

func TestPortAndCarrierFollowTheVerbs(t *testing.T) {
	h := newHost(t)
	add(t, h, HCA{PCI: "0000:3b:00.0", Name: "mlx5_0", Nets: Nets("eth0"), Complete: true})
	expect(t, "physical state", text(t, h, portDir+"phys_state"), "5: LinkUp")
	must(t, h.SetPortState("mlx5_0", 1, StateDown))
	must(t, h.SetLinkLayer("mlx5_0", 1, InfiniBand))
	must(t, h.SetCarrier("eth0", false))
	expect(t, "state", text(t, h, portDir+"state"), StateDown)
	expect(t, "physical state", text(t, h, portDir+"phys_state"), "2: Polling")
	expect(t, "link layer", text(t, h, portDir+"link_layer"), InfiniBand)
	expect(t, "carrier", text(t, h, "sys/class/net/eth0/carrier"), "0")
	expect(t, "operstate", text(t, h, "sys/class/net/eth0/operstate"), "down")
	must(t, h.SetCarrier("eth0", true))
	expect(t, "operstate", text(t, h, "sys/class/net/eth0/operstate"), "up")

	for name, err := range map[string]error{
		"port":   h.SetPortState("mlx5_0", 2, StateDown),
		"device": h.SetPortState("mlx5_9", 1, StateDown),
		"net":    h.SetCarrier("eth9", true),
		"place":  h.Change("mlx5_0", func(hca *HCA) { hca.Root = "pci0000:80" }),
	} {
		if err == nil {
			t.Errorf("unknown %s: no error", name)
		}
	}
}

func TestRenameMovesOneDeviceAndKeepsItsFiles(t *testing.T) {
	h := newHost(t)
	add(t, h, HCA{PCI: "0000:3b:00.0", Name: "mlx5_0"})
	before := listing(t, h.Root())
	must(t, h.Rename("mlx5_0", "rocep59s0f0"))
	expect(t, "class", names(t, h, "sys/class/infiniband"), "rocep59s0f0")
	expect(t, "ibdev", text(t, h, "sys/class/infiniband_verbs/uverbs0/ibdev"), "rocep59s0f0")
	expect(t, "ibdev", text(t, h, "sys/class/infiniband_mad/umad0/ibdev"), "rocep59s0f0")
	must(t, h.SetPortState("rocep59s0f0", 1, StateActive))
	must(t, h.Rename("rocep59s0f0", "mlx5_0"))
	same(t, listing(t, h.Root()), before)
	must(t, h.Remove("mlx5_0"))
	expect(t, "devices", names(t, h, "sys/devices"), "")
}

func TestUnboundFunctionKeepsOnlyItself(t *testing.T) {
	h := newHost(t)
	add(t, h, HCA{PCI: "0000:3b:00.0", Name: "mlx5_0"})
	before := listing(t, h.Root())
	must(t, h.UnbindDriver("mlx5_0"))
	expect(t, "class", names(t, h, "sys/class/infiniband"), "")
	expect(t, "function", names(t, h, "sys/bus/pci/devices/0000:3b:00.0"), "class device numa_node vendor")
	expect(t, "device files", names(t, h, "dev/infiniband"), "rdma_cm")
	must(t, h.BindDriver("mlx5_0"))
	same(t, listing(t, h.Root()), before)
}

func TestVFsAppearBelowTheirPFAndGoWithIt(t *testing.T) {
	h := newHost(t)
	add(t, h,
		HCA{PCI: "0000:3b:00.0", Name: "mlx5_0", TotalVFs: 4, Root: "pci0000:3a", Bridge: "0000:3a:00.0"},
		HCA{PCI: "0000:3b:00.1", Name: "mlx5_1", Index: 1})
	vfs, err := h.AddVFs("mlx5_0", 2)
	must(t, err)
	if want := []string{"mlx5_2", "mlx5_3"}; !slices.Equal(vfs, want) {
		t.Fatalf("VFs are %v, want %v", vfs, want)
	}
	pf := "sys/bus/pci/devices/0000:3b:00.0/"
	expect(t, "number", text(t, h, pf+"sriov_numvfs"), "2")
	expect(t, "VF", text(t, h, pf+"virtfn0/device"), "0x1018")
	expect(t, "PF of the VF", text(t, h, "sys/class/infiniband/mlx5_3/device/physfn/device"), "0x1017")
	expect(t, "devices", names(t, h, "sys/devices/pci0000:3a/0000:3a:00.0"), "0000:3b:00.0 0000:3b:00.2 0000:3b:00.3")
	must(t, h.Remove("mlx5_3"))
	expect(t, "number", text(t, h, pf+"sriov_numvfs"), "1")
	must(t, h.Remove("mlx5_0"))
	expect(t, "class", names(t, h, "sys/class/infiniband"), "mlx5_1")
	expect(t, "devices", names(t, h, "sys/devices"), "pci0000:00")
}

func TestDeviceFilesComeAndGo(t *testing.T) {
	h := newHost(t)
	add(t, h, HCA{PCI: "0000:3b:00.0", Name: "mlx5_0"})
	must(t, h.RemoveChar("umad0"))
	must(t, h.RemoveRdmaCM())
	must(t, h.Renumber("mlx5_0", 5))
	add(t, h, HCA{PCI: "0000:3b:00.1", Name: "mlx5_1", Index: 1})
	expect(t, "device files", names(t, h, "dev/infiniband"), "issm0 issm1 umad1 uverbs1 uverbs5")
	expect(t, "class", names(t, h, "sys/class/infiniband_mad"), "issm0 issm1 umad0 umad1")
	must(t, h.RestoreChar("umad0"))
	must(t, h.AddRdmaCM())
	expect(t, "device files", names(t, h, "dev/infiniband"), "issm0 issm1 rdma_cm umad0 umad1 uverbs1 uverbs5")
}

func TestFunctionGetsItsRDMADeviceLater(t *testing.T) {
	h, want := newHost(t), newHost(t)
	add(t, h, HCA{PCI: "0000:3b:00.0", Name: None}, HCA{PCI: "0000:3b:00.0", Name: "mlx5_0"})
	add(t, want, HCA{PCI: "0000:3b:00.0", Name: "mlx5_0"})
	same(t, listing(t, h.Root()), listing(t, want.Root()))
}

func TestReadersNeverMeetAHalfWrittenFile(t *testing.T) {
	h := newHost(t)
	add(t, h, HCA{PCI: "0000:3b:00.0", Name: "mlx5_0"})
	i := 0
	whileReading(t, 60, func() error {
		i++
		return h.SetPortState("mlx5_0", 1, []string{StateDown, StateActive}[i%2])
	}, func() {
		if got := text(t, h, portDir+"state"); got != StateDown && got != StateActive {
			t.Errorf("read %q", got)
		}
	})
}

func TestReadersNeverMeetBothNamesOfADevice(t *testing.T) {
	h := newHost(t)
	add(t, h, HCA{PCI: "0000:3b:00.0", Name: "mlx5_0"})
	now, next := "mlx5_0", "rocep59s0f0"
	whileReading(t, 25, func() error {
		defer func() { now, next = next, now }()
		return h.Rename(now, next)
	}, func() {
		if got := names(t, h, "sys/class/infiniband"); strings.Contains(got, " ") {
			t.Errorf("class holds %q", got)
		}
	})
}

// whileReading reads over and over while another goroutine changes the tree.
func whileReading(t *testing.T, times int, change func() error, read func()) {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		var err error
		for i := 0; i < times && err == nil; i++ {
			err = change()
		}
		done <- err
	}()
	for {
		select {
		case err := <-done:
			must(t, err)
			return
		default:
			read()
		}
	}
}

func TestDeviceEntersItsClassLastAndLeavesItFirst(t *testing.T) {
	for _, hca := range []HCA{
		{PCI: "0000:3b:00.0", Name: "mlx5_0", Complete: true},
		{PCI: "0000:3b:00.0", Name: "mlx5_0", Aux: "mlx5_core.sf.2"},
		{Name: "mlx5_0", Virtual: true, Nets: Nets("eth0")},
	} {
		l := device{HCA: hca.withDefaults(2)}.layout()
		_, changed, _ := difference(nil, l)
		gone, _, _ := difference(l, nil)
		expect(t, "last to come", changed[len(changed)-1].path, "sys/class/infiniband/mlx5_0")
		expect(t, "first to go", gone[0].path, "sys/class/infiniband/mlx5_0")
	}
}

func TestReadyMadeHosts(t *testing.T) {
	node, err := GPUNode8(t.TempDir())
	must(t, err)
	expect(t, "class", names(t, node, "sys/class/infiniband"), "mlx5_0 mlx5_1 mlx5_2 mlx5_3 mlx5_4 mlx5_5 mlx5_6 mlx5_7")
	expect(t, "roots", names(t, node, "sys/devices"), "pci0000:15 pci0000:3d pci0000:4c pci0000:5b pci0000:97 pci0000:bd pci0000:cb pci0000:d9")
	expect(t, "NUMA node", text(t, node, "sys/class/infiniband/mlx5_4/device/numa_node"), "1")
	expect(t, "type of RoCE", text(t, node, "sys/class/net/ens8np0/type"), "1")
	expect(t, "type of IPoIB", text(t, node, "sys/class/net/ibp24s0/type"), "32")
	expect(t, "uverbs number", text(t, node, "sys/class/infiniband_verbs/uverbs7/dev"), "231:199")

	several, err := many(t.TempDir(), 5, 4)
	must(t, err)
	listing(t, several.Root()) // no dangling link
	expect(t, "VFs of the first", text(t, several, "sys/bus/pci/devices/0000:10:00.0/sriov_numvfs"), "3")
	expect(t, "VFs of the second", text(t, several, "sys/bus/pci/devices/0000:11:00.0/sriov_numvfs"), "0")
}

func TestEveryKindIsAWholeTree(t *testing.T) {
	for _, kind := range Kinds() {
		t.Run(kind.Name, func(t *testing.T) {
			h, err := kind.Make(t.TempDir())
			must(t, err)
			listing(t, h.Root()) // no dangling link
			if names(t, h, "sys/class/infiniband") == "" || kind.About == "" {
				t.Error("no RDMA device, or nothing said of it")
			}
		})
	}
	if _, err := MakeKind(t.TempDir(), "none"); err == nil {
		t.Error("made a kind that there isn't")
	}
}
