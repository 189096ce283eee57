// Tests of the selectors' spellings.
//
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"strings"
	"testing"
)

func TestSelectorsAreBroughtToOneSpelling(t *testing.T) {
	for selectors, want := range map[string]string{
		// R48: hex IDs in other spellings.
		`"deviceIDs":["101B","0x101b","0X101B"]`:                                      "{DeviceIDs:[101b]}",
		`"vendors":["15B3","0x8086"]`:                                                 "{Vendors:[15b3 8086]}",
		`"linkTypes":["RoCE","Ethernet","ether","IB","InfiniBand"]`:                   "{LinkTypes:[ether infiniband]}",
		`"pciAddresses":["3B:00.0","0000:3b:00.0","10000:e1:1f.7"]`:                   "{PCIAddresses:[0000:3b:00.0 10000:e1:1f.7]}",
		`"nodeGUIDs":["0C42A10300C6CF54","0x0c42a10300c6cf54","0c42:a103:00c6:cf54"]`: "{NodeGUIDs:[0c42:a103:00c6:cf54]}",
		`"functions":["VF","sf","Virtual","pf"]`:                                      "{Functions:[pf sf vf virtual]}",
		`"numaNodes":[1,0,1]`:                                                         "{NUMANodes:[0 1]}",
		`"pfNames":["ens2","ens1f0#0-3,7"]`:                                           "{PFNames:[ens1f0#0-3,7 ens2]}",
		`"ifNames":["ib1","ib0","ib1"],"drivers":["mlx5_core"]`:                       "{Drivers:[mlx5_core] IfNames:[ib0 ib1]}",
		`"rdmaDevices":["mlx5_0"]`:                                                    "{RDMADevices:[mlx5_0]}",
	} {
		cfg := mustParse(t, selecting(selectors))
		wantWarning(t, cfg, "")
		if got := short(cfg.Resources[0].Selectors); got != want {
			t.Errorf("%s gives %s, want %s", selectors, got, want)
		}
	}
}

// short prints the keys that have entries.
func short(s Selectors) string {
	out := ""
	add := func(key string, n int, list any) {
		if n > 0 {
			out += fmt.Sprintf(" %s:%v", key, list)
		}
	}
	add("Vendors", len(s.Vendors), s.Vendors)
	add("DeviceIDs", len(s.DeviceIDs), s.DeviceIDs)
	add("Drivers", len(s.Drivers), s.Drivers)
	add("IfNames", len(s.IfNames), s.IfNames)
	add("LinkTypes", len(s.LinkTypes), s.LinkTypes)
	add("RDMADevices", len(s.RDMADevices), s.RDMADevices)
	add("PCIAddresses", len(s.PCIAddresses), s.PCIAddresses)
	add("PFNames", len(s.PFNames), s.PFNames)
	add("Functions", len(s.Functions), s.Functions)
	add("NUMANodes", len(s.NUMANodes), s.NUMANodes)
	add("NodeGUIDs", len(s.NodeGUIDs), s.NodeGUIDs)
	return "{" + out[1:] + "}"
}

// A wrong entry is never dropped: that would widen what the resource takes (R48,
// R49: the entry and the value are named).
func TestR48_WrongEntriesAreRefusedByNameAndValue(t *testing.T) {
	for selectors, want := range map[string]string{
		`"deviceIDs":["101b","0000:41:00.2"]`:  `deviceIDs[1]: "0000:41:00.2" is a PCI address, not a PCI ID of four hex digits; it belongs into pciAddresses`,
		`"deviceIDs":[""]`:                     `deviceIDs[0]: "" is no PCI ID of four hex digits such as 15b3`,
		`"deviceIDs":["10"]`:                   `deviceIDs[0]: "10" is no PCI ID`,
		`"vendors":["mlx5_core"]`:              `vendors[0]: "mlx5_core" is no PCI ID`,
		`"vendors":["15b3 "]`:                  `vendors[0]: "15b3 " is no PCI ID`,
		`"vendors":[5555]`:                     `vendors[0]: is the number 5555, not text; write it in quotes`,
		`"vendors":[null]`:                     `vendors[0]: is empty (null), not text`,
		`"vendors":"15b3"`:                     `vendors: is text, not a list`,
		`"linkTypes":["infinband"]`:            `linkTypes[0]: "infinband" is no link type; did you mean "infiniband"?`,
		`"linkTypes":["loopback"]`:             `linkTypes[0]: "loopback" is no link type; allowed are ether (ethernet, roce) and infiniband (ib)`,
		`"ifNames":[""]`:                       `ifNames[0]: is empty`,
		`"ifNames":["a b"]`:                    `ifNames[0]: "a b" is no name`,
		`"ifNames":["a\u0000b"]`:               `is no name`,
		`"drivers":["../x"]`:                   `drivers[0]: "../x" is no name`,
		`"pciAddresses":["3b:00"]`:             `pciAddresses[0]: "3b:00" is no PCI address such as 0000:3b:00.0`,
		`"nodeGUIDs":["0c42"]`:                 `nodeGUIDs[0]: "0c42" is no GUID`,
		`"functions":["pfs"]`:                  `functions[0]: "pfs" is no kind of function`,
		`"numaNodes":[-1]`:                     `numaNodes[0]: is -1; at least 0 is needed`,
		`"numaNodes":[1024]`:                   `numaNodes[0]: is 1024; at most 1023 is allowed`,
		`"numaNodes":["0"]`:                    `numaNodes[0]: is text, not a number`,
		`"pfNames":["#0-3"]`:                   `pfNames[0]: "#0-3" names no network device before the #`,
		`"pfNames":["ens1#3-0"]`:               `pfNames[0]: "ens1#3-0" has no VF ranges such as ens1f0#0-3,7`,
		`"pfNames":["ens1#"]`:                  `has no VF ranges`,
		`"pfNames":["ens1#0-1-2"]`:             `has no VF ranges`,
		`"pfNames":["ens1#0,70000"]`:           `has no VF ranges`,
		`"vendor":["15b3"]`:                    `vendor: unknown key; did you mean "vendors"?`,
		`"ifNames":["ib0"],"resourceName":"a"`: `resourceName: unknown key here; it belongs into an entry of configList`,
	} {
		mustRefuse(t, selecting(selectors), "config.json: configList[0].selectors.", want)
	}
}

