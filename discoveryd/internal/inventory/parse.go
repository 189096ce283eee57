// The kernel's small texts and names, turned into values. Every function takes
// any bytes at all and says no to what the kernel would not print.
//
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

// numbered parses "4: ACTIVE", as drivers/infiniband/core/sysfs.c prints states
// and types. The number is that of the kernel's enum.
func numbered(text string) (int32, bool) {
	number, word, ok := strings.Cut(text, ": ")
	n, err := strconv.ParseUint(number, 10, 8)
	if !ok || err != nil || word == "" {
		return 0, false
	}
	return int32(n), true
}

// portState parses ports/N/state. A number that is newer than this program is
// unspecified, not an error.
func portState(text string) (discoveryv1.PortState, bool) {
	n, ok := numbered(text)
	if _, known := discoveryv1.PortState_name[n]; !known {
		n = 0
	}
	return discoveryv1.PortState(n), ok
}

// physState parses ports/N/phys_state.
func physState(text string) (discoveryv1.PhysState, bool) {
	n, ok := numbered(text)
	if _, known := discoveryv1.PhysState_name[n]; !known {
		n = 0
	}
	return discoveryv1.PhysState(n), ok
}

// nodeType parses node_type.
func nodeType(text string) (discoveryv1.NodeType, bool) {
	n, ok := numbered(text)
	if _, known := discoveryv1.NodeType_name[n]; !known {
		n = 0
	}
	return discoveryv1.NodeType(n), ok
}

// linkLayer parses ports/N/link_layer.
func linkLayer(text string) (discoveryv1.LinkLayer, bool) {
	switch text {
	case "InfiniBand":
		return discoveryv1.LinkLayer_LINK_LAYER_INFINIBAND, true
	case "Ethernet":
		return discoveryv1.LinkLayer_LINK_LAYER_ETHERNET, true
	case "Unknown":
		return discoveryv1.LinkLayer_LINK_LAYER_UNSPECIFIED, true
	}
	return discoveryv1.LinkLayer_LINK_LAYER_UNSPECIFIED, false
}

// hexID returns a PCI number such as 0x15b3 as lower-case digits: "15b3".
func hexID(text string, digits int) (string, bool) {
	id := strings.ToLower(strings.TrimPrefix(text, "0x"))
	return id, len(id) == digits && allHex(id)
}

// modaliasForm is what a PCI function's modalias looks like, with 0 for any digit
// (drivers/pci/pci-sysfs.c, modalias_show).
const modaliasForm = "pci:v00000000d00000000sv00000000sd00000000bc00sc00i00"

// parseModalias takes a PCI function's IDs, which have 16 bits, and its class from
// its modalias.
func parseModalias(text string, p *discoveryv1.Parent) bool {
	if len(text) != len(modaliasForm) {
		return false
	}
	for i := range len(text) {
		if c := modaliasForm[i]; text[i] != c && (c != '0' || !isHex(text[i])) {
			return false
		}
	}
	id := func(at int) string { return strings.ToLower(text[at+4 : at+8]) }
	p.VendorId, p.DeviceId, p.SubsystemVendorId, p.SubsystemDeviceId = id(5), id(14), id(24), id(34)
	p.Class = strings.ToLower(text[44:46] + text[48:50] + text[51:53])
	return true
}

// deviceNumber parses major:minor, as in the attribute dev.
func deviceNumber(text string) (major, minor uint32, ok bool) {
	left, right, found := strings.Cut(text, ":")
	ma, err1 := strconv.ParseUint(left, 10, 32)
	mi, err2 := strconv.ParseUint(right, 10, 32)
	return uint32(ma), uint32(mi), found && err1 == nil && err2 == nil
}

// isPCIAddress tells 0000:3b:00.0. Domains may have more than four digits (VMD).
func isPCIAddress(s string) bool {
	n := len(s)
	const tail = len("3b:00.0")
	if n < tail+5 || n > tail+9 || s[n-8] != ':' {
		return false
	}
	t := s[n-tail:]
	return allHex(s[:n-8]) && allHex(t[:2]) && t[2] == ':' && allHex(t[3:5]) && t[5] == '.' && t[6] >= '0' && t[6] <= '7'
}

// isPCIRoot tells pci0000:3a.
func isPCIRoot(s string) bool {
	domain, bus, ok := strings.Cut(strings.TrimPrefix(s, "pci"), ":")
	return ok && strings.HasPrefix(s, "pci") && len(domain) >= 4 && len(domain) <= 8 && len(bus) == 2 && allHex(domain) && allHex(bus)
}

// isAuxiliary tells the name of a device on the auxiliary bus: module, function
// and number (drivers/base/auxiliary.c): mlx5_core.sf.2.
func isAuxiliary(s string) bool {
	parts := strings.Split(s, ".")
	return len(parts) == 3 && parts[0] != "" && parts[1] != "" && isNumber(parts[2])
}

// isRepresentor tells from phys_port_name whether a network device stands for
// another function: pf0vf3, c1pf0sf88, pf1 (net/core/devlink). The function's own
// is called p0 or has no such name.
func isRepresentor(physPortName string) bool {
	s := physPortName
	if strings.HasPrefix(s, "c") {
		s = strings.TrimLeft(s[1:], "0123456789")
	}
	return strings.HasPrefix(s, "pf") && len(s) > 2 && s[2] >= '0' && s[2] <= '9'
}

// linkType gives the netlink encapsulation word for an ARPHRD number.
func linkType(text string) (string, bool) {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return "", false
	}
	switch n {
	case 1:
		return "ether", true
	case 32:
		return "infiniband", true
	case 772:
		return "loopback", true
	}
	return strconv.FormatUint(n, 10), true
}

// safeName makes any directory entry a valid, printable protobuf string of at
// most maxName bytes. clean tells whether it was one already.
func safeName(name string) (safe string, clean bool) {
	if len(name) <= maxName && utf8.ValidString(name) && strings.IndexFunc(name, unprintable) < 0 {
		return name, true
	}
	var b strings.Builder
	for i := 0; i < len(name); {
		r, size := utf8.DecodeRuneInString(name[i:])
		part := name[i : i+size]
		if r == utf8.RuneError && size == 1 || unprintable(r) {
			part = ""
			for _, c := range []byte(name[i : i+size]) {
				part += fmt.Sprintf(`\x%02x`, c)
			}
		}
		if b.Len()+len(part) > maxName {
			break
		}
		b.WriteString(part)
		i += size
	}
	return b.String(), false
}

// isFileName tells whether a text can be the name of a directory entry.
func isFileName(s string) bool {
	return s != "" && len(s) <= maxName && s != "." && s != ".." && !strings.ContainsAny(s, "/\x00")
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) }

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

func allHex(s string) bool {
	for i := range len(s) {
		if !isHex(s[i]) {
			return false
		}
	}
	return s != ""
}

// isNumber tells a decimal number without sign that is not absurdly long.
func isNumber(s string) bool {
	_, err := strconv.ParseUint(s, 10, 31)
	return err == nil
}
