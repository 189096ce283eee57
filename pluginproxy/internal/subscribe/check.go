// SPDX-License-Identifier: Apache-2.0

package subscribe

import (
	"errors"
	"fmt"
	"strings"

	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

// Bounds of a snapshot. The daemon keeps to them; a program that took its socket
// might not.
const (
	maxDevices = 8192
	maxNodes   = 4096 // character devices, ports or net devices of one device
	maxText    = 4096 // bytes of a name
)

// Check reports how a snapshot breaks the contract of discovery.proto: whatever
// the later rooms rely on. A snapshot that fails is refused as a whole, so that
// a half-understood state is never served.
func Check(s *discoveryv1.Snapshot) error {
	if s.GetInstanceId() == "" || s.GetGeneration() == 0 {
		return errors.New("a snapshot without instance_id or generation")
	}
	if n := len(s.GetDevices()); n > maxDevices {
		return fmt.Errorf("%d devices, more than %d", n, maxDevices)
	}
	seen := make(map[string]bool, len(s.GetDevices()))
	for i, d := range s.GetDevices() {
		if d.GetParent() == nil {
			return fmt.Errorf("device %d (%q) has no parent", i, clip(d.GetName()))
		}
		// A function without an RDMA device has no name and serves nothing.
		if seen[d.GetName()] {
			return fmt.Errorf("device %q stands twice in it", clip(d.GetName()))
		}
		seen[d.GetName()] = d.GetName() != ""
		if err := checkDevice(d); err != nil {
			return fmt.Errorf("device %d (%q): %w", i, clip(d.GetName()), err)
		}
	}
	return nil
}

func checkDevice(d *discoveryv1.Device) error {
	if len(d.GetName()) > maxText || strings.ContainsAny(d.GetName(), "/\x00") {
		return errors.New("not a device name")
	}
	if len(d.GetPorts()) > maxNodes || len(d.GetCharDevices()) > maxNodes || len(d.GetOtherNetDevices()) > maxNodes {
		return fmt.Errorf("more than %d ports, files or net devices", maxNodes)
	}
	for _, c := range d.GetCharDevices() {
		if err := checkPath(c.GetPath()); err != nil {
			return err
		}
	}
	return nil
}

// checkPath lets nothing through but a file directly below /dev/infiniband: a
// path from here ends up, opened by root, in a container.
func checkPath(path string) error {
	name, ok := strings.CutPrefix(path, "/dev/infiniband/")
	if !ok || name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") || len(name) > 255 {
		return fmt.Errorf("%q is no file below /dev/infiniband", clip(path))
	}
	return nil
}

// clip shortens a text for a message.
func clip(text string) string {
	const longest = 100
	if len(text) <= longest {
		return text
	}
	return text[:longest] + "…"
}
