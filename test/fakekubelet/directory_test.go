// SPDX-License-Identifier: Apache-2.0

package fakekubelet_test

// This file shows the faults of the directory.

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rdma-relay/rdma-relay/test/fakekubelet"
)

func TestDirectoryFaultsLeaveSessionsAlone(t *testing.T) {
	for _, tc := range []struct {
		name                     string
		fault                    func(*fakekubelet.Kubelet) error
		directory, kubelet, file bool
	}{
		{"recreate", (*fakekubelet.Kubelet).RecreateDirectory, true, false, false},
		{"remove", (*fakekubelet.Kubelet).RemoveDirectory, false, false, false},
		{"clean", (*fakekubelet.Kubelet).CleanDirectory, true, false, false},
		{"remove plugin sockets", (*fakekubelet.Kubelet).RemovePluginSockets, true, true, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k := start(t, fakekubelet.Options{})
			p := registered(t, k, 2)
			file := filepath.Join(k.Dir(), "file")
			check(t, os.WriteFile(file, nil, 0o600))
			held, err := os.Open(k.Dir()) // so that its inode is not used again
			check(t, err)
			defer func() { check(t, held.Close()) }()
			check(t, tc.fault(k))
			if there(t, k.Dir()) != tc.directory || there(t, k.SocketPath()) != tc.kubelet || there(t, file) != tc.file || there(t, p.path) {
				t.Errorf("directory %t, kubelet.sock %t, file %t, plugin %t", there(t, k.Dir()), there(t, k.SocketPath()), there(t, file), there(t, p.path))
			}
			if tc.name == "recreate" {
				before, err := held.Stat()
				check(t, err)
				after, err := os.Stat(k.Dir())
				check(t, err)
				if os.SameFile(before, after) {
					t.Error("it is the same directory")
				}
			}
			p.list(devices("w", 3))
			wait(t, k, fakekubelet.Listed(widget, 3, 3))
			if tc.directory {
				check(t, k.Rebind())
			} else {
				check(t, k.Restart())
			}
			if !there(t, k.SocketPath()) {
				t.Error("no kubelet.sock")
			}
		})
	}
}
