// Fuzz test of Parse: no input panics, and what is taken keeps its promises.
//
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"strings"
	"testing"
)

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		good(""), good(`,"sharing":"perDevice","exclude":{"pfNames":["ens1#0-3,7"]}`), good(`,"cdi":true`),
		selecting(`"nodeGUIDs":["0x0c42a10300c6cf54"],"numaNodes":[0],"pciAddresses":["3b:00.0"],"linkTypes":["ib"]`),
		entry(`"devices":["ib0"],"rdmaHcaMax":1e9`), "{}", "[]", "{", "# x\n{}", "a: &a [*a]", "? [a]\n: b\n", "a: !!binary x\n",
		"configList:\n- &x {resourceName: a, rdmaHcaMax: 3, selectors: {vendors: [\"15b3\"]}}\n- {<<: *x, resourceName: b}\n",
		"configList: [{resourceName: on, rdmaHcaMax: 0x3f, selectors: {vendors: [0123]}}]\n", "%YAML 9.9\n---\n", "a: 2001-01-01\n",
		strings.Repeat("[", 11000), strings.Repeat("- ", 11000), "a: |\n  x\x85y\n", "{\"\\ud800\": 1}",
	} {
		f.Add([]byte(seed))
	}
	for _, bad := range badFiles() {
		if len(bad.text) < 32<<10 {
			f.Add([]byte(bad.text))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		cfg, err := Parse(data, "fuzz")
		if err != nil {
			if cfg != nil || !strings.HasPrefix(err.Error(), "fuzz:") {
				t.Fatalf("config %v, error %v", cfg, err)
			}
			return
		}
		names := map[string]bool{}
		for i := range cfg.Resources {
			r := &cfg.Resources[i]
			if prefixFault(r.Prefix) != "" || shortNameFault(r.ShortName) != "" || names[r.Name()] {
				t.Errorf("name %q", r.Name())
			}
			names[r.Name()] = true
			if r.Max < 0 || listBytes(r) > MaxListBytes || r.Selectors.Empty() || len(r.CharDevices) == 0 || r.Permissions == "" {
				t.Errorf("%+v", r)
			}
		}
		out, err := cfg.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse(out, "again")
		if err != nil || again.Hash != cfg.Hash {
			t.Fatalf("%s\nreads back as %v, %v", out, again, err)
		}
	})
}
