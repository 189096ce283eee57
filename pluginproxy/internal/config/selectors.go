// Selectors: which devices a resource takes, and the spellings that are taken for
// each key.
//
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Selectors name devices: a device matches when every key that has entries has
// one that fits. All lists are in their normal spelling, sorted and without
// doubles, so that they can be searched by halves.
type Selectors struct {
	// Vendors and DeviceIDs are PCI IDs: four lower-case hex digits.
	Vendors   []string `json:"vendors,omitempty"`
	DeviceIDs []string `json:"deviceIDs,omitempty"`
	Drivers   []string `json:"drivers,omitempty"`
	IfNames   []string `json:"ifNames,omitempty"`
	// LinkTypes are LinkEther or LinkInfiniband.
	LinkTypes   []string `json:"linkTypes,omitempty"`
	RDMADevices []string `json:"rdmaDevices,omitempty"`
	// PCIAddresses have the full form: 0000:3b:00.0.
	PCIAddresses []string `json:"pciAddresses,omitempty"`
	PFNames      []PFName `json:"pfNames,omitempty"`
	// Functions are FunctionPF and its like.
	Functions []string `json:"functions,omitempty"`
	NUMANodes []int    `json:"numaNodes,omitempty"`
	// NodeGUIDs are written as sysfs does: 0c42:a103:00c6:cf54.
	NodeGUIDs []string `json:"nodeGUIDs,omitempty"`
}

// Link types, the words of netlink.
const (
	LinkEther      = "ether"
	LinkInfiniband = "infiniband"
)

// Kinds of functions.
const (
	FunctionPF      = "pf"
	FunctionVF      = "vf"
	FunctionSF      = "sf"
	FunctionVirtual = "virtual"
)

const keyIfNames = "ifNames"

var selectorKeys = []string{
	"vendors", "deviceIDs", "drivers", keyIfNames, "linkTypes", "rdmaDevices", "pciAddresses", "pfNames",
	"functions", "numaNodes", "nodeGUIDs",
}

// Empty tells whether no key has an entry. Such selectors would match everything.
func (s *Selectors) Empty() bool {
	return len(s.Vendors)+len(s.DeviceIDs)+len(s.Drivers)+len(s.IfNames)+len(s.LinkTypes)+len(s.RDMADevices)+
		len(s.PCIAddresses)+len(s.PFNames)+len(s.Functions)+len(s.NUMANodes)+len(s.NodeGUIDs) == 0
}

// IsZero lets encoding/json leave out an empty exclude.
func (s Selectors) IsZero() bool { return s.Empty() }

// selectors decodes the object at path.
func (d *decoder) selectors(v value, path string) Selectors {
	f, _ := d.fields(v, path, selectorKeys)
	s := Selectors{
		Vendors:      f.texts("vendors", pciID),
		DeviceIDs:    f.texts("deviceIDs", pciID),
		Drivers:      f.texts("drivers", plainName),
		IfNames:      f.interfaceNames(keyIfNames),
		LinkTypes:    f.texts("linkTypes", linkType),
		RDMADevices:  f.rdmaNames("rdmaDevices"),
		PCIAddresses: f.texts("pciAddresses", pciAddress),
		PFNames:      f.pfNames("pfNames"),
		Functions:    f.texts("functions", function),
		NUMANodes:    f.numaNodes("numaNodes"),
		NodeGUIDs:    f.texts("nodeGUIDs", nodeGUID),
	}
	d.contradictions(&s, path)
	return s
}

// texts gives the entries in their normal spelling, sorted, each once.
func (f *fields) texts(key string, normal func(string) (string, string)) []string {
	var all []string
	f.each(key, func(entry string) string {
		n, fault := normal(entry)
		all = append(all, n)
		return fault
	})
	slices.Sort(all)
	return slices.Compact(all)
}

// interfaceNames warns of names that no network device can have.
func (f fields) interfaceNames(key string) []string {
	return f.texts(key, func(s string) (string, string) {
		f.tooLong(key, s, s, maxInterfaceName, "a network device's name")
		return plainName(s)
	})
}

