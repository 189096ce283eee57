// Tests that docs/ says the truth: every example is a good file, every key is
// described, and the JSON Schema agrees with the parser.
//
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"go.yaml.in/yaml/v2"
)

func readDoc(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile("../../../docs/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

var fence = regexp.MustCompile("(?s)```(json|yaml)\n(.*?)```")

// examples are the files in docs/config.md.
func examples(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, m := range fence.FindAllStringSubmatch(readDoc(t, "config.md"), -1) {
		all = append(all, m[2])
	}
	if len(all) < 5 {
		t.Fatalf("only %d examples found", len(all))
	}
	return all
}

func TestEveryExampleInTheDocsIsAGoodFile(t *testing.T) {
	for _, example := range examples(t) {
		wantWarning(t, mustParse(t, example), "")
	}
}

func TestEveryKeyIsInTheDocs(t *testing.T) {
	doc := readDoc(t, "config.md")
	for _, key := range slices.Concat(rootKeys, resourceKeys, selectorKeys) {
		if !regexp.MustCompile("(?m)^\\| .*`" + key + "`.* \\|").MatchString(doc) {
			t.Errorf("docs/config.md has no row for %s", key)
		}
	}
}

func TestTheSchemaKnowsTheSameKeys(t *testing.T) {
	root := readSchema(t).root
	defs := root["$defs"].(map[string]any)
	for place, tc := range map[string]struct {
		node any
		want []string
	}{"root": {root, rootKeys}, "resource": {defs["resource"], resourceKeys}, "selectors": {defs["selectors"], selectorKeys}} {
		got := slices.Sorted(maps.Keys(tc.node.(map[string]any)["properties"].(map[string]any)))
		if !slices.Equal(got, slices.Sorted(slices.Values(tc.want))) {
			t.Errorf("%s: the schema has %q, the parser %q", place, got, tc.want)
		}
	}
}

func TestTheSchemaTakesWhatTheParserTakes(t *testing.T) {
	s := readSchema(t)
	good := append(examples(t),
		good(""), good(`,"sharing":"perDevice","recoverAfter":"1m30s","charDevices":["umad"],"permissions":"wr","preferredAllocation":"pack","health":"active"`),
		entry(`"sharing":"exclusive","devices":["ib0"],"resourcePrefix":"example.com"`), good(`,"cdi":true,"topologyHints":false`),
		selecting(`"vendors":["0x15B3"],"deviceIDs":["101b"],"drivers":["mlx5_core"],"ifNames":["ens1f0np0"],"linkTypes":["RoCE","ib","Ethernet"],
			"rdmaDevices":["mlx5_0"],"pciAddresses":["3B:00.0","10000:e1:1f.7"],"pfNames":["ens1#0-3,7","ens2"],"functions":["PF","virtual"],
			"numaNodes":[0],"nodeGUIDs":["0x0c42a10300c6cf54","0c42:a103:00c6:cf54"]`),
		named(strings.Repeat("a", 244), strings.Repeat("x", 63)))
	for _, text := range good {
		cfg := mustParse(t, text)
		if fault := s.check(t, text); fault != "" {
			t.Errorf("the schema refuses: %s\n%s", fault, text)
		}
		effective, err := cfg.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if fault := s.check(t, string(effective)); fault != "" {
			t.Errorf("the schema refuses the effective config: %s\n%s", fault, effective)
		}
	}
}

func TestTheSchemaRefusesWhatTheParserRefuses(t *testing.T) {
	s := readSchema(t)
	for _, text := range []string{
		`{}`, `[]`, `{"configList":[]}`, `{"configList":{}}`, `{"configList":[7]}`, `{"configlists":[]}`,
		entry(`"selectors":{"vendors":["15b3"]}`), entry(`"rdmaHcaMax":1`), good(`,"x":1`), good(`,"sharing":"shared"`), good(`,"health":"up"`),
		good(`,"recoverAfter":30`), good(`,"recoverAfter":"-1s"`), good(`,"charDevices":[]`), good(`,"charDevices":["x"]`), good(`,"permissions":"rr"`),
		good(`,"cdi":true,"permissions":"rw"`), good(`,"exclude":{"vendor":["15b3"]}`), good(`,"exclude":null`),
		entry(`"sharing":"exclusive","rdmaHcaMax":2,"selectors":{"vendors":["15b3"]}`),
		entry(`"rdmaHcaMax":-1,"selectors":{"vendors":["15b3"]}`), entry(`"rdmaHcaMax":"63","selectors":{"vendors":["15b3"]}`),
		entry(`"rdmaHcaMax":1.5,"selectors":{"vendors":["15b3"]}`), named("example_prefix", "a"), named("rdma", "-a"), named("rdma", strings.Repeat("x", 64)),
		selecting(`"vendors":["0000:41:00.2"]`), selecting(`"vendors":[5555]`), selecting(`"linkTypes":["infinband"]`), selecting(`"ifNames":["a b"]`),
		selecting(`"pciAddresses":["3b:00"]`), selecting(`"pfNames":["#0-3"]`), selecting(`"functions":["pfs"]`), selecting(`"numaNodes":[-1]`),
		selecting(`"nodeGUIDs":["0c42"]`), selecting(`"drivers":[""]`),
		strings.Replace(good(""), "{", `{"periodicUpdateInterval":-1,`, 1),
	} {
		mustRefuse(t, text)
		if s.check(t, text) == "" {
			t.Errorf("the schema takes %s", text)
		}
	}
}

// schema checks the part of JSON Schema that ours uses; anything else in it fails
// the test, so that nothing is believed to be checked that isn't.
type schema struct{ root, node map[string]any }

func readSchema(t *testing.T) schema {
	t.Helper()
	var root map[string]any
	if err := json.Unmarshal([]byte(readDoc(t, "config.schema.json")), &root); err != nil {
		t.Fatal(err)
	}
	return schema{root, root}
}

// check gives the first fault of the text, JSON or YAML.
func (s schema) check(t *testing.T, text string) string {
	t.Helper()
	var v any
	if looksLikeJSON([]byte(text)) {
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
	} else if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return s.fault(t, s.node, plainJSON(v), "$")
}

func (s schema) fault(t *testing.T, node map[string]any, v any, path string) string {
	t.Helper()
	for _, word := range slices.Sorted(maps.Keys(node)) {
		arg, bad := node[word], false
		text, isText := v.(string)
		n, isNumber := v.(float64)
		items, isList := v.([]any)
		members, isObject := v.(map[string]any)
		switch word {
		case "$schema", "$id", "$defs", "title", "description", "default", "deprecated", "then", "else":
		case "$ref":
			name := strings.TrimPrefix(arg.(string), "#/$defs/")
			if f := s.fault(t, s.root["$defs"].(map[string]any)[name].(map[string]any), v, path); f != "" {
				return f
			}
		case "type":
			_, isFlag := v.(bool)
			bad = !map[string]bool{"string": isText, "integer": isNumber && n == float64(int64(n)), "array": isList, "object": isObject, "boolean": isFlag}[arg.(string)]
		case "enum":
			bad = !slices.Contains(arg.([]any), v)
		case "const":
			bad = v != arg
		case "pattern":
			bad = isText && !regexp.MustCompile(arg.(string)).MatchString(text)
		case "maxLength":
			bad = isText && utf8.RuneCountInString(text) > int(arg.(float64))
		case "minimum":
			bad = isNumber && n < arg.(float64)
		case "maximum":
			bad = isNumber && n > arg.(float64)
		case "minItems":
			bad = isList && len(items) < int(arg.(float64))
		case "maxItems":
			bad = isList && len(items) > int(arg.(float64))
		case "items":
			for i, item := range items {
				if f := s.fault(t, arg.(map[string]any), item, fmt.Sprintf("%s[%d]", path, i)); f != "" {
					return f
				}
			}
		case "required":
			for _, key := range arg.([]any) {
				_, there := members[key.(string)]
				bad = bad || isObject && !there
			}
		case "additionalProperties":
			for key := range members {
				_, known := node["properties"].(map[string]any)[key]
				bad = bad || !known
			}
		case "properties":
			for key, sub := range arg.(map[string]any) {
				member, there := members[key]
				if !there {
					continue
				}
				if sub == false {
					return path + "." + key + ": not allowed"
				}
				if f := s.fault(t, sub.(map[string]any), member, path+"."+key); f != "" {
					return f
				}
			}
		case "allOf":
			for _, sub := range arg.([]any) {
				if f := s.fault(t, sub.(map[string]any), v, path); f != "" {
					return f
				}
			}
		case "anyOf":
			bad = !slices.ContainsFunc(arg.([]any), func(sub any) bool { return s.fault(t, sub.(map[string]any), v, path) == "" })
		case "if":
			branch := "then"
			if s.fault(t, arg.(map[string]any), v, path) != "" {
				branch = "else"
			}
			if sub, ok := node[branch].(map[string]any); ok {
				if f := s.fault(t, sub, v, path); f != "" {
					return f
				}
			}
		default:
			t.Fatalf("the schema uses %q, which this test doesn't know", word)
		}
		if bad {
			return path + ": " + word
		}
	}
	return ""
}

// plainJSON makes of YAML's types those of encoding/json.
func plainJSON(v any) any {
	switch n := v.(type) {
	case int:
		return float64(n)
	case []any:
		for i := range n {
			n[i] = plainJSON(n[i])
		}
	case map[any]any:
		m := map[string]any{}
		for key, item := range n {
			m[fmt.Sprint(key)] = plainJSON(item)
		}
		return m
	}
	return v
}
