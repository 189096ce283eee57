// What tells one host from another is replaced: GUIDs, MAC addresses, GIDs with the IP
// addresses and subnets in them, and hardware addresses of IPoIB; in texts, in names
// and in what links lead to, for udev makes names of them (enx0c42a1c6cf50).
//
// A replacement is a count of the different values so far. So it tells nothing of the
// value and needs no secret; equal values stay equal, different ones different, and a
// recording of a recording is the same again. The halves of an EUI-48 are counted by
// themselves, so that a GUID or GID made from a MAC address is so afterwards.
//
// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strings"
)

// Replaced counts different values.
type Replaced struct {
	MACs  int // of 6 bytes
	GUIDs int // of 8 bytes
	GIDs  int // of 16 bytes, and the hardware addresses (20 bytes) that have one
}

// scrubber replaces. The zero value is ready; it is for one goroutine.
type scrubber struct {
	// The numbers given so far. The counts of a table begin with 1: zero stands for
	// nothing, as in the values themselves.
	oui, nic, middle, prefix, ip, other table
	// seen are the values that were replaced.
	seen map[string]bool
}

// table numbers values.
type table map[string]uint64

func (t *table) number(key []byte) uint64 {
	if *t == nil {
		*t = table{}
	}
	n, known := (*t)[string(key)]
	if !known {
		n = uint64(len(*t)) + 1
		(*t)[string(key)] = n
	}
	return n
}

// replaced counts what was replaced so far.
func (s *scrubber) replaced() (r Replaced) {
	for value := range s.seen {
		switch len(value) {
		case 6:
			r.MACs++
		case 8:
			r.GUIDs++
		default:
			r.GIDs++
		}
	}
	return r
}

// members scrubs the members of an archive, which are sorted by path, and sorts them
// anew.
func (s *scrubber) members(members []member) []member {
	clean := make([]member, 0, len(members))
	for _, m := range members {
		clean = append(clean, member{path: s.text(m.path), kind: m.kind, text: s.text(m.text)})
	}
	slices.SortStableFunc(clean, func(a, b member) int { return strings.Compare(a.path, b.path) })
	return slices.CompactFunc(clean, func(a, b member) bool { return a.path == b.path })
}

// texts scrubs each text.
func (s *scrubber) texts(texts []string) []string {
	clean := make([]string, 0, len(texts))
	for _, text := range texts {
		clean = append(clean, s.text(text))
	}
	return clean
}

// text scrubs a text. It keeps its length, and how what is replaced is spelled.
func (s *scrubber) text(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); {
		end := i
		for end < len(text) && (isHex(text[end]) || text[end] == ':') {
			end++
		}
		if end == i {
			b.WriteByte(text[i])
			i++
			continue
		}
		if strings.HasSuffix(text[:i], "-g") { // a commit, in a kernel's release
			b.WriteString(text[i:end])
		} else {
			b.WriteString(s.run(text[i:end]))
		}
		i = end
	}
	return b.String()
}

// run scrubs hexadecimal digits and colons: 0c:42:a1:c6:cf:50, or
// fe80:0000:0000:0000:0e42:a1ff:fec6:cf50, or 0c42a1c6cf50.
func (s *scrubber) run(run string) string {
	groups := strings.Split(run, ":")
	for i := 0; i < len(groups); {
		end := i + 1
		for end < len(groups) && len(groups[end]) == len(groups[i]) {
			end++
		}
		s.groups(groups[i:end])
		i = end
	}
	return strings.Join(groups, ":")
}

// groups scrubs groups that have all the same number of digits.
func (s *scrubber) groups(groups []string) {
	size := len(groups[0])
	switch digits := size * len(groups); {
	case size == 2 && digits >= 12, size == 4 && digits >= 16:
		s.spelled(groups, size)
	case slices.Contains([]int{12, 16, 32, 40}, size):
		for i := range groups {
			s.spelled(groups[i:i+1], size)
		}
	}
}

