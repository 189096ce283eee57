// Selectors against facts: the first rule that turns a device away, in words.
//
// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"slices"
	"strconv"
	"strings"

	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/config"
)

// test is one key's rule for one device.
type test struct {
	key string
	// single: each entry names one thing, so that a missing one is worth a hint.
	single bool
	set    func(*config.Selectors) bool
	ok     func(*config.Selectors, *facts) bool
	// has shows what the device has, wants what the config asks for.
	has   func(*facts) string
	wants func(*config.Selectors) []string
}

// textTest is the rule of a key that compares one text of the device.
func textTest(key string, list func(*config.Selectors) []string, get func(*facts) string) test {
	return test{
		key:   key,
		set:   func(s *config.Selectors) bool { return len(list(s)) > 0 },
		ok:    func(s *config.Selectors, f *facts) bool { return has(list(s), get(f)) },
		has:   func(f *facts) string { return clip(get(f)) },
		wants: list,
	}
}

// textsTest is the rule of a key where one of several texts of the device must fit.
func textsTest(key string, list func(*config.Selectors) []string, get func(*facts) []string) test {
	return test{
		key: key,
		set: func(s *config.Selectors) bool { return len(list(s)) > 0 },
		ok: func(s *config.Selectors, f *facts) bool {
			return slices.ContainsFunc(get(f), func(t string) bool { return has(list(s), t) })
		},
		has:   func(f *facts) string { return some(get(f)) },
		wants: list,
	}
}

func single(t test) test {
	t.single = true
	return t
}

func has(sorted []string, t string) bool {
	_, found := slices.BinarySearch(sorted, t)
	return found
}

// tests are all keys in the order in which they are asked.
func tests() []test {
	type sel = *config.Selectors
	return []test{
		textTest("vendors", func(s sel) []string { return s.Vendors }, func(f *facts) string { return f.vendor }),
		textTest("deviceIDs", func(s sel) []string { return s.DeviceIDs }, func(f *facts) string { return f.deviceID }),
		textTest("drivers", func(s sel) []string { return s.Drivers }, func(f *facts) string { return f.driver }),
		single(textsTest("ifNames", func(s sel) []string { return s.IfNames }, func(f *facts) []string { return f.ifNames })),
		textsTest("linkTypes", func(s sel) []string { return s.LinkTypes }, func(f *facts) []string { return f.linkTypes }),
		single(textTest("rdmaDevices", func(s sel) []string { return s.RDMADevices }, func(f *facts) string { return f.name })),
		single(textTest("pciAddresses", func(s sel) []string { return s.PCIAddresses }, func(f *facts) string { return f.pci })),
		{
			key:    "pfNames",
			single: true,
			set:    func(s sel) bool { return len(s.PFNames) > 0 },
			ok: func(s sel, f *facts) bool {
				return slices.ContainsFunc(s.PFNames, func(p config.PFName) bool { return below(p, f) })
			},
			has: func(f *facts) string {
				if f.isVF {
					return some(f.pfNames) + "#" + strconv.FormatUint(uint64(f.vf), 10)
				}
				return some(f.pfNames)
			},
			wants: func(s sel) []string {
				words := make([]string, len(s.PFNames))
				for i, p := range s.PFNames {
					words[i] = p.String()
				}
				return words
			},
		},
		textTest("functions", func(s sel) []string { return s.Functions }, func(f *facts) string { return f.function }),
		{
			key: "numaNodes",
			set: func(s sel) bool { return len(s.NUMANodes) > 0 },
			ok: func(s sel, f *facts) bool {
				_, found := slices.BinarySearch(s.NUMANodes, f.numa)
				return found
			},
			has: func(f *facts) string {
				if f.numa == unknownNUMA {
					return ""
				}
				return strconv.Itoa(f.numa)
			},
			wants: func(s sel) []string {
				words := make([]string, len(s.NUMANodes))
				for i, n := range s.NUMANodes {
					words[i] = strconv.Itoa(n)
				}
				return words
			},
		},
		single(textTest("nodeGUIDs", func(s sel) []string { return s.NodeGUIDs }, func(f *facts) string { return f.guid })),
	}
}

// below tells whether the device is a function of the named physical one. With
// ranges only virtual functions are: others have no index.
func below(p config.PFName, f *facts) bool {
	if !slices.Contains(f.pfNames, p.Name) {
		return false
	}
	if len(p.VFs) == 0 {
		return true
	}
	return f.isVF && p.Has(f.vf)
}

// matcher holds one resource's rules; those of keys without entries are left out.
type matcher struct {
	cfg              *config.Resource
	selects, exclude []test
	words            map[string]string // by key: "is not one of …"
	excluded         string
}

func newMatcher(cfg *config.Resource, all []test) *matcher {
	m := &matcher{cfg: cfg, words: map[string]string{}}
	var excluding []string
	for _, t := range all {
		if t.set(&cfg.Selectors) {
			m.selects = append(m.selects, t)
			m.words[t.key] = " is not one of " + some(t.wants(&cfg.Selectors))
		}
		if t.set(&cfg.Exclude) {
			m.exclude = append(m.exclude, t)
			excluding = append(excluding, t.key)
		}
	}
	m.excluded = "exclude: matches its " + strings.Join(excluding, " and ")
	return m
}

// refuses gives the first rule that turns the device away, or nothing.
func (m *matcher) refuses(f *facts) string {
	for _, t := range m.selects {
		if !t.ok(&m.cfg.Selectors, f) {
			got := t.has(f)
			if got == "" {
				got = "nothing"
			}
			return t.key + ": " + got + m.words[t.key]
		}
	}
	if len(m.exclude) == 0 {
		return ""
	}
	for _, t := range m.exclude {
		if !t.ok(&m.cfg.Exclude, f) {
			return ""
		}
	}
	return m.excluded
}

// some shows the beginning of a list.
func some(words []string) string {
	const most = 8
	switch len(words) {
	case 0:
		return "nothing"
	case 1:
		return clip(words[0])
	}
	var b strings.Builder
	for i, w := range words {
		if i == most {
			b.WriteString(", …")
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(clip(w))
	}
	return b.String()
}
