// What the tests do to the kernel: modules, network devices, RDMA devices.
//
// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"hash/crc32"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/rdma-relay/rdma-relay/test/vm/kmod"
)

// patience bounds each wait for something that must come. Emulation is slow, and on a busy
// machine very slow.
const patience = time.Minute

// rdmaModules are all of the RDMA subsystem, in the order in which they can be unloaded.
var rdmaModules = []string{"rdma_rxe", "rdma_ucm", "rdma_cm", "iw_cm", "ib_cm", "ib_umad", "ib_uverbs", "ib_core"}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually waits until cond holds, and looks each millisecond.
func eventually(t testing.TB, what string, cond func() bool) time.Duration {
	t.Helper()
	begin := time.Now()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !cond() {
		if <-tick.C; time.Since(begin) > patience {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
	return time.Since(begin)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// load loads modules with all that they need.
func load(t testing.TB, names ...string) {
	t.Helper()
	order, err := kmod.Order(func(name string) (string, error) { return kmod.Path(kmod.Dir, name), nil }, names...)
	must(t, err)
	for _, name := range order {
		file, err := os.Open(kmod.Path(kmod.Dir, name))
		must(t, err)
		err = unix.FinitModule(int(file.Fd()), "", 0)
		_ = file.Close()
		if err != nil && !errors.Is(err, unix.EEXIST) {
			t.Fatalf("load %s: %v", name, err)
		}
	}
}

// unload unloads modules, which must be free.
func unload(t testing.TB, names ...string) {
	t.Helper()
	for _, name := range names {
		// What used it may still be about to let go.
		eventually(t, "unloading "+name, func() bool {
			err := unix.DeleteModule(name, unix.O_NONBLOCK)
			if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EBUSY) {
				t.Fatalf("unload %s: %v", name, err)
			}
			return !exists("/sys/module/" + name)
		})
	}
}

// withRDMA gives the test a kernel with all RDMA modules, and no RDMA device.
func withRDMA(t testing.TB) {
	t.Helper()
	load(t, "rdma_rxe", "crc32_generic", "ib_uverbs", "ib_umad", "rdma_ucm", "dummy", "veth", "virtio_net", "e1000e")
	lo, err := netlink.LinkByName("lo")
	must(t, err)
	must(t, netlink.LinkSetUp(lo))
	deleteAllRDMA(t)
	t.Cleanup(func() { deleteAllRDMA(t) })
}

func deleteAllRDMA(t testing.TB) {
	t.Helper()
	// Those of a network device that was deleted go by themselves, a little later.
	parallel(names(t, "/sys/class/infiniband"), func(name string) {
		// The library looks for the name in a list that may change meanwhile.
		for range 5 {
			if err := netlink.RdmaLinkDel(name); err == nil || !exists("/sys/class/infiniband/"+name) {
				return
			}
		}
	})
	eventually(t, "no RDMA device", func() bool { return len(names(t, "/sys/class/infiniband")) == 0 })
}

// parallel does something with each name, a few at a time: the kernel waits a lot in
// between.
func parallel(names []string, do func(name string)) {
	var all errgroup.Group
	all.SetLimit(8)
	for _, name := range names {
		all.Go(func() error {
			do(name)
			return nil
		})
	}
	_ = all.Wait()
}

// names are the names in a directory, which need not exist.
func names(t testing.TB, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// dummy makes a network device with carrier, until the test's end. The name decides its
// address, and with that the GUID of an RDMA device on it.
func dummy(t testing.TB, name string) netlink.Link {
	t.Helper()
	mac := net.HardwareAddr{2, 0, 0, 0, 0, 0}
	binary.BigEndian.PutUint32(mac[2:], crc32.ChecksumIEEE([]byte(name)))
	link := &netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Name: name, HardwareAddr: mac}}
	must(t, netlink.LinkAdd(link))
	t.Cleanup(func() { _ = netlink.LinkDel(link) })
	must(t, netlink.LinkSetUp(link))
	return link
}

// rxe makes a dummy and an RDMA device on it, until the test's end.
func rxe(t testing.TB, name, netdev string) netlink.Link {
	t.Helper()
	link := dummy(t, netdev)
	must(t, netlink.RdmaLinkAdd(name, "rxe", netdev))
	return link
}

// carrier takes a dummy's carrier away or gives it back.
func carrier(t testing.TB, netdev string, up bool) {
	t.Helper()
	text := "0"
	if up {
		text = "1"
	}
	must(t, os.WriteFile(filepath.Join("/sys/class/net", netdev, "carrier"), []byte(text), 0o644))
}

// rename gives an RDMA device another name.
func rename(t testing.TB, from, to string) {
	t.Helper()
	link, err := netlink.RdmaLinkByName(from)
	must(t, err)
	must(t, netlink.RdmaLinkSetName(link, to))
}

// rdmaTool runs iproute2's rdma and takes its JSON.
func rdmaTool[T any](t testing.TB, args ...string) (value T) {
	t.Helper()
	out := command(t, "/usr/bin/rdma", append([]string{"-j"}, args...)...)
	if err := json.Unmarshal([]byte(out), &value); err != nil {
		t.Fatalf("rdma %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return value
}

// command runs a program and returns what it says.
func command(t testing.TB, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, out, errs.String())
	}
	return string(out)
}
