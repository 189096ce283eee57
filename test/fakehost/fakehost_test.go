// What is written is what the reports' shell function writes, and what is
// taken away leaves nothing behind.
//
// SPDX-License-Identifier: Apache-2.0

package fakehost

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// listing tells of every file, link and device node below dir in one line each.
func listing(t *testing.T, dir string) []string {
	t.Helper()
	var lines []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		switch {
		case d.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			if _, err := os.Stat(path); err != nil {
				return fmt.Errorf("dangling link: %w", err)
			}
			lines = append(lines, rel+" -> "+target)
		case d.Type().IsRegular():
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			lines = append(lines, fmt.Sprintf("%s = %q", rel, text))
		default:
			lines = append(lines, rel+" "+d.Type().String())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// same compares two listings and shows only where they differ.
func same(t *testing.T, got, want []string) {
	t.Helper()
	diff := map[string]string{}
	for _, line := range got {
		if !slices.Contains(want, line) {
			diff[line] = "not wanted"
		}
	}
	for _, line := range want {
		if !slices.Contains(got, line) {
			diff[line] = "missing"
		}
	}
	for _, line := range slices.Sorted(maps.Keys(diff)) {
		t.Errorf("%s: %s", diff[line], line)
	}
}

func newHost(t *testing.T, options ...Option) *Host {
	t.Helper()
	h, err := New(t.TempDir(), options...)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func add(t *testing.T, h *Host, hcas ...HCA) {
	t.Helper()
	for _, hca := range hcas {
		if err := h.Add(hca); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTreeIsTheOneOfTheReports(t *testing.T) {
	for _, test := range []struct {
		name  string
		shell string
		hcas  []HCA
	}{
		{"defaults", "mkhca 0000:3b:00.0 mlx5_0 0", []HCA{{PCI: "0000:3b:00.0", Name: "mlx5_0"}}},
		{"T1", "mkhca 0000:3b:00.0 mlx5_0 0 nets=ens1f0np0", []HCA{{PCI: "0000:3b:00.0", Name: "mlx5_0", Nets: Nets("ens1f0np0")}}},
		{"no RDMA device", "mkhca 0000:3b:00.0 - 0 nets=ens1f0np0", []HCA{{PCI: "0000:3b:00.0", Name: None, Nets: Nets("ens1f0np0")}}},
		{"driver unbound", "mkhca 0000:3b:00.0 mlx5_0 0 driver=-", []HCA{{PCI: "0000:3b:00.0", Name: "mlx5_0", Driver: None}}},
		{"every key", "mkhca 0000:5e:00.1 mlx4_0 3 vendor=0x15b4 device=0x1007 class=0x028000 driver=mlx4_core ll=InfiniBand state='1: DOWN' numa=-1 nets=ib0,ib1 ports=2 nodes=uverbs,umad", []HCA{{
			PCI: "0000:5e:00.1", Name: "mlx4_0", Index: 3, Vendor: "0x15b4", Device: "0x1007", Class: "0x028000", Driver: "mlx4_core", NUMA: "-1", Nets: Nets("ib0", "ib1"),
			Ports: []Port{{LinkLayer: InfiniBand, State: StateDown}, {LinkLayer: InfiniBand, State: StateDown}}, Chars: Chars(3, "uverbs", "umad"),
		}}},
		{"no net, no ports, no nodes", "mkdir -p $R/sys/devices/pci0000:00/0000:3b:00.0/infiniband/mlx5_0; mkhca 0000:3b:00.0 mlx5_0 0 nets=- ports=0 nodes=", []HCA{{PCI: "0000:3b:00.0", Name: "mlx5_0", Nets: []Net{}, Ports: []Port{}, Chars: []Char{}}}},
		{"several", "mkhca 0000:3b:00.0 mlx5_0 0; mkhca 0000:3b:00.1 mlx5_1 1; mkhca 0000:5e:00.0 mlx5_2 2", []HCA{{PCI: "0000:3b:00.0", Name: "mlx5_0"}, {PCI: "0000:3b:00.1", Name: "mlx5_1", Index: 1}, {PCI: "0000:5e:00.0", Name: "mlx5_2", Index: 2}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			reference := t.TempDir()
			cmd := exec.Command("sh", "-c", ". testdata/mkhca.sh; "+test.shell)
			cmd.Env = append(os.Environ(), "R="+reference)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			h := newHost(t)
			add(t, h, test.hcas...)
			same(t, listing(t, h.Root()), listing(t, reference))
		})
	}
}

func TestUnpluggingLeavesNothingOfTheHCA(t *testing.T) {
	for name, hca := range map[string]HCA{
		"PCI":       {PCI: "0000:5e:00.0", Name: "rdma9", Index: 9},
		"complete":  {PCI: "0000:5e:00.0", Name: "rdma9", Index: 9, Complete: true, TotalVFs: 4, Bridge: "0000:00:02.0"},
		"scalable":  {PCI: "0000:3b:00.0", Name: "rdma9", Index: 9, Aux: "mlx5_core.sf.2"},
		"virtio":    {PCI: "0000:00:02.0", Name: "rdma9", Index: 9, Virtio: "virtio1"},
		"virtual":   {Name: "rdma9", Index: 9, Virtual: true, Nets: Nets("d0")},
		"same func": {PCI: "0000:3b:00.0", Name: "rdma9", Index: 9, Nets: []Net{}},
		"VF":        {PCI: "0000:3b:00.2", Name: "rdma9", Index: 9, PF: "0000:3b:00.0"},
		"bonded":    {PCI: "0000:5e:00.0", Name: "rdma9", Index: 9, Nets: []Net{{Name: "ens9", Master: "bond0", Uppers: []string{"ens9.100"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			add(t, h, HCA{PCI: "0000:3b:00.0", Name: "mlx5_0", TotalVFs: 8, Driver: "mlx5_core"})
			for _, n := range []string{"bond0", "ens9.100"} {
				if err := h.AddNet(Net{Name: n}); err != nil {
					t.Fatal(err)
				}
			}
			before := listing(t, h.Root())
			add(t, h, hca)
			if during := listing(t, h.Root()); !strings.Contains(strings.Join(during, "\n"), "sys/class/infiniband/rdma9 -> ") {
				t.Fatal("the HCA did not appear")
			}
			if err := h.Remove("rdma9"); err != nil {
				t.Fatal(err)
			}
			same(t, listing(t, h.Root()), before)
			var empty []string
			err := filepath.WalkDir(filepath.Join(h.Root(), "sys/devices"), func(path string, d fs.DirEntry, err error) error {
				if err != nil || !d.IsDir() {
					return err
				}
				inside, err := os.ReadDir(path)
				if len(inside) == 0 {
					empty = append(empty, path)
				}
				return err
			})
			if err != nil || len(empty) > 0 {
				t.Errorf("empty directories left: %v, %v", empty, err)
			}
		})
	}
}

func TestPlainFilesAreMadeEvenForRoot(t *testing.T) {
	h, err := Mini(t.TempDir(), PlainFiles(), KernelRelease("6.1.0"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"dev/infiniband/uverbs0", "dev/infiniband/umad0", "dev/infiniband/issm0", "dev/infiniband/rdma_cm", "proc/sys/kernel/osrelease"} {
		info, err := os.Stat(filepath.Join(h.Root(), name))
		if err != nil || !info.Mode().IsRegular() {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
}

func TestAddRefusesWhatCanNotBe(t *testing.T) {
	h := newHost(t)
	add(t, h, HCA{PCI: "0000:3b:00.0", Name: "mlx5_0"})
	for name, hca := range map[string]HCA{
		"name taken":           {PCI: "0000:5e:00.0", Name: "mlx5_0"},
		"neither place nor ..": {Name: "mlx5_1"},
		"virtual, nameless":    {Virtual: true},
		"VF of nothing":        {PCI: "0000:5e:00.1", Name: "mlx5_1", PF: "0000:5e:00.0"},
	} {
		if err := h.Add(hca); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
