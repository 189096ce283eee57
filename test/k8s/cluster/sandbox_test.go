// The cluster's name spaces. All its addresses, mounts and processes exist only in
// them, so that taking it down is letting one process end: the kernel then kills the
// others (pid_namespaces(7)) and drops mounts and network devices. What it can't drop
// are the cgroups and the work directory; the process outside removes those.
//
// SPDX-License-Identifier: Apache-2.0

//go:build cluster

package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// Environment variables by which the process inside is known.
const (
	insideDir    = "RDMA_RELAY_CLUSTER_DIR"
	insideCgroup = "RDMA_RELAY_CLUSTER_CGROUP"
)

// hidden are host directories that components write to under fixed names. A tmpfs
// lies over each of them.
var hidden = []string{"/run", "/var/log", "/var/lib/kubelet", "/var/lib/cni"}

// outside runs this program once more in name spaces of its own, and cleans up when
// that has ended, by itself or because of a signal.
func outside() (code int, err error) {
	work, err := os.MkdirTemp("", "rdma-relay-cluster-")
	if err != nil {
		return 1, err
	}
	made, err := makeMissing(append([]string{filepath.Join(work, "logs"), filepath.Join(work, "run")}, hidden...))
	defer func() {
		if code != 0 || err != nil {
			fmt.Fprintln(os.Stderr, "cluster: logs are in", filepath.Join(work, "logs"))
		} else {
			err = os.RemoveAll(work)
		}
		for _, dir := range made {
			_ = os.Remove(dir) // those of the host, as long as they are empty
		}
	}()
	if err != nil {
		return 1, err
	}
	group := filepath.Base(work)
	defer func() { err = errors.Join(err, removeCgroup(group)) }()
	if err := makeCgroup(group); err != nil {
		return 1, err
	}

	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGHUP)
	defer signal.Stop(signals)
	// Pdeathsig tells of the death of the thread that started the child.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), insideDir+"="+work, insideCgroup+"="+group)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET,
		Pdeathsig:  syscall.SIGKILL,
	}
	if err := cmd.Start(); err != nil {
		return 1, fmt.Errorf("make name spaces: %w", err)
	}
	ended := make(chan struct{})
	interrupted := make(chan os.Signal, 1)
	go func() {
		select {
		case s := <-signals:
			interrupted <- s
			_ = cmd.Process.Kill()
		case <-ended:
		}
	}()
	_ = cmd.Wait() // the way it ended is read from ProcessState
	close(ended)
	select {
	case s := <-interrupted:
		return 1, fmt.Errorf("ended by %v", s)
	default:
		return cmd.ProcessState.ExitCode(), nil
	}
}

// makeMissing makes directories and tells which were not there, deepest first.
func makeMissing(dirs []string) (made []string, err error) {
	for _, dir := range dirs {
		if _, err := os.Stat(dir); err == nil {
			continue
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return made, err
		}
		made = append([]string{dir}, made...)
	}
	return made, nil
}

// prepareSandbox makes, inside, mounts and network as the components expect them.
func prepareSandbox(work string) error {
	if os.Getpid() != 1 {
		return fmt.Errorf("%s is set, but this is process %d, not 1", insideDir, os.Getpid())
	}
	mounts := []struct {
		what, where, kind string
		flags             uintptr
	}{
		{"", "/", "", unix.MS_REC | unix.MS_PRIVATE},
		{"proc", "/proc", "proc", 0},
		{"tmpfs", filepath.Join(work, "run"), "tmpfs", 0},
	}
	for _, dir := range hidden {
		mounts = append(mounts, struct {
			what, where, kind string
			flags             uintptr
		}{"tmpfs", dir, "tmpfs", 0})
	}
	for _, m := range mounts {
		if err := unix.Mount(m.what, m.where, m.kind, m.flags, ""); err != nil {
			return fmt.Errorf("mount %s: %w", m.where, err)
		}
	}
	if err := shieldSysctls(filepath.Join(work, "run/sysctl")); err != nil {
		return err
	}
	if err := ownDevices(filepath.Join(work, "run/dev")); err != nil {
		return err
	}
	if err := loopback(apiAddress, nodeAddress); err != nil {
		return err
	}
	// A node's mounts are shared: what kubelet mounts is seen by those it starts.
	return unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, "")
}

// shieldSysctls lays plain files over the kernel settings that kubelet changes on its
// start (setupKernelTunables in pkg/kubelet/cm) and that are the whole machine's.
func shieldSysctls(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, name := range []string{"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
		"kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes"} {
		path := filepath.Join("/proc/sys", name)
		value, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		file := filepath.Join(dir, filepath.Base(name))
		if err := os.WriteFile(file, value, 0o644); err != nil {
			return err
		}
		if err := unix.Mount(file, path, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("mount %s: %w", path, err)
		}
	}
	return nil
}

// ownDevices puts a /dev of our own in the place of the machine's: a sample node's
// /dev/infiniband has to be there, for a runtime looks at device files under the very
// path that a device plugin names.
func ownDevices(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=0755"); err != nil {
		return fmt.Errorf("mount %s: %w", dir, err)
	}
	for _, sub := range []string{"pts", "shm", "mqueue", "infiniband"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil {
			return err
		}
	}
	for _, n := range []struct {
		name         string
		major, minor uint32 // Documentation/admin-guide/devices.txt
	}{{"null", 1, 3}, {"zero", 1, 5}, {"full", 1, 7}, {"random", 1, 8}, {"urandom", 1, 9}, {"kmsg", 1, 11}, {"tty", 5, 0}} {
		path := filepath.Join(dir, n.name)
		if err := unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(n.major, n.minor))); err != nil {
			return fmt.Errorf("mknod %s: %w", path, err)
		}
		if err := os.Chmod(path, 0o666); err != nil {
			return err
		}
	}
	if err := os.Symlink("pts/ptmx", filepath.Join(dir, "ptmx")); err != nil {
		return err
	}
	if err := unix.Mount("devpts", filepath.Join(dir, "pts"), "devpts", 0, "newinstance,ptmxmode=0666"); err != nil {
		return fmt.Errorf("mount devpts: %w", err)
	}
	if err := unix.Mount(dir, "/dev", "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("mount /dev: %w", err)
	}
	return nil
}

// loopback gives lo some addresses and sets it up. The service address of the API
// server is one of them, so that pods reach it without a kube-proxy.
func loopback(addresses ...string) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	up, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	up.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, up); err != nil {
		return fmt.Errorf("set lo up: %w", err)
	}
	for i, address := range addresses {
		for _, step := range []struct {
			request uint
			value   string
		}{{unix.SIOCSIFADDR, address}, {unix.SIOCSIFNETMASK, "255.255.255.255"}} {
			// An address beside the first is that of an alias (devinet.c).
			req, err := unix.NewIfreq(fmt.Sprintf("lo:%d", i+1))
			if err != nil {
				return err
			}
			if err := req.SetInet4Addr(netip.MustParseAddr(step.value).AsSlice()); err != nil {
				return err
			}
			if err := unix.IoctlIfreq(fd, step.request, req); err != nil {
				return fmt.Errorf("give lo the address %s: %w", address, err)
			}
		}
	}
	return nil
}
