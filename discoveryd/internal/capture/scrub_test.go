// What is replaced, and that nothing of it is left.
//
// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"archive/tar"
	"bytes"
	"encoding/hex"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rdma-relay/rdma-relay/test/fakehost"
)

func TestScrubKeepsWhatBelongsTogether(t *testing.T) {
	var s scrubber
	for _, test := range [][2]string{
		// A MAC address, the GUIDs and GIDs that drivers make of it, and names.
		{"0c:42:a1:c6:cf:50", "00:00:01:00:00:01"},
		{"0C:42:A1:C6:CF:50", "00:00:01:00:00:01"},
		{"0c42:a103:00c6:cf50", "0000:0103:0000:0001"},
		{"0c42:a1ff:fec6:cf50", "0000:01ff:fe00:0001"},
		{"fe80:0000:0000:0000:0e42:a1ff:fec6:cf50", "fe80:0000:0000:0000:0200:01ff:fe00:0001"},
		{"0c42:a1c6:cf50:0000:0000:0000:0000:0000", "0000:0100:0001:0000:0000:0000:0000:0000"},
		{"enx0c42a1c6cf50", "enx000001000001"},
		{"rocex0c42a10300c6cf50", "rocex0000010300000001"},
		{"../../net/enx0c42a1c6cf50/device", "../../net/enx000001000001/device"},
		// Neighbours, and another maker's.
		{"0c:42:a1:c6:cf:51", "00:00:01:00:00:02"},
		{"a0:88:c2:c6:cf:51", "00:00:02:00:00:02"},
		// R32: a port GUID that is not the node's, and the IPoIB device on that port.
		{"0015:5dff:fe34:0283", "0000:03ff:fe00:0003"},
		{"0015:5dff:fd34:0283", "0000:03ff:fd00:0003"},
		{"00:00:01:48:fe:80:00:00:00:00:00:00:00:15:5d:ff:fd:34:02:83", "00:00:01:48:fe:80:00:00:00:00:00:00:00:00:03:ff:fd:00:00:03"},
		// Subnets and addresses. InfiniBand's small subnet numbers stay.
		{"fe80:0000:0000:0001:0015:5dff:fe34:0283", "fe80:0000:0000:0001:0000:03ff:fe00:0003"},
		{"fec0:0000:0000:0017:0015:5dff:fe34:0283", "2001:0db8:0000:0001:0000:03ff:fe00:0003"},
		{"fd12:3456:789a:0001:0e42:a1ff:fec6:cf50", "2001:0db8:0000:0002:0200:01ff:fe00:0001"},
		{"0000:0000:0000:0000:0000:ffff:0a09:0001", "0000:0000:0000:0000:0000:ffff:c612:0001"},
		{"0000:0000:0000:0000:0000:ffff:c0a8:0001", "0000:0000:0000:0000:0000:ffff:c612:0002"},
		// One that is random.
		{"1633:b7a9:04e1:feab", "0200:0400:0100:0004"},
		{"5254:00aa:bbcc:ddee:0011", "0000:0000:0000:0000:0001"},
		{"00112233445566778899aabbccddeeff", "20010db8000000030000050002000005"},
		// Not set; everybody.
		{"0000:0000:0000:0000", "0000:0000:0000:0000"},
		{"ff:ff:ff:ff:ff:ff", "ff:ff:ff:ff:ff:ff"},
		// What only looks like it.
		{"devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0", "devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0"},
		{"pci:v000015B3d00001017sv000015B3sd00000001bc02sc00i00", "pci:v000015B3d00001017sv000015B3sd00000001bc02sc00i00"},
		{"6.8.0-rc1-00123-g0dd3ee311255", "6.8.0-rc1-00123-g0dd3ee311255"},
		{"MT_0000000359", "MT_0000000359"},
		{"231:192", "231:192"}, {"4: ACTIVE", "4: ACTIVE"}, {"16.35.4030", "16.35.4030"}, {"", ""}, {":::", ":::"},
	} {
		if got := s.text(test[0]); got != test[1] {
			t.Errorf("%s became\n     %s, want\n     %s", test[0], got, test[1])
		}
	}
}

func TestScrubKeepsDifferentValuesDifferent(t *testing.T) {
	var s scrubber
	seen := map[string]string{}
	for i := range 20000 {
		guid := hex.EncodeToString([]byte{0x10, byte(i >> 16), 7, byte(i), byte(i >> 8), byte(i >> 3), byte(i >> 8), byte(i)})
		clean := s.text(guid)
		if other, taken := seen[clean]; taken {
			t.Fatalf("%s and %s became %s", guid, other, clean)
		}
		seen[clean] = guid
	}
}

// private are the things that must not be in an archive, as a fake host has them.
const (
	nodeGUID = "0c42:a103:00c6:cf54"
	vfGUID   = "1633:b7a9:04e1:feab"
	portGUID = "0015:5dff:fd34:0283"
	mac      = "0c:42:a1:c6:cf:54"
	address4 = "0000:0000:0000:0000:0000:ffff:0a09:0001"
	address6 = "fd12:3456:789a:0001:0e42:a1ff:fec6:cf54"
	hostName = "prod-node-17.example"
	serial   = "MT1932X00417"
)

