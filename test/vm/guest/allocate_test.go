// What a container can do with the device files that it is given.
//
// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

func TestR45_ContainerHasItsDeviceAndNoOther(t *testing.T) {
	withRDMA(t)
	link := rxe(t, "rxe0", "d0")
	address(t, link, "10.0.0.1")
	rxe(t, "rxe1", "d1")
	n := startNode(t, hostNetns)
	n.listed(each, 4, 4)
	answer := n.allocate(each, "rxe0")

	own, other := uverbs(t, "rxe0"), uverbs(t, "rxe1")
	paths := devicePaths(answer)
	if !slices.Contains(paths, own) || !slices.Contains(paths, "/dev/infiniband/rdma_cm") || slices.Contains(paths, other) {
		t.Errorf("the answer for rxe0 has %v; its own file is %s, that of rxe1 %s", paths, own, other)
	}

	t.Run("DevinfoOfItsOwn", func(t *testing.T) {
		out, err := sandbox(t, answer, "/usr/bin/ibv_devinfo", "-d", "rxe0").CombinedOutput()
		if err != nil || !bytes.Contains(out, []byte("PORT_ACTIVE")) {
			t.Errorf("ibv_devinfo -d rxe0: %v\n%s", err, out)
		}
	})
	t.Run("DevinfoOfAnotherFails", func(t *testing.T) {
		if out, err := sandbox(t, answer, "/usr/bin/ibv_devinfo", "-d", "rxe1").CombinedOutput(); err == nil {
			t.Errorf("ibv_devinfo -d rxe1 works:\n%s", out)
		}
	})
	t.Run("CgroupRefusesAnother", func(t *testing.T) {
		for path, want := range map[string]string{own: "opened", other: "operation not permitted"} {
			if out, _ := probe(t, answer, path).CombinedOutput(); !bytes.Contains(out, []byte(want)) {
				t.Errorf("opening %s: %s, want %q", path, out, want)
			}
		}
	})
	t.Run("PingPongBetweenTwoContainers", func(t *testing.T) { pingPong(t, n) })
}

// pingPong sends RDMA messages over a reliable connection from one container to another.
func pingPong(t *testing.T, n *node) {
	t.Helper()
	args := []string{"/usr/bin/ibv_rc_pingpong", "-d", "rxe0", "-g", ipv4GID(t, "rxe0"), "-n", "100"}
	server := sandbox(t, n.allocate(each, "rxe0"), args...)
	var said bytes.Buffer
	server.Stdout, server.Stderr = &said, &said
	must(t, server.Start())
	t.Cleanup(func() { _ = server.Process.Kill() })
	eventually(t, "the server listens", func() bool { return listening(t, 18515) })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	client := sandbox(t, n.allocate(each, "rxe0"), append(args, "127.0.0.1")...)
	out, err := output(ctx, client)
	if err == nil {
		err = server.Wait()
	}
	if err != nil || !strings.Contains(out, "iters in") {
		t.Errorf("ibv_rc_pingpong: %v\nclient:\n%s\nserver:\n%s", err, out, said.String())
	}
	t.Logf("%s", out)
}

func output(ctx context.Context, cmd *exec.Cmd) (string, error) {
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	defer stop()
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// allocate asks for one slot of a device.
func (n *node) allocate(resource, device string) *pluginapi.ContainerAllocateResponse {
	n.t.Helper()
	var found *pluginapi.ContainerAllocateResponse
	eventually(n.t, "a slot of "+resource+" that gives "+device, func() bool {
		for _, d := range n.kubelet.State().Resources[resource].Devices {
			answer, err := n.kubelet.Allocate(n.t.Context(), resource, d.ID)
			for name, value := range answer.GetEnvs() {
				if err == nil && strings.HasPrefix(name, "RDMADEVICE_") && value == device {
					found = answer
				}
			}
		}
		return found != nil
	})
	return found
}

func devicePaths(answer *pluginapi.ContainerAllocateResponse) (paths []string) {
	for _, d := range answer.GetDevices() {
		paths = append(paths, d.GetHostPath())
	}
	return paths
}

// uverbs is the file of a device, as the kernel tells.
func uverbs(t *testing.T, device string) string {
	t.Helper()
	for _, name := range names(t, "/sys/class/infiniband_verbs") {
		text, err := os.ReadFile(filepath.Join("/sys/class/infiniband_verbs", name, "ibdev"))
		if err == nil && strings.TrimSpace(string(text)) == device {
			return "/dev/infiniband/" + name
		}
	}
	t.Fatalf("no uverbs of %s", device)
	return ""
}

func address(t *testing.T, link netlink.Link, ip string) {
	t.Helper()
	must(t, netlink.AddrAdd(link, &netlink.Addr{IPNet: &net.IPNet{IP: net.ParseIP(ip), Mask: net.CIDRMask(24, 32)}}))
}

// ipv4GID is the index of the address of the device's only port that was made of IPv4.
func ipv4GID(t *testing.T, device string) string {
	t.Helper()
	dir := filepath.Join("/sys/class/infiniband", device, "ports/1/gids")
	index := ""
	eventually(t, "a GID of an IPv4 address", func() bool {
		for _, name := range []string{"0", "1", "2", "3"} {
			text, err := os.ReadFile(filepath.Join(dir, name))
			if err == nil && strings.HasPrefix(string(text), "0000:0000:0000:0000:0000:ffff:") {
				index = name
			}
		}
		return index != ""
	})
	return index
}

// listening tells whether a TCP port is listened on (Documentation/networking/proc_net_tcp.rst).
func listening(t *testing.T, port uint16) bool {
	t.Helper()
	for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, err := os.ReadFile(file)
		must(t, err)
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line)
			if len(f) > 3 && f[3] == "0A" && strings.HasSuffix(f[1], ":"+hex4(port)) {
				return true
			}
		}
	}
	return false
}

func hex4(n uint16) string {
	const digits = "0123456789ABCDEF"
	return string([]byte{digits[n>>12], digits[n>>8&15], digits[n>>4&15], digits[n&15]})
}
