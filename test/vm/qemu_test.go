// The virtual machine: how it is started, and what comes out of it.
//
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rdma-relay/rdma-relay/test/vm/image"
)

// machine is one run of a virtual machine.
type machine struct {
	image     image.Image
	initramfs string // all of it, the image's included
	run       string // which of the guest's tests
	dir       string // for sockets
	console   tail
}

// The guest has these names for its serial ports.
const (
	resultsPort = "rdma-relay.results"
	filesPort   = "rdma-relay.files"
	monitorPort = "rdma-relay.monitor"
)

// boot runs the machine until it has switched itself off. results gets what the
// guest's test program writes, files an archive of what the guest hands out.
func (m *machine) boot(ctx context.Context, t *testing.T, results, files io.Writer) error {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var relays sync.WaitGroup
	defer relays.Wait()
	listen := func(name string) net.Listener {
		l, err := net.Listen("unix", filepath.Join(m.dir, name))
		if err != nil {
			t.Fatal(err)
		}
		context.AfterFunc(ctx, func() { _ = l.Close() })
		return l
	}
	receive := func(name string, to io.Writer) {
		l := listen(name)
		relays.Go(func() {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			_, _ = io.Copy(to, conn)
		})
	}
	receive("results", results)
	receive("files", files)
	// The guest drives QEMU's monitor: both of its ends are joined here.
	guest, monitor := listen("guest"), listen("monitor")
	relays.Go(func() { join(guest, monitor) })

	cmd := exec.CommandContext(ctx, "qemu-system-x86_64", m.args(sriov(ctx))...)
	cmd.Stdout, cmd.Stderr = &m.console, &m.console
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("qemu: %w (%w)", err, context.Cause(ctx))
	}
	return nil
}

func (m *machine) args(sriov bool) []string {
	args := []string{
		"-machine", "q35", "-accel", "tcg,thread=multi,tb-size=256", "-cpu", "max", "-smp", "2", "-m", "768",
		"-nodefaults", "-no-reboot", "-display", "none", "-serial", "stdio",
		"-kernel", m.image.Kernel, "-initrd", m.initramfs,
		"-append", "console=ttyS0 quiet nokaslr mitigations=off no_timer_check tsc=reliable panic=-1 -- " + m.run,
		"-chardev", "socket,id=m,path=" + filepath.Join(m.dir, "monitor"), "-mon", "chardev=m,mode=readline",
		"-device", "virtio-serial-pci",
		// net0 is a virtio device, net1 a PCI function that can be unplugged; more go to slot.
		"-netdev", "hubport,id=n0,hubid=0", "-device", "virtio-net-pci,id=net0,netdev=n0",
		"-device", "pcie-root-port,id=slot1,chassis=1", "-device", "pcie-root-port,id=slot2,chassis=2",
		"-netdev", "hubport,id=n1,hubid=0", "-device", "e1000e,id=net1,netdev=n1,bus=slot1",
	}
	for i, port := range []string{resultsPort, filesPort, monitorPort} {
		socket := []string{"results", "files", "guest"}[i]
		args = append(args, "-chardev", fmt.Sprintf("socket,id=p%d,path=%s", i, filepath.Join(m.dir, socket)),
			"-device", fmt.Sprintf("virtserialport,chardev=p%d,name=%s", i, port))
	}
	if sriov {
		args = append(args, "-netdev", "hubport,id=n2,hubid=0", "-device", "pcie-root-port,id=slot3,chassis=3",
			"-device", "igb,id=net2,netdev=n2,bus=slot3")
	}
	return args
}

// sriov tells whether this QEMU has a network card with virtual functions (from 8.0).
func sriov(ctx context.Context) bool {
	out, err := exec.CommandContext(ctx, "qemu-system-x86_64", "-device", "help").Output()
	return err == nil && bytes.Contains(out, []byte(`"igb"`))
}

// join copies between one connection of each listener.
func join(a, b net.Listener) {
	one, err := a.Accept()
	if err != nil {
		return
	}
	defer one.Close()
	two, err := b.Accept()
	if err != nil {
		return
	}
	defer two.Close()
	var back sync.WaitGroup
	back.Go(func() { _, _ = io.Copy(one, two); _ = one.Close() })
	_, _ = io.Copy(two, one)
	_ = two.Close()
	back.Wait()
}

// tail keeps the last lines of the console.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const tailBytes = 64 << 10

func (w *tail) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = append(w.text, p...)
	if over := len(w.text) - tailBytes; over > 0 {
		w.text = append(w.text[:0], w.text[over:]...)
	}
	return len(p), nil
}

func (w *tail) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.ReplaceAll(string(w.text), "\r", "")
}

// pack makes the whole initramfs: the image's and what changes with each build.
func pack(base, to string, programs map[string]string) error {
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	defer out.Close()
	head, err := os.ReadFile(base)
	if err != nil {
		return err
	}
	// Archives begin at multiples of four.
	if _, err := out.Write(append(head, make([]byte, -len(head)&3)...)); err != nil {
		return err
	}
	archive := image.NewArchive(out)
	for name, file := range programs {
		archive.Copy(name, 0o755, file)
	}
	if err := archive.Close(); err != nil {
		return err
	}
	return out.Close()
}
