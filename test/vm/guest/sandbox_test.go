// A container in small: a mount name space with the device files that an Allocate
// answer names and no other, and a device cgroup that allows no other.
//
// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// sandboxed in the environment holds what the program is to become, a spec in JSON.
const sandboxed = "RDMA_RELAY_SANDBOX"

// devicesCgroup is the controller that can be driven without a BPF program.
const devicesCgroup = "/sys/fs/cgroup/devices"

type spec struct {
	Cgroup  string
	Devices []file
	// Probe is made in /dev and opened instead of a program's start.
	Probe *file
	Argv  []string
}

type file struct {
	Path string
	Rdev uint64
}

// sandbox returns a command that runs argv with the devices of the answer.
func sandbox(t *testing.T, answer *pluginapi.ContainerAllocateResponse, argv ...string) *exec.Cmd {
	t.Helper()
	return sandboxCommand(t, answer, spec{Argv: argv})
}

// probe tries to make a device file in the sandbox and to open it.
func probe(t *testing.T, answer *pluginapi.ContainerAllocateResponse, path string) *exec.Cmd {
	t.Helper()
	return sandboxCommand(t, answer, spec{Probe: &file{path, rdev(t, path)}})
}

func sandboxCommand(t *testing.T, answer *pluginapi.ContainerAllocateResponse, s spec) *exec.Cmd {
	t.Helper()
	must(t, os.MkdirAll(devicesCgroup, 0o755))
	if err := unix.Mount("cgroup", devicesCgroup, "cgroup", 0, "devices"); err != nil && !errors.Is(err, unix.EBUSY) {
		t.Fatal(err)
	}
	cgroup, err := os.MkdirTemp(devicesCgroup, "sandbox")
	must(t, err)
	t.Cleanup(func() { _ = os.Remove(cgroup) })
	rules := []string{"c 1:3 rw"} // /dev/null
	s.Cgroup = cgroup
	for _, d := range answer.GetDevices() {
		r := rdev(t, d.GetHostPath())
		s.Devices = append(s.Devices, file{d.GetContainerPath(), r})
		rules = append(rules, fmt.Sprintf("c %d:%d %s", unix.Major(r), unix.Minor(r), d.GetPermissions()))
	}
	if s.Probe != nil { // making it is allowed, so that opening it decides
		rules = append(rules, fmt.Sprintf("c %d:%d m", unix.Major(s.Probe.Rdev), unix.Minor(s.Probe.Rdev)))
	}
	for _, d := range s.Devices {
		rules = append(rules, fmt.Sprintf("c %d:%d m", unix.Major(d.Rdev), unix.Minor(d.Rdev)))
	}
	must(t, os.WriteFile(filepath.Join(cgroup, "devices.deny"), []byte("a"), 0o600))
	for _, rule := range rules {
		must(t, os.WriteFile(filepath.Join(cgroup, "devices.allow"), []byte(rule), 0o600))
	}
	text, err := json.Marshal(s)
	must(t, err)
	cmd := exec.Command("/init")
	cmd.Env = append(os.Environ(), sandboxed+"="+string(text))
	cmd.SysProcAttr = &unix.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}
	return cmd
}

func rdev(t *testing.T, path string) uint64 {
	t.Helper()
	var s unix.Stat_t
	must(t, unix.Stat(path, &s))
	if s.Mode&unix.S_IFMT != unix.S_IFCHR {
		t.Fatalf("%s is no character device", path)
	}
	return s.Rdev
}

// enterSandbox makes this process the program of the spec. It returns only an error,
// or what became of a probe.
func enterSandbox() error {
	var s spec
	if err := json.Unmarshal([]byte(os.Getenv(sandboxed)), &s); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(s.Cgroup, "cgroup.procs"), []byte("0"), 0o600); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount("tmpfs", "/dev", "tmpfs", 0, ""); err != nil {
		return fmt.Errorf("mount /dev: %w", err)
	}
	if s.Probe != nil && !slices.Contains(s.Devices, *s.Probe) {
		s.Devices = append(s.Devices, *s.Probe)
	}
	for _, d := range s.Devices {
		if err := os.MkdirAll(filepath.Dir(d.Path), 0o755); err != nil {
			return err
		}
		if err := unix.Mknod(d.Path, unix.S_IFCHR|0o666, int(d.Rdev)); err != nil {
			return fmt.Errorf("make %s: %w", d.Path, err)
		}
	}
	if s.Probe != nil {
		f, err := os.OpenFile(s.Probe.Path, os.O_RDWR, 0)
		if err == nil {
			_ = f.Close()
			err = errors.New("opened")
		}
		return err
	}
	return unix.Exec(s.Argv[0], s.Argv, []string{"PATH=/usr/bin:/bin"})
}
