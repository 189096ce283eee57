// What the tests of this package share.
//
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
	"github.com/rdma-relay/rdma-relay/test/fakehost"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newHost makes a host with HCAs.
func newHost(t *testing.T, hcas ...fakehost.HCA) *fakehost.Host {
	t.Helper()
	host, err := fakehost.New(t.TempDir())
	must(t, err)
	for _, hca := range hcas {
		must(t, host.Add(hca))
	}
	return host
}

// hca is an HCA whose number is its place everywhere: mlx5_N at 0000:3b:00.N.
func hca(n int) fakehost.HCA {
	digit := string(rune('0' + n))
	return fakehost.HCA{PCI: "0000:3b:00." + digit, Name: "mlx5_" + digit, Index: n}
}

func newScanner(t *testing.T, root string) *Scanner {
	t.Helper()
	s, err := New(Options{Root: root})
	must(t, err)
	return s
}

func scan(t *testing.T, s *Scanner) *discoveryv1.Snapshot {
	t.Helper()
	snapshot, err := s.Scan(t.Context())
	must(t, err)
	return snapshot
}

func scanOf(t *testing.T, host *fakehost.Host) *discoveryv1.Snapshot {
	t.Helper()
	return scan(t, newScanner(t, host.Root()))
}

// device finds a device by RDMA name, or by PCI address where it has none.
func device(t *testing.T, s *discoveryv1.Snapshot, name string) *discoveryv1.Device {
	t.Helper()
	for _, d := range s.GetDevices() {
		if d.GetName() == name || d.GetName() == "" && d.GetParent().GetPciAddress() == name {
			return d
		}
	}
	t.Fatalf("no device %s among %s", name, namesOf(s))
	return nil
}

// namesOf are the names of all devices, with PCI addresses in brackets where there
// is none.
func namesOf(s *discoveryv1.Snapshot) string {
	var names []string
	for _, d := range s.GetDevices() {
		name := d.GetName()
		if name == "" {
			name = "(" + d.GetParent().GetPciAddress() + ")"
		}
		names = append(names, name)
	}
	return strings.Join(names, " ")
}

// codes are the codes of reasons, in short.
func codes(reasons []*discoveryv1.Reason) string {
	var all []string
	for _, r := range reasons {
		all = append(all, strings.TrimPrefix(r.GetCode().String(), "REASON_CODE_"))
	}
	return strings.Join(all, " ")
}

// message is what a device's reason with that short code says.
func message(d *discoveryv1.Device, code string) string {
	for _, r := range d.GetReasons() {
		if r.GetCode().String() == "REASON_CODE_"+code {
			return r.GetMessage()
		}
	}
	return ""
}

// files are the names of a device's character devices, with their ports.
func files(d *discoveryv1.Device) string {
	var all []string
	for _, c := range d.GetCharDevices() {
		name := strings.TrimPrefix(c.GetPath(), "/dev/infiniband/")
		if c.Port != nil {
			name += ":" + string(rune('0'+c.GetPort()))
		}
		all = append(all, name)
	}
	return strings.Join(all, " ")
}

func nets(list []*discoveryv1.NetDevice) string {
	var all []string
	for _, n := range list {
		all = append(all, n.GetName())
	}
	return strings.Join(all, " ")
}

func expect(t *testing.T, what string, got, want any) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// write replaces or makes a file below the device's directory.
func write(t *testing.T, host *fakehost.Host, device, name, content string) {
	t.Helper()
	p := filepath.Join(host.DeviceDir(device), name)
	must(t, os.RemoveAll(p))
	must(t, os.MkdirAll(filepath.Dir(p), 0o755))
	must(t, os.WriteFile(p, []byte(content), 0o600))
}

func writeFile(t *testing.T, p, content string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(p), 0o755))
	must(t, os.WriteFile(p, []byte(content), 0o600))
}