func privateHost(t *testing.T) *fakehost.Host {
	t.Helper()
	h, err := fakehost.New(t.TempDir())
	must(t, err)
	must(t, h.Add(fakehost.HCA{PCI: "0000:3b:00.0", Name: "rocex0c42a10300c6cf54", Complete: true, NodeGUID: nodeGUID, TotalVFs: 4,
		Ports: []fakehost.Port{{LinkLayer: fakehost.Ethernet, GIDs: []string{address6, address4}, GIDNets: []string{"enx0c42a1c6cf54"}}},
		Nets:  []fakehost.Net{{Name: "enx0c42a1c6cf54", Address: mac, PhysSwitchID: "54cfc6000342a10c", Master: "bond0"}}}))
	must(t, h.Add(fakehost.HCA{PCI: "0000:3b:00.1", Name: "mlx5_1", Index: 1, Complete: true, PF: "0000:3b:00.0", NodeGUID: vfGUID,
		Ports: []fakehost.Port{{LinkLayer: fakehost.InfiniBand, GIDs: []string{"fe80:0000:0000:0000:" + portGUID}}},
		Nets:  []fakehost.Net{{Name: "ib0", Address: "00:00:01:48:fe:80:00:00:00:00:00:00:00:15:5d:ff:fd:34:02:83"}}}))
	must(t, h.AddNet(fakehost.Net{Name: "bond0", Address: mac}))
	must(t, h.AddNet(fakehost.Net{Name: "veth0c42a1c6", Address: "0a:0b:0c:0d:0e:0f"}))
	for p, text := range map[string]string{
		filepath.Join(h.DeviceDir("mlx5_1"), "node_desc"):     hostName + " HCA-1",
		filepath.Join(h.DeviceDir("mlx5_1"), "serial"):        serial,
		filepath.Join(h.FunctionDir("mlx5_1"), "vpd"):         serial,
		filepath.Join(h.Root(), "proc/sys/kernel/hostname"):   hostName,
		filepath.Join(h.DeviceDir("mlx5_1"), "board_id"):      "MT_0000000359",
		filepath.Join(h.Root(), "proc/sys/kernel/osrelease"):  "6.12.0",
		filepath.Join(h.FunctionDir("mlx5_1"), "sriov_token"): serial,
	} {
		must(t, os.MkdirAll(filepath.Dir(p), 0o755))
		must(t, os.WriteFile(p, []byte(text+"\n"), 0o600))
	}
	return h
}

func TestNothingThatTellsTheHostIsLeft(t *testing.T) {
	h := privateHost(t)
	var all bytes.Buffer
	each(t, pack(t, take(t, h.Root())), func(header *tar.Header, text []byte) {
		all.WriteString(header.Name + "\n" + header.Linkname + "\n" + string(text) + "\n")
	})
	lower := strings.ToLower(all.String())
	for _, value := range []string{nodeGUID, vfGUID, portGUID, mac, address4, address6, "0e42:a1ff:fec6:cf54", "0a09:0001", "c6:cf:54", "34:02:83", "fd12:3456"} {
		for _, spelling := range spellings(value) {
			if i := strings.Index(lower, spelling); i >= 0 {
				t.Errorf("%s is there as %s: %q", value, spelling, lower[max(0, i-60):min(len(lower), i+60)])
			}
		}
	}
	for _, word := range []string{hostName, "prod-node", serial, "54cfc6000342a10c", "veth"} {
		if strings.Contains(lower, strings.ToLower(word)) {
			t.Errorf("%s is there", word)
		}
	}
	for _, word := range []string{"mt_0000000359", "bond0", "ib0", "0000:3b:00.1", "6.12.0"} {
		if !strings.Contains(lower, word) {
			t.Errorf("%s should be there", word)
		}
	}
}

// spellings are the forms in which people and programs write a number, in lower case.
func spellings(value string) []string {
	bare := strings.ReplaceAll(value, ":", "")
	group := func(size int, by string) string {
		var parts []string
		for i := 0; i < len(bare); i += size {
			parts = append(parts, bare[i:min(len(bare), i+size)])
		}
		return strings.Join(parts, by)
	}
	return []string{value, bare, group(2, ":"), group(4, ":"), group(2, "-"), group(4, ".")}
}

// The test above sees what it has to: the same host as it is has it all.
func TestPrivateHostHasWhatIsLookedFor(t *testing.T) {
	h := privateHost(t)
	var all strings.Builder
	must(t, filepath.WalkDir(h.Root(), func(p string, d fs.DirEntry, err error) error {
		all.WriteString(p + "\n")
		if err == nil && d.Type().IsRegular() {
			text, err := os.ReadFile(p)
			all.Write(text)
			return err
		}
		return err
	}))
	for _, word := range []string{nodeGUID, vfGUID, portGUID, mac, address4, address6, hostName, serial, "veth", "0c42a1c6cf54"} {
		if !strings.Contains(all.String(), word) {
			t.Errorf("%s is not on the host", word)
		}
	}
}

func FuzzScrub(f *testing.F) {
	for _, text := range []string{"0c:42:a1:c6:cf:50", nodeGUID, address4, address6, "enx0c42a1c6cf54", "-g0dd3ee311255", "::::", "\xff:00", "pci0000:3a/0000:3b:00.0"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var s, again scrubber
		clean := s.text(text)
		if len(clean) != len(text) || utf8.ValidString(text) != utf8.ValidString(clean) || strings.Count(text, "/") != strings.Count(clean, "/") {
			t.Errorf("%q became %q", text, clean)
		}
		if twice := s.text(text); twice != clean {
			t.Errorf("%q became %q and then %q", text, clean, twice)
		}
		if more := again.text(clean); more != clean {
			t.Errorf("%q became %q, and this %q", text, clean, more)
		}
	})
}