// rdmaNames warns of names that no RDMA device can have.
func (f fields) rdmaNames(key string) []string {
	return f.texts(key, func(s string) (string, string) {
		f.tooLong(key, s, s, maxRDMAName, "an RDMA device's name")
		return plainName(s)
	})
}

func (f *fields) numaNodes(key string) []int {
	var nodes []int
	for i, item := range f.items(key) {
		path := fmt.Sprintf("%s[%d]", f.join(key), i)
		if item.kind != number {
			f.d.fail(path, "is %v, not a number", item.kind)
			continue
		}
		if n, ok := f.d.integer(item, path, 0, MaxNUMANode); ok {
			nodes = append(nodes, int(n))
		}
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

func (f *fields) pfNames(key string) []PFName {
	var names []PFName
	f.each(key, func(entry string) string {
		name, fault := parsePFName(entry)
		f.tooLong(key, entry, name.Name, maxInterfaceName, "a network device's name")
		names = append(names, name)
		return fault
	})
	slices.SortStableFunc(names, func(a, b PFName) int { return cmp.Compare(a.String(), b.String()) })
	return slices.CompactFunc(names, func(a, b PFName) bool { return a.String() == b.String() })
}

var (
	fourHex    = regexp.MustCompile(`^[0-9a-f]{4}$`)
	fullPCI    = regexp.MustCompile(`^[0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]$`)
	shortPCI   = regexp.MustCompile(`^[0-9a-f]{2}:[01][0-9a-f]\.[0-7]$`)
	sixteenHex = regexp.MustCompile(`^[0-9a-f]{16}$`)
)

// pciID takes 15b3 in any case, with and without 0x.
func pciID(s string) (normal, fault string) {
	id := strings.TrimPrefix(strings.ToLower(s), "0x")
	switch {
	case fourHex.MatchString(id):
		return id, ""
	case fullPCI.MatchString(id), shortPCI.MatchString(id):
		return "", quote(s) + " is a PCI address, not a PCI ID of four hex digits; it belongs into pciAddresses"
	}
	return "", quote(s) + " is no PCI ID of four hex digits such as 15b3"
}

// pciAddress takes any case and adds the domain where lspci leaves it out.
func pciAddress(s string) (normal, fault string) {
	address := strings.ToLower(s)
	if shortPCI.MatchString(address) {
		address = "0000:" + address
	}
	if !fullPCI.MatchString(address) {
		return "", quote(s) + " is no PCI address such as 0000:3b:00.0"
	}
	return address, ""
}

// nodeGUID takes any case, with and without colons and 0x.
func nodeGUID(s string) (normal, fault string) {
	hex := strings.ReplaceAll(strings.TrimPrefix(strings.ToLower(s), "0x"), ":", "")
	if !sixteenHex.MatchString(hex) {
		return "", quote(s) + " is no GUID such as 0c42:a103:00c6:cf54"
	}
	return hex[:4] + ":" + hex[4:8] + ":" + hex[8:12] + ":" + hex[12:], ""
}

// linkType takes the words that people use.
func linkType(s string) (normal, fault string) {
	switch strings.ToLower(s) {
	case "ether", "ethernet", "roce":
		return LinkEther, ""
	case "infiniband", "ib":
		return LinkInfiniband, ""
	}
	if near := nearest(s, []string{"ether", "ethernet", "roce", "infiniband"}); near != "" {
		return "", quote(s) + " is no link type; did you mean " + quote(near) + "?"
	}
	return "", quote(s) + " is no link type; allowed are ether (ethernet, roce) and infiniband (ib)"
}

func function(s string) (normal, fault string) {
	switch f := strings.ToLower(s); f {
	case FunctionPF, FunctionVF, FunctionSF, FunctionVirtual:
		return f, ""
	}
	return "", quote(s) + " is no kind of function; allowed are pf, vf, sf and virtual"
}

// plainName takes names as the kernel gives them: no white space, control
// characters or slashes.
func plainName(s string) (normal, fault string) {
	if s == "" {
		return "", "is empty; name something or remove the entry"
	}
	if strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == '/' || r == 0x7f }) {
		return "", quote(s) + " is no name: blanks, slashes and control characters can't occur in it"
	}
	return s, ""
}
