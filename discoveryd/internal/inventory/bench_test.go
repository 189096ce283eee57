// How long a scan takes, on a tmpfs where there is one.
//
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"fmt"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdma-relay/rdma-relay/test/fakehost"
)

// memDir is a directory in memory, so that the kernel's own work is measured and
// not a disk's.
func memDir(b *testing.B) string {
	b.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "scan")
	if err != nil {
		return b.TempDir()
	}
	b.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func BenchmarkScan(b *testing.B) {
	for _, functions := range []int{8, 1024} {
		b.Run(fmt.Sprintf("functions=%d", functions), func(b *testing.B) {
			host, err := fakehost.Many(memDir(b), functions)
			if err != nil {
				b.Fatal(err)
			}
			scanner, err := New(Options{Root: host.Root()})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			before := cpuTime(b)
			for b.Loop() {
				s, err := scanner.Scan(b.Context())
				if err != nil || len(s.GetDevices()) != functions {
					b.Fatalf("%d devices, error %v", len(s.GetDevices()), err)
				}
			}
			b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/float64(b.N)/1000, "cpu-ms/op")
		})
	}
}

// cpuTime is what the process has used so far.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var use unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &use); err != nil {
		b.Fatal(err)
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}
