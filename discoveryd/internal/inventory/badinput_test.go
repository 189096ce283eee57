// Trees that no kernel would show. Whatever is in one device's files, the others
// are told of as if nothing were.
//
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"github.com/rdma-relay/rdma-relay/test/fakehost"
)

func TestStrangeFilesSpoilOnlyTheirDevice(t *testing.T) {
	replace := func(how func(p string) error) func(p string) error {
		return func(p string) error {
			if err := os.RemoveAll(p); err != nil {
				return err
			}
			return how(p)
		}
	}
	kinds := map[string]func(p string) error{
		"garbage":       func(p string) error { return os.WriteFile(p, []byte("\x00\x01\xff\xfe\x1b[2J"), 0o600) },
		"1 MiB":         func(p string) error { return os.WriteFile(p, []byte(strings.Repeat("4: ACTIV", 1<<17)), 0o600) },
		"many lines":    func(p string) error { return os.WriteFile(p, []byte(strings.Repeat("x\n", 100)), 0o600) },
		"symlink loop":  func(p string) error { return os.Symlink(filepath.Base(p), p) },
		"link out":      func(p string) error { return os.Symlink("../../../../../../../../../../../../etc/passwd", p) },
		"absolute link": func(p string) error { return os.Symlink("/etc/passwd", p) },
		"FIFO":          func(p string) error { return unix.Mkfifo(p, 0o600) },
		"directory":     func(p string) error { return os.Mkdir(p, 0o700) },
		"socket":        func(p string) error { return unix.Mknod(p, unix.S_IFSOCK|0o600, 0) },
	}
	// One file of each of these devices is replaced.
	files := []string{"ports/1/state", "ports/1/link_layer", "node_guid", "node_type", "fw_ver", "ports/1/rate", "ports"}
	for kind, how := range kinds {
		t.Run(kind, func(t *testing.T) {
			host := newHost(t, hca(7))
			for n, file := range files {
				must(t, host.Add(hca(n)))
				must(t, replace(how)(filepath.Join(host.DeviceDir(hca(n).Name), file)))
			}
			s := scanOf(t, host)
			expect(t, "devices", len(s.GetDevices()), len(files)+1)
			expect(t, "reasons of the one left alone", codes(device(t, s, "mlx5_7").GetReasons()), "")
			for n, file := range files {
				want := "UNREADABLE"
				switch {
				case file == "ports" && kind == "directory":
					want = "NO_PORTS"
				case file == "ports":
					want = "UNREADABLE NO_PORTS"
				}
				expect(t, "reasons when it is "+file, codes(device(t, s, hca(n).Name).GetReasons()), want)
			}
			if strings.Contains(fmt.Sprint(s), "root:x:") {
				t.Error("a file from outside of the tree was read")
			}
			if _, err := proto.Marshal(s); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestStrangeLinksSpoilOnlyTheirDevice(t *testing.T) {
	for name, target := range map[string]string{
		"loop": "mlx5_0", "out of the tree": "../../../../../../../../../etc", "itself through another": "../infiniband/mlx5_0",
	} {
		t.Run(name, func(t *testing.T) {
			host := newHost(t, hca(0), hca(1))
			link := filepath.Join(host.Root(), "sys/class/infiniband/mlx5_0")
			must(t, os.Remove(link))
			must(t, os.Symlink(target, link))
			s := scanOf(t, host)
			expect(t, "the other's reasons", codes(device(t, s, "mlx5_1").GetReasons()), "")
			if reasons := codes(device(t, s, "mlx5_0").GetReasons()); !strings.Contains(reasons, "UNREADABLE") {
				t.Errorf("reasons are %q", reasons)
			}
		})
	}
}

func TestDeviceThatIsGoneAgainIsNotListed(t *testing.T) {
	host := newHost(t, hca(0), hca(1))
	must(t, os.RemoveAll(host.DeviceDir("mlx5_0"))) // the class's link dangles
	expect(t, "devices", namesOf(scanOf(t, host)), "mlx5_1")
}

func TestNamesThatAreNoText(t *testing.T) {
	bad, well := hca(0), hca(1)
	bad.Name, bad.Nets = "mlx5\xff\x1b0", fakehost.Nets("eth\xfe0")
	host := newHost(t, bad, well)
	s := scanOf(t, host)
	expect(t, "devices", namesOf(s), `mlx5\xff\x1b0 mlx5_1`)
	d := device(t, s, `mlx5\xff\x1b0`)
	expect(t, "reasons", codes(d.GetReasons()), "UNREADABLE")
	expect(t, "net", nets(d.GetPorts()[0].GetNetDevices()), `eth\xfe0`)
	expect(t, "the other's reasons", codes(device(t, s, "mlx5_1").GetReasons()), "")
	if _, err := proto.Marshal(s); err != nil {
		t.Error(err)
	}
}

func TestNoHostThere(t *testing.T) {
	for _, root := range []string{filepath.Join(t.TempDir(), "none"), t.TempDir()} {
		if _, err := New(Options{Root: root}); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", root, err)
		}
	}
	host := newHost(t, hca(0))
	scanner := newScanner(t, host.Root())
	must(t, os.Rename(filepath.Join(host.Root(), "sys"), filepath.Join(host.Root(), "gone")))
	if _, err := scanner.Scan(t.Context()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("sys is gone: %v", err)
	}
	must(t, os.Rename(filepath.Join(host.Root(), "gone"), filepath.Join(host.Root(), "sys")))
	expect(t, "devices", namesOf(scan(t, scanner)), "mlx5_0")
}

func TestWhatIsTooMuchIsLeftOutAndTold(t *testing.T) {
	host := newHost(t, hca(0), hca(1))
	for n := 2; n <= maxPorts+10; n++ {
		write(t, host, "mlx5_0", fmt.Sprintf("ports/%d/state", n), "4: ACTIVE\n")
		write(t, host, "mlx5_0", fmt.Sprintf("ports/%d/link_layer", n), "Ethernet\n")
	}
	v, err := openView(host.Root())
	must(t, err)
	defer v.release()
	l, err := v.list(nil)
	must(t, err)
	at := l.at("devices/pci0000:00/0000:3b:00.0")
	at.nets = slices.Repeat(at.nets, maxNetDevices+10) // more of the same than would fit
	f := v.readDevice(l, l.rdma[0])
	expect(t, "excess", strings.Join(f.excess, ", "), "ports, network devices")
	s := assemble(l, []result{{entry: l.rdma[0], answer: answer[*facts]{value: f, known: true}}})
	d := device(t, s, "mlx5_0")
	expect(t, "ports", len(d.GetPorts()), maxPorts)
	expect(t, "reasons", codes(d.GetReasons()), "TOO_MANY")
	expect(t, "message", message(d, "TOO_MANY"), "There are more ports and more network devices than a snapshot may hold; the rest was left out.")
}

func TestTooManyDevices(t *testing.T) {
	l := &listing{cm: &char{}}
	var results []result
	for n := range MaxDevices + 10 {
		e := entry{name: fmt.Sprintf("mlx5_%05d", n), path: "devices/virtual/infiniband/x"}
		results = append(results, result{entry: e, answer: answer[*facts]{value: unread(e), known: true}})
	}
	for n := range 10 {
		f := unread(entry{path: fmt.Sprintf("devices/pci0000:00/0000:3b:00.%d/x/x", n)})
		results = append(results, result{answer: answer[*facts]{value: f, known: true}})
	}
	s := assemble(l, results)
	expect(t, "devices", len(s.GetDevices()), MaxDevices)
	expect(t, "first", s.GetDevices()[0].GetName(), "mlx5_00000")
	expect(t, "reasons", codes(s.GetNode().GetReasons()), "NO_RDMA_SUBSYSTEM TOO_MANY")

	for _, r := range results {
		r.answer.value.device.FirmwareVersion = strings.Repeat("x", 8<<10)
	}
	s = assemble(l, results)
	if size := proto.Size(s); size > MaxBytes+MaxBytes/2 || size < MaxBytes/2 {
		t.Errorf("size is %d", size)
	}
	expect(t, "reasons", codes(s.GetNode().GetReasons()), "NO_RDMA_SUBSYSTEM TOO_MANY")
}

func TestEveryStringIsBoundedUTF8(t *testing.T) {
	for _, name := range []string{strings.Repeat("\xff", 255), strings.Repeat("ü", 127), strings.Repeat("\u200b", 85)} {
		safe, _ := safeName(name)
		if len(safe) > maxName || !utf8.ValidString(safe) {
			t.Errorf("%q became %q", name, safe)
		}
	}
}
