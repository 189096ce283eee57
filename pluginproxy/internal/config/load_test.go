// Tests of what is said of a file as a whole: place, size, spelling, syntax.
//
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestR53_SyntaxErrorsNameFileLineAndColumn(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"trailing comma":      {`{"configList": [{"resourceName":"a","rdmaHcaMax":63,"selectors":{"vendors":["15b3"],}}]}`, "config.json:1:85: a comma stands before the closing '}'"},
		"trailing comma, far": {"{\n \"configList\": [\n  1,\n ]\n}", "config.json:4:2: a comma stands before the closing ']'"},
		"hash comment":        {"{ # x\n}", "config.json:1:3: JSON has no comments"},
		"comment before all":  {"# x\n{\"configList\": []}", "config.json:1:1: JSON has no comments"},
		"slash comment":       {"{\n// x\n}", "config.json:2:1: JSON has no comments"},
		"single quotes":       {`{'configList': []}`, "config.json:1:2: JSON wants double quotes"},
		"cut off":             {"{\n\"configList\": [", "config.json:2:16: the text ends too early"},
		"column in letters":   {`{"é": x}`, "config.json:1:7: invalid character 'x'"},
		"two values":          {`{} {}`, "config.json:1:4: invalid character '{' after top-level value"},
		"yaml":                {"configList:\n  - resourceName: [\n", "config.json:2:3: did not find expected node content"},
		"yaml with a tab":     {"configList:\n\t- a: 1\n", "config.json:2:2: found character that cannot start any token"},
		"yaml, doubled keys":  {"configList:\n - resourceName: a\n   resourceName: b\n", `config.json:3:4: key "resourceName" stands twice`},
		"yaml, two documents": {"configList: []\n---\nconfigList: []\n", "config.json: holds more than one YAML document"},
		"yaml, endless alias": {"a: &a [*a]\n", "config.json: anchor 'a' value contains itself"},
	} {
		t.Run(name, func(t *testing.T) { mustRefuse(t, tc.text, tc.want) })
	}
}

func TestR53_WhatIsNoConfigAtAllGetsOneSentence(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"empty":         {"", `config.json: is empty; it must hold "configList"`},
		"blank":         {" \n\t\n", `config.json: is empty; it must hold "configList"`},
		"only comments": {"# nothing\n", `config.json: is empty; it must hold "configList"`},
		"empty object":  {"{}", `config.json: is an empty object; it must hold "configList"`},
		"list":          {"[]", `config.json: is a list; it must be an object with "configList"`},
		"null":          {"null", "config.json: is empty; it must hold"},
		"a word":        {"hello", "config.json: is text; it must be an object"},
		"BOM":           {"\xef\xbb\xbf{}", "config.json: begins with a byte order mark; save it as UTF-8 without BOM"},
		"UTF-16":        {"\xff\xfe{\x00}\x00", "config.json: is UTF-16; save it as UTF-8"},
		"NUL":           {"{\"a\x00\": 1}", "config.json: holds a NUL byte"},
		"Latin-1":       {"{\"\xe4\": 1}", "config.json: is not valid UTF-8"},
		"too big":       {strings.Repeat(" ", MaxFileBytes) + "{}", "config.json: is bigger than 1048576 bytes"},
		"no list":       {`{"periodicUpdateInterval": 5}`, "config.json: configList: is missing"},
		"empty list":    {`{"configList": []}`, "config.json: configList: is empty; it must list at least one resource"},
		"wrong list":    {`{"configList": {}}`, "config.json: configList: is an object, not a list"},
		"wrong entry":   {`{"configList": [7]}`, "config.json: configList[0]: is a number, not an object"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := mustRefuse(t, tc.text, tc.want); strings.Contains(got, "\n") {
				t.Errorf("more than one sentence: %q", got)
			}
		})
	}
}

func TestR53_PathsThatAreNoFileAreRefusedInOneSentence(t *testing.T) {
	dir := t.TempDir()
	fifo, big := filepath.Join(dir, "fifo"), filepath.Join(dir, "big")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(big, make([]byte, 10<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		dir:                           "is a directory; --config must name the file in it",
		filepath.Join(dir, "missing"): "no such file; --config must name the config file",
		fifo:                          "is not a regular file",
		big:                           "is bigger than 1048576 bytes",
	} {
		if _, err := Load(path); err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), path) {
			t.Errorf("Load(%s): %v, want %q", path, err, want)
		}
	}
}

func TestLoadReadsAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(path, []byte(good("")), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := Load(path)
	if err != nil || len(cfg.Resources) != 1 || cfg.Resources[0].Name() != "rdma/hca" {
		t.Fatalf("Load: %+v, %v", cfg, err)
	}
}

