// A process that may open no more files says so, and nothing of the devices.
//
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"github.com/rdma-relay/rdma-relay/discoveryd/internal/sysfs"
	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

// withFiles runs f while the process may open just so many files more.
func withFiles(t *testing.T, more int, f func()) {
	t.Helper()
	open, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	var limit unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	few := unix.Rlimit{Cur: uint64(len(open) - 1 + more), Max: limit.Max} // one is that of ReadDir
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &few))
	defer func() { must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)) }()
	f()
}

func TestOutOfFilesIsNoFactAboutDevices(t *testing.T) {
	host := newHost(t, hca(0), hca(1), hca(2))
	s := newScanner(t, host.Root())
	good := scan(t, s)
	failed := 0
	for more := range 24 {
		for name, read := range map[string]func() (*discoveryv1.Snapshot, error){
			"scan": func() (*discoveryv1.Snapshot, error) { return s.Scan(t.Context()) },
			"reread": func() (*discoveryv1.Snapshot, error) {
				return s.Reread(t.Context(), s.Links([]string{"ens0", "ens1", "ens2"}))
			},
			"new": func() (*discoveryv1.Snapshot, error) {
				fresh, err := New(Options{Root: host.Root()})
				if err != nil {
					return nil, err
				}
				return fresh.Scan(t.Context())
			},
		} {
			var got *discoveryv1.Snapshot
			var err error
			withFiles(t, more, func() { got, err = read() })
			switch {
			case err == nil && !proto.Equal(got, good):
				t.Fatalf("%s with %d files: %v", name, more, got)
			case err != nil && !sysfs.Starving(err):
				t.Fatalf("%s with %d files: error %v", name, more, err)
			case err != nil:
				failed++
			}
		}
	}
	if failed == 0 {
		t.Error("there were always files enough: nothing was tried")
	}
	if got := scan(t, s); !proto.Equal(got, good) {
		t.Errorf("afterwards: %v", got)
	}
}
