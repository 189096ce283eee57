// The route by which kubelet finds the program's sockets, with the program as a process.
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"testing"
	"time"

	"github.com/rdma-relay/rdma-relay/test/fakekubelet"
)

func TestWatcherRouteAsAProcess(t *testing.T) {
	s := &serving{place: newPlace(t)}
	s.Kubelet = fakekubelet.New(s.path("dp"), fakekubelet.Options{PluginsRegistry: s.path("pr"), ReconcilePeriod: 50 * time.Millisecond})
	t.Cleanup(func() { must(t, s.Close()) })
	s.daemon()
	must(t, s.Start())
	s.program = start(t, "serve", "--config", s.file("config.json", good), "--discovery-socket", s.path("discovery.sock"),
		"--registration=watcher", "--plugins-registry-dir", s.path("pr"),
		"--device-plugins-dir=/nonexistent", // it is of no use on this route
		"--metrics-address=")
	s.eventually(fakekubelet.Listed(hca, 10, 10))
	must(t, s.Kill())
	must(t, s.Start())
	s.eventually(fakekubelet.Listed(hca, 10, 10))
	s.terminate()
	for _, dir := range []string{"dp", "pr"} {
		entries, err := os.ReadDir(s.path(dir))
		must(t, err)
		for _, e := range entries {
			if e.Type() == os.ModeSocket && e.Name() != "kubelet.sock" {
				t.Errorf("%s/%s stays", dir, e.Name())
			}
		}
	}
}
