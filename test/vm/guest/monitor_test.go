// The machine's own monitor: cables and cards.
//
// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
)

// monitor gives QEMU's monitor a command, and returns when it is done.
func monitor(t testing.TB, command string) {
	t.Helper()
	port, err := openPort("rdma-relay.monitor")
	must(t, err)
	defer port.Close()
	_, err = port.WriteString(command + "\n")
	must(t, err)
	must(t, port.SetReadDeadline(time.Now().Add(patience)))
	var answer []byte
	buf := make([]byte, 4096)
	for !bytes.Contains(answer, []byte("\n(qemu) ")) {
		n, err := port.Read(buf)
		if err != nil {
			t.Fatalf("monitor: %s: %v; answer so far: %q", command, err, answer)
		}
		answer = append(answer, buf[:n]...)
	}
	if bytes.Contains(answer, []byte("Error")) {
		t.Fatalf("monitor: %s: %s", command, answer)
	}
}

// netdevOf waits for the network device below a bus's device whose driver is this, and sets it up.
func netdevOf(t testing.TB, driver string) string {
	t.Helper()
	name := ""
	eventually(t, "a network device of "+driver, func() bool {
		links, _ := filepath.Glob("/sys/class/net/*/device/driver")
		for _, link := range links {
			if target, err := os.Readlink(link); err == nil && filepath.Base(target) == driver {
				name = filepath.Base(filepath.Dir(filepath.Dir(link)))
			}
		}
		return name != ""
	})
	link, err := netlink.LinkByName(name)
	must(t, err)
	must(t, netlink.LinkSetUp(link))
	return name
}
