// What is refused at the start is refused under reload, one bad file after the other:
// the old configuration stands, and the good file after each is taken.
//
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// badFiles are by report, and what their refusal says.
func badFiles() map[string]struct{ text, says string } {
	yamlEntry := func(keys string) string {
		return "configList:\n- resourceName: a\n  rdmaHcaMax: 1\n  selectors: {vendors: ['15b3']}\n" + keys
	}
	many := make([]string, 10000)
	for i := range many {
		many[i] = fmt.Sprintf(`{"resourceName":"r%d","rdmaHcaMax":1,"selectors":{"vendors":["15b3"]}}`, i)
	}
	nested := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := 1; i < 9; i++ {
		nested += fmt.Sprintf("a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 10), ", "))
	}
	return map[string]struct{ text, says string }{
		"R48 an address for an ID":     {selecting(`"deviceIDs":["0000:41:00.2"]`), "it belongs into pciAddresses"},
		"R48 two digits":               {selecting(`"deviceIDs":["10"]`), "is no PCI ID of four hex digits"},
		"R48 an empty ID":              {selecting(`"deviceIDs":[""]`), "is no PCI ID of four hex digits"},
		"R48 a number":                 {selecting(`"vendors":[5555]`), "write it in quotes"},
		"R48 a number in YAML":         {"configList:\n- resourceName: a\n  rdmaHcaMax: 1\n  selectors: {vendors: [1017]}\n", "is the number 1017, not text; write it in quotes"},
		"R48 a float in YAML":          {"configList:\n- resourceName: a\n  rdmaHcaMax: 1\n  selectors: {deviceIDs: [1e03]}\n", "not text; write it in quotes"},
		"R53 trailing comma":           {`{"configList": [1,]}`, ":1:19: a comma stands before the closing ']'"},
		"R53 comment":                  {"{ # x\n}", "JSON has no comments"},
		"R53 BOM":                      {"\xef\xbb\xbf{}", "byte order mark"},
		"R53 empty":                    {"", "is empty"},
		"R53 a list":                   {"[]", "is a list"},
		"R58 both keys":                {good(`,"devices":["ib0"]`), "can't stand beside selectors"},
		"R58 neither":                  {entry(`"rdmaHcaMax":1`), "would match every device"},
		"R58 empty selectors":          {entry(`"rdmaHcaMax":1,"selectors":{}`), "would match every device"},
		"R58 empty vendors":            {selecting(`"vendors":[]`), "would match every device"},
		"R59 a negative interval":      {`{"periodicUpdateInterval":-1,` + good("")[1:], "periodicUpdateInterval: is -1"},
		"R59 an interval in quotes":    {`{"periodicUpdateInterval":"300",` + good("")[1:], "write it without quotes"},
		"R60 no maximum":               {entry(`"selectors":{"vendors":["15b3"]}`), "rdmaHcaMax: is missing"},
		"R60 a maximum in quotes":      {sized(`"63"`), "write it without quotes"},
		"R60 a fraction":               {sized("1.5"), "write a whole number"},
		"R60 1e9":                      {sized("1e9"), "write a whole number"},
		"R60 a list above 4 MiB":       {sized("1000000000"), "kubelet reads at most 4194304"},
		"a doubled key in JSON":        {good(`,"rdmaHcaMax":11`), "rdmaHcaMax: stands twice"},
		"a doubled key, case aside":    {good(`,"RdmaHcaMax":11`), "rdmaHcaMax: stands twice"},
		"a doubled selector in JSON":   {selecting(`"vendors":["15b3"],"vendors":["8086"]`), "selectors.vendors: stands twice"},
		"a doubled key in YAML":        {yamlEntry("  rdmaHcaMax: 2\n"), "stands twice"},
		"a doubled selector in YAML":   {yamlEntry("  exclude: {vendors: ['15b3'], vendors: ['8086']}\n"), "stands twice"},
		"a doubled resource":           {`{"configList":[` + many[0] + `,` + many[0] + `]}`, "is also the name of configList[0]"},
		"10 MB":                        {`{"configList":[` + strings.Repeat(" ", 10<<20) + `]}`, "is bigger than 1048576 bytes"},
		"10,000 resources":             {`{"configList":[` + strings.Join(many, ",") + `]}`, "lists 10000 resources; at most 256 are allowed"},
		"an alias bomb":                {nested, "excessive aliasing"},
		"an endless alias":             {"a: &a [*a]\n", "contains itself"},
		"a NUL byte":                   {strings.Replace(good(""), "hca", "h\x00a", 1), "holds a NUL byte"},
		"a NUL byte, written as JSON":  {strings.Replace(good(""), "hca", `h\u0000a`, 1), "is no Kubernetes name"},
		"a deep nest":                  {strings.Repeat("[", 20000), "config.json"},
		"cdi beside permissions":       {good(`,"cdi":true,"permissions":"r"`), "can't stand beside cdi"},
		"numbers beyond any size":      {sized(strings.Repeat("9", 5000)), "at most 2147483647 is allowed"},
		"an expression of infinity":    {"configList:\n- {resourceName: a, rdmaHcaMax: .inf, selectors: {vendors: ['15b3']}}\n", "write a whole number"},
		"a second document in YAML":    {yamlEntry("") + "---\n" + yamlEntry(""), "more than one YAML document"},
		"an unknown YAML tag":          {yamlEntry("  cdi: !!python/object:os.system x\n"), "config.json"},
		"a resource list in an object": {`{"configList":{"a":1}}`, "is an object, not a list"},
	}
}

func TestBadFilesAreRefusedUnderReloadAsAtTheStart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.json")
	put(t, path, sized("1"))
	w := watch(t, path, time.Hour)
	before := w.until("the first", in(1))
	for name, bad := range badFiles() {
		if _, err := Parse([]byte(bad.text), path); err == nil || !strings.Contains(err.Error(), bad.says) {
			t.Errorf("%s: at the start: %v, want %q", name, clipError(err), bad.says)
			continue
		}
		put(t, path, bad.text)
		s := w.until(name, func(s State) bool { return strings.Contains(s.Problem, bad.says) })
		if s.Config != before.Config || !s.LoadedAt.Equal(before.LoadedAt) {
			t.Errorf("%s: the old configuration is gone", name)
		}
		if len(s.Problem) > 64<<10 {
			t.Errorf("%s: the problem has %d bytes", name, len(s.Problem))
		}
		put(t, path, sized("1"))
		w.until("the good file after: "+name, in(1))
	}
	if refused, again := w.logs.count("configuration refused"), w.logs.count("good again"); refused != len(badFiles()) || again != refused {
		t.Errorf("%d bad files: %d refusals and %d returns in the log", len(badFiles()), refused, again)
	}
}

func clipError(err error) string {
	if err == nil {
		return "taken"
	}
	return clip(err.Error())
}
