// How long a scan takes, on a tmpfs where there is one, and how much of that the
// kernel's part would be if nothing were done with what it says.
//
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
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

// benchmark runs op on hosts of two sizes, and tells the CPU time with the rest.
func benchmark(b *testing.B, prepare func(b *testing.B, root string, functions int) (op func() error)) {
	for _, functions := range []int{8, 1024} {
		b.Run(fmt.Sprintf("functions=%d", functions), func(b *testing.B) {
			host, err := fakehost.Many(memDir(b), functions)
			if err != nil {
				b.Fatal(err)
			}
			op := prepare(b, host.Root(), functions)
			b.ReportAllocs()
			before := cpuTime(b)
			for b.Loop() {
				if err := op(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/float64(b.N)/1000, "cpu-ms/op")
		})
	}
}

func BenchmarkScan(b *testing.B) {
	benchmark(b, func(b *testing.B, root string, functions int) func() error {
		scanner, err := New(Options{Root: root})
		if err != nil {
			b.Fatal(err)
		}
		return func() error {
			s, err := scanner.Scan(b.Context())
			if err == nil && len(s.GetDevices()) != functions {
				return fmt.Errorf("%d devices", len(s.GetDevices()))
			}
			return err
		}
	})
}

// BenchmarkScanFloor opens, reads and closes the files and directories that a scan
// can't do without, by as many threads as there are CPUs, and makes nothing of it.
func BenchmarkScanFloor(b *testing.B) {
	benchmark(b, func(b *testing.B, root string, _ int) func() error {
		var devices []string
		links, err := filepath.Glob(filepath.Join(root, "sys/class/infiniband/*"))
		if err != nil {
			b.Fatal(err)
		}
		for _, link := range links {
			device, err := filepath.EvalSymlinks(link)
			if err != nil {
				b.Fatal(err)
			}
			devices = append(devices, device)
		}
		return func() error {
			parallel(len(devices), func(i int) { touch(root, devices[i]) })
			return nil
		}
	})
}

// touch reads what there is of one device, whose network device, character devices
// and so on are numbered as itself.
func touch(root, device string) {
	var buf [8192]byte
	function, number := filepath.Dir(filepath.Dir(device)), strings.TrimPrefix(filepath.Base(device), "mlx5_")
	for dir, files := range map[string]string{
		device:                         "node_type node_guid sys_image_guid fw_ver ports/1/link_layer ports/1/state ports/1/phys_state ports/1/rate",
		device + "/ports":              "",
		function:                       "numa_node",
		function + "/net/ens" + number: "ifindex type operstate carrier mtu",
	} {
		fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		for name := range strings.FieldsSeq(files) {
			if file, err := unix.Openat(fd, name, unix.O_RDONLY|unix.O_CLOEXEC, 0); err == nil {
				_, _ = unix.Read(file, buf[:])
				_ = unix.Close(file)
			}
		}
		if dir != device && dir != function {
			for n := 1; n > 0; {
				n, _ = unix.Getdents(fd, buf[:])
			}
		}
		_ = unix.Close(fd)
	}
	for _, link := range []string{
		root + "/sys/class/infiniband/mlx5_" + number, root + "/sys/class/infiniband_verbs/uverbs" + number,
		root + "/sys/class/infiniband_mad/umad" + number, root + "/sys/class/net/ens" + number,
		function + "/physfn", function + "/driver",
	} {
		_, _ = unix.Readlink(link, buf[:])
	}
	var st unix.Stat_t
	for _, kind := range []string{"uverbs", "umad", "issm"} {
		_ = unix.Lstat(root+"/dev/infiniband/"+kind+number, &st)
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
