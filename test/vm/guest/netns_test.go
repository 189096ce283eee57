// Network name spaces.
//
// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

func TestR50_ExclusiveNetnsModeAndBack(t *testing.T) {
	withRDMA(t)
	rxe(t, "rxe0", "d0")
	// The kernel tells nobody of the mode's change: the next event or the resync finds it.
	n := startNode(t, hostNetns, "--resync-interval=2s")
	n.listed(each, 2, 2)
	t.Cleanup(func() {
		eventually(t, "shared mode", func() bool { return netlink.RdmaSystemSetNetnsMode("shared") == nil })
	})
	// Name spaces of earlier tests end a little later than their processes.
	eventually(t, "exclusive mode", func() bool { return netlink.RdmaSystemSetNetnsMode("exclusive") == nil })
	n.listed(each, 0, 0)
	s := n.watch.await("exclusive mode", func(s *discoveryv1.Snapshot) bool {
		return s.GetNode().GetNetnsMode() == discoveryv1.NetnsMode_NETNS_MODE_EXCLUSIVE
	}).snapshot
	for _, d := range append([]string{"node"}, deviceNames(s)...) {
		all := s.GetNode().GetReasons()
		if d != "node" {
			all = device(s, d).GetReasons()
		}
		if !strings.Contains(reasons(all), "NETNS_EXCLUSIVE") {
			t.Errorf("%s has reasons %q", d, reasons(all))
		}
	}
	for what, text := range map[string]string{
		"discoveryd list":          command(t, "/bin/discoveryd", "list", "--host-root=/"),
		"discoveryd list in a pod": inOwnNetns(t, "/bin/discoveryd", "list", "--host-root=/"),
		"/readyz":                  n.get("/readyz"),
	} {
		if !strings.Contains(text, "rdma system set netns shared") {
			t.Errorf("%s does not tell the remedy:\n%s", what, text)
		}
	}
	if metrics := n.get("/metrics"); !strings.Contains(strings.ToLower(metrics), "exclusive") {
		t.Error("no metric tells of exclusive mode")
	}
	if mode, err := netlink.RdmaSystemGetNetnsMode(); err != nil || mode != "exclusive" {
		t.Errorf("the mode was changed to %s: %v", mode, err)
	}

	eventually(t, "shared mode", func() bool { return netlink.RdmaSystemSetNetnsMode("shared") == nil })
	n.listed(each, 2, 2)
	n.listed(pool, 10, 10)
}

func TestNetdevMovedAwayAndBack(t *testing.T) {
	withRDMA(t)
	link := rxe(t, "rxe0", "d0")
	rxe(t, "rxe1", "d1")
	n := startNode(t, hostNetns)
	n.listed(each, 4, 4)
	ids := slotIDs(n, each)

	pod := inPod(t)
	must(t, netlink.LinkSetNsPid(link, pod)) // an rxe device ends with that
	n.devices("rxe1")
	n.listed(each, 2, 2)
	n.listed(pool, 10, 10)

	must(t, inNetnsOf(pod, func() error {
		back, err := netlink.LinkByName("d0")
		if err != nil {
			return err
		}
		return netlink.LinkSetNsPid(back, os.Getpid())
	}))
	link, err := netlink.LinkByName("d0")
	must(t, err)
	must(t, netlink.LinkSetUp(link))
	must(t, netlink.RdmaLinkAdd("rxe0", "rxe", "d0"))
	n.listed(each, 4, 4)
	if got := slotIDs(n, each); !equal(got, ids) {
		t.Errorf("slots after the way back %v, before %v", got, ids)
	}
}

// inOwnNetns runs a program in a network name space of its own, with the host's /sys.
func inOwnNetns(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%s %v: %v", name, args, err)
	}
	return string(out)
}

// inPod starts a process in a network name space of its own, until the test's end.
func inPod(t *testing.T) (pid int) {
	t.Helper()
	pod := exec.Command("/init")
	pod.Env = []string{waits + "=1"}
	pod.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET}
	in, err := pod.StdinPipe()
	must(t, err)
	must(t, pod.Start())
	t.Cleanup(func() {
		_ = in.Close()
		must(t, pod.Wait())
	})
	return pod.Process.Pid
}

// inNetnsOf does something in the network name space of a process.
func inNetnsOf(pid int, do func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		fd, err := unix.Open(fmt.Sprintf("/proc/%d/ns/net", pid), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err == nil {
			err = unix.Setns(fd, unix.CLONE_NEWNET)
			_ = unix.Close(fd)
		}
		if err == nil {
			err = do()
		}
		done <- err
	}()
	return <-done
}
