// Package guest is what runs inside the virtual machine of test/vm: this test program
// is its init, starts itself once more as a test program, and switches the machine off.
// Anywhere else it runs no test.
//
// SPDX-License-Identifier: Apache-2.0
package guest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// inGuest is set in the environment of the test program by the init.
const inGuest = "RDMA_RELAY_IN_GUEST"

// waits makes this program wait for the end of its input.
const waits = "RDMA_RELAY_WAIT"

func TestMain(m *testing.M) {
	switch {
	case os.Getpid() == 1:
		if err := boot(); err != nil {
			fmt.Fprintln(os.Stderr, "init:", err)
		}
		unix.Sync()
		_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
	case os.Getenv(sandboxed) != "":
		fmt.Fprintln(os.Stderr, enterSandbox())
		os.Exit(1)
	case os.Getenv(waits) != "":
		_, _ = io.Copy(io.Discard, os.Stdin)
		return
	case os.Getenv(inGuest) == "":
		return // not in the virtual machine
	}
	os.Exit(m.Run())
}

// boot makes the guest a small Linux system, and runs the tests.
func boot() error {
	mounts := []struct{ kind, at, data string }{
		{"proc", "/proc", ""}, {"sysfs", "/sys", ""}, {"devtmpfs", "/dev", ""}, {"tmpfs", "/run", ""}, {"tmpfs", "/tmp", ""},
		{"tmpfs", "/sys/fs/cgroup", ""},
	}
	for _, m := range mounts {
		if err := unix.Mount(m.kind, m.at, m.kind, 0, m.data); err != nil {
			return fmt.Errorf("mount %s: %w", m.at, err)
		}
	}
	results, err := openPort("rdma-relay.results")
	if err != nil {
		return err
	}
	defer results.Close()
	run := os.Args[len(os.Args)-1]
	cmd := exec.Command("/init", "-test.v=test2json", "-test.timeout=9m", "-test.run="+run)
	cmd.Env = []string{inGuest + "=1", "PATH=/bin:/usr/bin", "HOME=/", "TMPDIR=/tmp", "GOTRACEBACK=all"}
	cmd.Stdout, cmd.Stderr = results, results
	if err := cmd.Start(); err != nil {
		return err
	}
	for { // an init is the parent of all orphans
		pid, err := unix.Wait4(-1, nil, 0, nil)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		if pid == cmd.Process.Pid {
			return nil
		}
	}
}

// openPort opens the serial port that the machine was given under this name.
func openPort(name string) (*os.File, error) {
	files, err := filepath.Glob("/sys/class/virtio-ports/*/name")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil && strings.TrimSpace(string(text)) == name {
			return os.OpenFile(filepath.Join("/dev", filepath.Base(filepath.Dir(file))), os.O_RDWR, 0)
		}
	}
	return nil, fmt.Errorf("no port %s", name)
}
