// Texts and names, good and bad.
//
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

func TestPortStates(t *testing.T) {
	for text, want := range map[string]discoveryv1.PortState{
		"0: NOP": 0, "1: DOWN": 1, "2: INIT": 2, "3: ARMED": 3, "4: ACTIVE": 4, "5: ACTIVE_DEFER": 5, "6: LATER": 0,
	} {
		if got, ok := portState(text); got != want || !ok {
			t.Errorf("%q is %v, %v", text, got, ok)
		}
	}
	for _, text := range []string{"", "4", "ACTIVE", "4:ACTIVE", "4: ", "-1: DOWN", "999: X", "4 : ACTIVE"} {
		if got, ok := portState(text); ok || got != 0 {
			t.Errorf("%q is %v, %v", text, got, ok)
		}
	}
}

func TestNames(t *testing.T) {
	for _, test := range []struct {
		what string
		is   func(string) bool
		yes  string
		no   string
	}{
		{"PCI address", isPCIAddress, "0000:3b:00.0 10000:e1:1f.7 ffff:FF:ff.0", "3b:00.0 0000:3b:00.8 0000:3b:00 0000:3b:00.0x x000:3b:00.0 123456789:3b:00.0 pci0000:3b"},
		{"PCI root", isPCIRoot, "pci0000:3a pci10000:00", "0000:3a pci0000 pci0000:3a:00 pci0000:3g pci:00 pcix000:00"},
		{"auxiliary device", isAuxiliary, "mlx5_core.sf.2 ice.roce.0", "mlx5_core.sf mlx5_core.sf.x .sf.2 a..2 a.b.c.2 0000:3b:00.0 virtio1"},
		{"representor", isRepresentor, "pf0vf3 pf1 c1pf0sf88 c0pf0", "p0 p1 p0s1 c1p0 pf vf0"},
		{"file name", isFileName, "eth0 a.b -", ".. . a/b /"},
	} {
		for s := range strings.FieldsSeq(test.yes) {
			if !test.is(s) {
				t.Errorf("%q is not taken for a %s", s, test.what)
			}
		}
		for s := range strings.FieldsSeq(test.no) {
			if test.is(s) {
				t.Errorf("%q is taken for a %s", s, test.what)
			}
		}
		if test.is("") {
			t.Errorf("nothing is taken for a %s", test.what)
		}
	}
}

func TestPCINumbers(t *testing.T) {
	for _, test := range []struct {
		text   string
		digits int
		want   string
		ok     bool
	}{
		{"0x15b3", 4, "15b3", true}, {"15B3", 4, "15b3", true}, {"0x020000", 6, "020000", true},
		{"0x15b", 4, "15b", false}, {"0x15b33", 4, "15b33", false}, {"0xwxyz", 4, "wxyz", false}, {"", 4, "", false},
	} {
		if got, ok := hexID(test.text, test.digits); got != test.want || ok != test.ok {
			t.Errorf("%q is %q, %v", test.text, got, ok)
		}
	}
	for _, text := range []string{"", "231", "231:", ":1", "231:1:2", "-1:2", "99999999999:1", "a:b"} {
		if _, _, ok := deviceNumber(text); ok {
			t.Errorf("%q is taken for a device number", text)
		}
	}
}

func TestModalias(t *testing.T) {
	got := &discoveryv1.Parent{}
	if !parseModalias("pci:v000015B3d00001017sv000015B4sd0000A001bc02sc07i1a", got) {
		t.Error("is not taken")
	}
	want := &discoveryv1.Parent{VendorId: "15b3", DeviceId: "1017", SubsystemVendorId: "15b4", SubsystemDeviceId: "a001", Class: "02071a"}
	if !proto.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	for _, text := range []string{
		"", "pci:", "usb:v000015B3d00001017sv000015B4sd0000A001bc02sc07i1a", "pci:v000015B3d00001017sv000015B4sd0000A001bc02sc07i1",
		"pci:v000015B3d00001017sv000015B4sd0000A001bc02sc07i1a0", "pci:v000015B3d0000101Gsv000015B4sd0000A001bc02sc07i1a", "pci:v000015B3d00001017sv000015B4sd*bc02sc07i*",
	} {
		if got := (&discoveryv1.Parent{}); parseModalias(text, got) || !proto.Equal(got, &discoveryv1.Parent{}) {
			t.Errorf("%q is taken for %v", text, got)
		}
	}
}

func TestLocate(t *testing.T) {
	for _, test := range []struct {
		parent string
		want   location
	}{
		{"devices/pci0000:00/0000:00:05.0/0000:03:10.0", location{pci: "0000:03:10.0", pciPath: "devices/pci0000:00/0000:00:05.0/0000:03:10.0", pcieRoot: "pci0000:00"}},
		{"devices/pci0000:00/0000:00:02.0/virtio1", location{pci: "0000:00:02.0", pciPath: "devices/pci0000:00/0000:00:02.0", pcieRoot: "pci0000:00"}},
		{"devices/pci0000:00/0000:03:00.0/mlx5_core.sf.2", location{pci: "0000:03:00.0", pciPath: "devices/pci0000:00/0000:03:00.0", pcieRoot: "pci0000:00", auxiliary: "mlx5_core.sf.2"}},
		{"devices/platform/soc/1.pcie/pci0001:00/0001:01:00.0", location{pci: "0001:01:00.0", pciPath: "devices/platform/soc/1.pcie/pci0001:00/0001:01:00.0", pcieRoot: "pci0001:00"}},
		{"devices/virtual", location{}},
		{"devices/platform/HISI00D1:00", location{}},
		{"class", location{}},
		{"", location{}},
	} {
		test.want.parent = test.parent
		if got := locate(test.parent); got != test.want {
			t.Errorf("%s: got %+v, want %+v", test.parent, got, test.want)
		}
	}
}

func FuzzTexts(f *testing.F) {
	for _, seed := range []string{"4: ACTIVE", "5: LinkUp", "1: CA", "InfiniBand", "0x15b3", "231:192", "0000:3b:00.0", "mlx5_core.sf.2", "pf0vf1", "32", "\xff", modaliasForm, "pci:v000015B3d00001017sv000015B3sd00000001bc02sc00i00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if _, ok := portState(text); ok && !strings.Contains(text, ": ") {
			t.Errorf("%q is a state", text)
		}
		if isPCIAddress(text) && (isPCIRoot(text) || isAuxiliary(text) || charKind(text) != noChar || isRepresentor(text)) {
			t.Errorf("%q is two things", text)
		}
		_, _ = physState(text)
		_, _ = nodeType(text)
		_, _ = linkLayer(text)
		_, _, _ = deviceNumber(text)
		if id, ok := hexID(text, 4); ok && len(id) != 4 {
			t.Errorf("%q is the ID %q", text, id)
		}
		if p := (&discoveryv1.Parent{}); parseModalias(text, p) != (p.GetVendorId() != "") || len(p.GetClass())%6 != 0 {
			t.Errorf("%q is the modalias of %v", text, p)
		}
		if word, ok := linkType(text); ok && word == "" {
			t.Errorf("%q has no word", text)
		}
		if at := locate(text); !strings.HasPrefix(at.parent, at.pciPath) || at.pci != "" && !strings.HasSuffix(at.pciPath, at.pci) {
			t.Errorf("%q is at %+v", text, at)
		}
		safe, clean := safeName(text)
		if len(safe) > maxName || !utf8.ValidString(safe) || clean && safe != text {
			t.Errorf("%q became %q, %v", text, safe, clean)
		}
	})
}
