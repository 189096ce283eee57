// The pfNames selector: ens1f0, ens1f0#0-3,7.
//
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"strconv"
	"strings"
)

// maxVFIndex is the highest VF index; TotalVFs of the PCI SR-IOV capability has 16 bits.
const maxVFIndex = 65534

// PFName names functions by a network device of their physical function.
type PFName struct {
	// Name is the physical function's network device.
	Name string
	// VFs are the indexes that are meant, both ends included; none means every
	// virtual and scalable function.
	VFs []VFRange
}

// VFRange is a range of VF indexes, both ends included.
type VFRange struct{ First, Last uint32 }

// Has tells whether the VF index is meant. Only call it on a VF.
func (p PFName) Has(index uint32) bool {
	for _, r := range p.VFs {
		if r.First <= index && index <= r.Last {
			return true
		}
	}
	return len(p.VFs) == 0
}

// String gives the spelling of the config file.
func (p PFName) String() string {
	var b strings.Builder
	b.WriteString(p.Name)
	for i, r := range p.VFs {
		separator := ","
		if i == 0 {
			separator = "#"
		}
		b.WriteString(separator + strconv.FormatUint(uint64(r.First), 10))
		if r.Last != r.First {
			b.WriteString("-" + strconv.FormatUint(uint64(r.Last), 10))
		}
	}
	return b.String()
}

// MarshalText gives the spelling of the config file.
func (p PFName) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

func parsePFName(s string) (p PFName, fault string) {
	name, ranges, ranged := strings.Cut(s, "#")
	if p.Name, fault = plainName(name); fault != "" {
		return PFName{}, quote(s) + " names no network device before the #"
	}
	if !ranged {
		return p, ""
	}
	for part := range strings.SplitSeq(ranges, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		low, lowErr := strconv.ParseUint(first, 10, 32)
		high, highErr := strconv.ParseUint(last, 10, 32)
		if lowErr != nil || highErr != nil || low > high || high > maxVFIndex {
			return PFName{}, quote(s) + " has no VF ranges such as ens1f0#0-3,7"
		}
		p.VFs = append(p.VFs, VFRange{uint32(low), uint32(high)})
	}
	return p, ""
}