// spelled replaces the value that is spelled by groups of so many digits.
func (s *scrubber) spelled(groups []string, size int) {
	text := strings.Join(groups, "")
	value, err := hex.DecodeString(text)
	if err != nil {
		return
	}
	clean := hex.EncodeToString(s.value(value))
	if strings.ToUpper(text) == text {
		clean = strings.ToUpper(clean)
	}
	for i := range groups {
		groups[i] = clean[i*size : (i+1)*size]
	}
}

// value replaces a value. All zeros (not set) and all ones (everybody) stay.
func (s *scrubber) value(v []byte) []byte {
	if same(v, 0) || same(v, 0xff) {
		return v
	}
	if s.seen == nil {
		s.seen = map[string]bool{}
	}
	s.seen[string(v)] = true
	switch len(v) {
	case 6:
		return s.mac(v)
	case 8:
		return s.guid(v)
	case 16:
		return s.gid(v)
	case 20: // flags and queue pair, then the GID (RFC 4391)
		return slices.Concat(v[:4], s.gid(v[4:]))
	}
	return counted(len(v), s.other.number(v))
}

// counted spells a count in so many bytes.
func counted(size int, n uint64) []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, size), n)
	return b[len(b)-size:]
}

// mac replaces an EUI-48.
func (s *scrubber) mac(v []byte) []byte { return slices.Concat(s.maker(v[:3]), s.serial(v[3:])) }

// maker replaces the first half of an EUI-48, apart from the two bits that have a
// meaning: GIDs have one of them inverted.
func (s *scrubber) maker(v []byte) []byte {
	const bits = 0b11
	n := s.oui.number([]byte{v[0] &^ bits, v[1], v[2]})
	return []byte{byte(n>>16)<<2 | v[0]&bits, byte(n >> 8), byte(n)}
}

// serial replaces the second half of an EUI-48.
func (s *scrubber) serial(v []byte) []byte { return counted(3, s.nic.number(v)) }

// guid replaces an EUI-64. If it was made from an EUI-48, what stands between the
// halves of that tells how: ff:fe or 03:00, or what comes next to these.
func (s *scrubber) guid(v []byte) []byte {
	if same(v, 0) {
		return v
	}
	middle := v[3:5]
	switch {
	case same(middle, 0), middle[0] == 0xff, middle[0] == 0x03:
	default:
		n := s.middle.number(middle)
		for n>>8 == 0x03 || n>>8 == 0xff { // those stay free for what is kept
			n += 0x100
		}
		middle = counted(2, n)
	}
	return slices.Concat(s.maker(v[:3]), middle, s.serial(v[5:]))
}

// gid replaces a GID: a subnet prefix and a GUID (InfiniBand, RoCE), an IPv4 address
// (RoCE v2), or a MAC address and zeros (iWARP).
func (s *scrubber) gid(v []byte) []byte {
	mapped := append(make([]byte, 10), 0xff, 0xff)
	switch {
	case same(v, 0):
		return v
	case bytes.HasPrefix(v, mapped):
		// 198.18.0.0/15 is for tests of networks (RFC 2544): nobody's.
		return binary.BigEndian.AppendUint32(mapped, 198<<24|18<<16+uint32(s.ip.number(v[12:])))
	case same(v[6:], 0):
		return slices.Concat(s.mac(v[:6]), v[6:])
	}
	return slices.Concat(s.subnet(v[:8]), s.guid(v[8:]))
}

// subnet replaces a subnet prefix. The link's own stays, which has at most a small
// number with InfiniBand.
func (s *scrubber) subnet(v []byte) []byte {
	if same(v, 0) || bytes.HasPrefix(v, []byte{0xfe, 0x80, 0, 0, 0, 0}) {
		return v
	}
	// 2001:db8::/32 is for documentation (RFC 3849).
	return slices.Concat([]byte{0x20, 0x01, 0x0d, 0xb8}, counted(4, s.prefix.number(v)))
}

// same tells whether all bytes are b.
func same(v []byte, b byte) bool {
	return !slices.ContainsFunc(v, func(c byte) bool { return c != b })
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}
