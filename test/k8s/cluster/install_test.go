// What the chart gives to pods, and that it goes without a trace.
//
// SPDX-License-Identifier: Apache-2.0

//go:build cluster

package cluster

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestInstall(t *testing.T) {
	begin := time.Now()
	r := install(t, "relay", usualConfig())
	measured("install/helm-install-wait", time.Since(begin))

	t.Run("the node has the resources", func(t *testing.T) {
		for resource, want := range map[string]int{pool: poolSlots, storage: storageSlots, own: len(ownHCAs())} {
			measured("install/allocatable", awaitAllocatable(t, resource, want), resource, want)
		}
	})
	t.Run("a pod gets exactly its devices and variables", func(t *testing.T) {
		begin := time.Now()
		w := startPod(t, "one-hca", storage)
		others := []string{uverbsNumber(0), uverbsNumber(7), "231:0"}
		got := w.look(others...)
		measured("install/pod-runs", time.Since(begin))
		got.has(t, storageHCA)
		got.variable(t, storage, storageHCA)
		got.refused(t, others...)
	})
	t.Run("two pods share a pool", func(t *testing.T) {
		first, second := startPod(t, "first", pool), startPod(t, "second", pool)
		for _, w := range []*workload{first, second} {
			got := w.look()
			got.has(t, poolHCAs()...)
			got.variable(t, pool, poolHCAs()...)
		}
		if a, b := first.deviceIDs(pool), second.deviceIDs(pool); len(a) != 1 || len(b) != 1 || a[0] == b[0] {
			t.Errorf("the pods hold %q and %q, want two different IDs", a, b)
		}
	})
	t.Run("two pods have an HCA of their own each", func(t *testing.T) {
		a, b := startPod(t, "own-a", own).look(), startPod(t, "own-b", own).look()
		for path := range a.Devices {
			if _, both := b.Devices[path]; both && filepath.Base(path) != "rdma_cm" {
				t.Errorf("both have %s", path)
			}
		}
	})
	t.Run("uninstall leaves nothing behind", func(t *testing.T) {
		if len(leftovers(t)) == 0 {
			t.Fatal("no socket of ours is there before")
		}
		r.t = t
		ids := []string{r.containerID("discoveryd"), r.containerID("pluginproxy")}
		if n := len(runningContainers(t, ids)); n != 2 {
			t.Fatalf("%d containers of ours run before", n)
		}
		begin := time.Now()
		r.uninstall()
		measured("install/helm-uninstall", time.Since(begin))
		if left := leftovers(t); len(left) > 0 {
			t.Errorf("left behind: %q", left)
		}
		if running := runningContainers(t, ids); len(running) > 0 {
			t.Errorf("containers still run: %q", running)
		}
		awaitAllocatable(t, pool, 0)
	})
}

// TestCDI gives the container names, which containerd looks up in discoveryd's spec.
func TestCDI(t *testing.T) {
	r := install(t, "cdi", values{"cdi": values{"enabled": true}}, config(
		entry("hca_named", 4, values{"cdi": true, "selectors": values{"ifNames": []string{netName(1), netName(2)}}})))
	const named = "rdma/hca_named"
	awaitAllocatable(t, named, 4)
	others := []string{uverbsNumber(0)}
	w := startPod(t, "named", named)
	got := w.look(others...)
	got.has(t, 1, 2)
	got.variable(t, named, 1, 2)
	got.refused(t, others...)

	r.uninstall()
	if left := leftovers(t); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	if _, err := os.Stat(cdiDir); err != nil {
		t.Errorf("the runtime's directory: %v", err)
	}
	w.stays(got)
}