func TestSelectorsThatCanNeverMatchAreWarnedOf(t *testing.T) {
	for selectors, want := range map[string]string{
		`"ifNames":["an-interface-name-that-is-too-long"]`:  "can never match: a network device's name has at most 15 bytes",
		`"functions":["virtual"],"vendors":["15b3"]`:        "selectors: can never match: a virtual device has no vendor",
		`"functions":["pf"],"pfNames":["ens1"]`:             "selectors: can never match: pfNames takes virtual and scalable functions only",
		`"functions":["pf","vf"],"pfNames":["ens1"]`:        "",
		`"functions":["sf"],"pfNames":["ens1#0-3"]`:         "selectors: can never match: pfNames with a # takes virtual functions only",
		`"functions":["sf"],"pfNames":["ens1#0-3","ens2"]`:  "",
		`"functions":["sf","vf"],"pfNames":["ens1#0-3"]`:    "",
		`"pfNames":["an-interface-name#0"]`:                 "an-interface-name#0\" can never match: a network device's name has at most 15 bytes",
		`"rdmaDevices":["` + strings.Repeat("x", 64) + `"]`: "can never match: an RDMA device's name has at most 63 bytes",
		`"rdmaDevices":["` + strings.Repeat("x", 63) + `"]`: "",
	} {
		wantWarning(t, mustParse(t, selecting(selectors)), want)
	}
	for keys, takesAll := range map[string]bool{
		`"selectors":{"vendors":["15b3"]},"exclude":{"vendors":["15B3","8086"]}`:                                     true,
		`"selectors":{"vendors":["15b3","8086"]},"exclude":{"vendors":["15b3"]}`:                                     false,
		`"selectors":{"vendors":["15b3"],"linkTypes":["ib"]},"exclude":{"linkTypes":["infiniband"]}`:                 true,
		`"selectors":{"vendors":["15b3"]},"exclude":{"vendors":["15b3"],"functions":["vf"]}`:                         false,
		`"selectors":{"vendors":["15b3"],"functions":["vf"]},"exclude":{"vendors":["15b3"],"functions":["pf","vf"]}`: true,
		`"selectors":{"pfNames":["a#0-3"]},"exclude":{"pfNames":["a#0-3"]}`:                                          true,
		`"selectors":{"numaNodes":[0]},"exclude":{"numaNodes":[1]}`:                                                  false,
		`"selectors":{"vendors":["15b3"]},"exclude":{"drivers":[]}`:                                                  false,
		`"devices":["ib0"],"exclude":{"ifNames":["ib0","ib1"]}`:                                                      true,
		`"devices":["ib0"],"exclude":{"vendors":["15b3"]}`:                                                           false,
	} {
		cfg := mustParse(t, entry(`"rdmaHcaMax":10,`+keys))
		if got := strings.Contains(strings.Join(cfg.Warnings, ";"), "exclude: takes out every device"); got != takesAll {
			t.Errorf("%s: warnings %q", keys, cfg.Warnings)
		}
	}
}

func TestResourceThatAnExclusiveOneLeavesNothingIsWarnedOf(t *testing.T) {
	pair := func(first, second string) *Config {
		return mustParse(t, `{"configList":[{"resourceName":"a",`+first+`},{"resourceName":"b",`+second+`}]}`)
	}
	const slots, exclusive, all = `"rdmaHcaMax":1,`, `"sharing":"exclusive",`, `"selectors":{"vendors":["15b3"]}`
	for _, two := range [][2]string{{slots, exclusive}, {exclusive, slots}, {exclusive, exclusive}} {
		wantWarning(t, pair(two[0]+all, two[1]+`"selectors":{"vendors":["0x15B3"]}`), "configList[1].selectors: are those of configList[0]")
	}
	wantWarning(t, pair(slots+all, slots+all), "")
	wantWarning(t, pair(exclusive+all, slots+all+`,"exclude":{"functions":["pf"]}`), "")
}

func TestPFNameRanges(t *testing.T) {
	p, fault := parsePFName("ens1f0#0-3,7")
	if fault != "" {
		t.Fatal(fault)
	}
	for index, want := range map[uint32]bool{0: true, 3: true, 4: false, 7: true, 8: false} {
		if p.Has(index) != want {
			t.Errorf("Has(%d) is %v", index, !want)
		}
	}
	if all, _ := parsePFName("ens1f0"); !all.Has(65000) {
		t.Error("without ranges every VF is meant")
	}
}
