// Package cdiname gives every RDMA device a name that follows the hardware: it
// survives a reboot, a rename of the RDMA device and new uverbs numbers, and
// never depends on the order of a scan. discoveryd names its CDI devices by it;
// pluginproxy answers with the same names and makes its device IDs of them.
//
// SPDX-License-Identifier: Apache-2.0
package cdiname

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

// Vendor and Class make the CDI kind of all our devices. The vendor is a domain of
// the project's, so that the names clash with nobody's.
const (
	Vendor = "rdma-relay.dev"
	Class  = "hca"
)

const (
	// Kind is what stands before the = in a qualified name.
	Kind = Vendor + "/" + Class
	// MaxBytes is the length of the longest name. It leaves room for a slot number
	// within the 63 characters of a device plugin's ID.
	MaxBytes = 54
)

// Device names one device:
//
//   - on the PCI bus by its address (0000:3b:00.0);
//   - a scalable function by that of its parent and its auxiliary device
//     (0000:03:00.0-mlx5_core.sf.2);
//   - a virtual device (rxe, siw), which has neither, by its node GUID, which it
//     takes from its network device's MAC address (guid-0250-56ff-fe00-0001), and
//     where that is unknown by its name (name-rxe0).
//
// The name begins and ends with a letter or digit and holds only these and the
// characters "_-.:", as CDI wants it. Two devices can only have the same one
// where hardware that is described so doesn't exist, or where two virtual devices
// have the same GUID; then the one whose RDMA name sorts first keeps it.
func Device(d *discoveryv1.Device) string {
	parent := d.GetParent()
	switch {
	case parent.GetPciAddress() != "" && parent.GetFunction() == discoveryv1.FunctionKind_FUNCTION_KIND_SF:
		return legal(parent.GetPciAddress() + "-" + parent.GetAuxiliaryName())
	case parent.GetPciAddress() != "":
		return legal(parent.GetPciAddress())
	case strings.Trim(d.GetNodeGuid(), "0:") != "":
		return legal("guid-" + strings.ReplaceAll(d.GetNodeGuid(), ":", "-"))
	}
	return legal("name-" + d.GetName())
}

// Qualified is the fully qualified CDI name of the device that Device has named:
// rdma-relay.dev/hca=0000:3b:00.0.
func Qualified(name string) string { return Kind + "=" + name }

// IsQualified tells whether a text is what Qualified gives for some device's name.
func IsQualified(s string) bool {
	name, ours := strings.CutPrefix(s, Kind+"=")
	return ours && len(name) <= MaxBytes && wellFormed(name)
}

// legal leaves a well-formed name as it is. Of another one it keeps what is well
// formed and adds a hash of the whole, so that different ones stay different.
func legal(name string) string {
	if len(name) <= MaxBytes && wellFormed(name) {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	mark := "-" + hex.EncodeToString(sum[:8])
	var kept strings.Builder
	kept.WriteString("x")
	for i := 0; i < len(name) && kept.Len() < MaxBytes-len(mark); i++ {
		if alphanumeric(name[i]) || strings.IndexByte("_-.:", name[i]) >= 0 {
			kept.WriteByte(name[i])
		}
	}
	return kept.String() + mark
}

func wellFormed(name string) bool {
	for i := range len(name) {
		if alphanumeric(name[i]) {
			continue
		}
		if i == 0 || i == len(name)-1 || strings.IndexByte("_-.:", name[i]) < 0 {
			return false
		}
	}
	return name != ""
}

func alphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
