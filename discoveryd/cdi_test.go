// --cdi-dir on the command line: SIGKILL and what the next daemon makes of it.
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rdma-relay/rdma-relay/test/fakehost"
)

func TestR66_SpecAfterKillRestartAndEnd(t *testing.T) {
	host, dir := newHost(t)
	socket, specs := filepath.Join(dir, "d.sock"), filepath.Join(dir, "cdi")
	must(t, os.Mkdir(specs, 0o700))
	foreign := filepath.Join(specs, "nvidia.com-gpu.json")
	must(t, os.WriteFile(foreign, []byte("broken"), 0o400))
	args := []string{"serve", "--socket=" + socket, "--host-root=" + host.Root(), "--cdi-dir=" + specs, "--allow-uids=" + strconv.Itoa(os.Getuid())}
	spec := func() string {
		text, err := os.ReadFile(filepath.Join(specs, "rdma-relay.dev-hca.json"))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return string(text)
	}

	killed := command(t, args...)
	must(t, killed.Start())
	probe(t, socket)
	if !strings.Contains(spec(), "uverbs0") {
		t.Errorf("spec: %s", spec())
	}
	must(t, killed.Process.Kill())
	_ = killed.Wait()
	if !strings.Contains(spec(), "uverbs0") {
		t.Error("the spec didn't outlive a killed daemon: pods that start meanwhile need it")
	}

	must(t, host.Remove("mlx5_0"))
	must(t, host.Add(fakehost.HCA{PCI: "0000:5e:00.0", Name: "mlx5_1", Index: 7}))
	restarted := command(t, args...)
	must(t, restarted.Start())
	probe(t, socket)
	if text := spec(); !strings.Contains(text, "uverbs7") || strings.Contains(text, "uverbs0") {
		t.Errorf("spec after the restart: %s", text)
	}
	must(t, restarted.Process.Signal(syscall.SIGTERM))
	must(t, restarted.Wait())
	if text := spec(); text != "" {
		t.Errorf("spec after the end: %s", text)
	}
	if text, err := os.ReadFile(foreign); err != nil || string(text) != "broken" {
		t.Errorf("somebody else's file holds %q, %v", text, err)
	}
}