func TestAllFaultsAreToldAtOnce(t *testing.T) {
	mustRefuse(t, `{"periodicUpdateIntervall": 1, "configList": [
		{"resourceName": "a b", "rdmaHcaMax": -1, "selectors": {"vendors": ["x"], "ifname": ["y"]}},
		{"rdmaHcaMax": "63", "devices": [1], "sharing": "pools"}]}`,
		`config.json: periodicUpdateIntervall: unknown key; did you mean "periodicUpdateInterval"?`,
		`config.json: configList[0].resourceName: "a b" is no Kubernetes name`,
		`config.json: configList[0].rdmaHcaMax: is -1; at least 0 is needed`,
		`config.json: configList[0].selectors.vendors[0]: "x" is no PCI ID`,
		`config.json: configList[0].selectors.ifname: unknown key; did you mean "ifNames"?`,
		`config.json: configList[1].resourceName: is missing`,
		`config.json: configList[1].rdmaHcaMax: is the text "63", not a number; write it without quotes`,
		`config.json: configList[1].devices[0]: is the number 1, not text`,
		`config.json: configList[1].sharing: "pools" is unknown; did you mean "pool"?`)
}

func TestTheNumberOfFaultsAndWarningsIsBounded(t *testing.T) {
	var faulty, odd []string
	for range 4000 {
		faulty = append(faulty, `"zz"`)
		odd = append(odd, `"an-interface-name-that-is-too-long"`)
	}
	got := mustRefuse(t, selecting(`"vendors":[`+strings.Join(faulty, ",")+`]`), "config.json: and 3900 faults more")
	if n := strings.Count(got, "\n"); n != maxFaults {
		t.Errorf("%d lines", n)
	}
	// Each fault needs its place in the file: no reason to read the file once for each.
	mustRefuse(t, strings.Repeat("a: 1\n", 20000), "config.json: and 19899 faults more")
	cfg := mustParse(t, selecting(`"ifNames":[`+strings.Join(odd, ",")+`]`))
	if n := len(cfg.Warnings); n != maxFaults+1 || cfg.Warnings[n-1] != "and 3900 warnings more" {
		t.Errorf("%d warnings", n)
	}
}

func TestManyResourcesAreRefusedByNumber(t *testing.T) {
	entries := make([]string, 10000)
	for i := range entries {
		entries[i] = fmt.Sprintf(`{"resourceName":"r%d"}`, i)
	}
	mustRefuse(t, `{"configList":[`+strings.Join(entries, ",")+`]}`, "configList: lists 10000 resources; at most 256 are allowed")
}

func TestAliasBombIsRefused(t *testing.T) {
	var b strings.Builder
	b.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := 1; i < 10; i++ {
		fmt.Fprintf(&b, "a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 10), ", "))
	}
	mustRefuse(t, b.String(), "document contains excessive aliasing")
}

func TestYAMLMeansTheSameAsJSON(t *testing.T) {
	yaml := `
# two resources
configList:
  - resourceName: hca
    rdmaHcaMax: 10
    selectors: {vendors: ["15b3"]}
  - resourceName: exclusive
    sharing: exclusive
    selectors:
      ifNames: [ens1f0np0]
`
	json := `{"configList":[{"resourceName":"hca","rdmaHcaMax":10,"selectors":{"vendors":["15b3"]}},
		{"resourceName":"exclusive","sharing":"exclusive","selectors":{"ifNames":["ens1f0np0"]}}]}`
	if y, j := mustParse(t, yaml), mustParse(t, json); y.Hash != j.Hash {
		t.Errorf("YAML gives %+v, JSON %+v", y.Resources, j.Resources)
	}
}

func TestHashNamesTheMeaningNotTheSpelling(t *testing.T) {
	base := mustParse(t, selecting(`"vendors":["15b3","8086"],"linkTypes":["ether"]`))
	if len(base.Hash) != 16 {
		t.Errorf("hash %q", base.Hash)
	}
	same := mustParse(t, entry(`"sharing":"pool","health":"present","selectors":{"linkTypes":["RoCE"],"vendors":["0x8086","15B3","15b3"],"drivers":[]},"rdmaHcaMax":10`))
	if same.Hash != base.Hash {
		t.Errorf("other spelling, other hash: %+v %+v", base.Resources, same.Resources)
	}
	if other := mustParse(t, selecting(`"vendors":["15b3"],"linkTypes":["ether"]`)); other.Hash == base.Hash {
		t.Error("other meaning, same hash")
	}
}

func TestEffectiveConfigReadsBackAsTheSame(t *testing.T) {
	for _, text := range []string{
		good(""),
		good(`,"sharing":"perDevice","health":"present","recoverAfter":"1m30s","charDevices":["umad","uverbs"],"permissions":"mr","topologyHints":false,"preferredAllocation":"pack"`),
		good(`,"cdi":true,"exclude":{"pfNames":["ens1#0-3,7","ens2"],"numaNodes":[1,0]}`),
		entry(`"sharing":"exclusive","devices":["ib0"],"resourcePrefix":"example.com"`),
	} {
		cfg := mustParse(t, text)
		out, err := cfg.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if again := mustParse(t, string(out)); again.Hash != cfg.Hash {
			t.Errorf("%s\nreads back as %+v", out, again.Resources)
		}
	}
}
