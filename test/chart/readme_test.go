// The chart's README and schema say what values.yaml and the programs say.
//
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	return string(text)
}

const (
	tableBegin = "<!-- values: made by go test -update in test/chart -->\n"
	tableEnd   = "<!-- end of values -->"
)

func TestReadmeHasEachValueWithItsDefault(t *testing.T) {
	path := filepath.Join(chartDir, "README.md")
	text := read(t, path)
	before, rest, found := strings.Cut(text, tableBegin)
	_, after, closed := strings.Cut(rest, tableEnd)
	if !found || !closed {
		t.Fatal("README.md has no place for the table")
	}
	want := before + tableBegin + table(t) + tableEnd + after
	if *update {
		must(t, os.WriteFile(path, []byte(want), 0o600))
		return
	}
	if text != want {
		t.Errorf("the table is not that of values.yaml; run go test -update .\n%s", firstDifference(want, text))
	}
}

// table lists the values that a comment beginning with "--" describes.
func table(t *testing.T) string {
	t.Helper()
	var defaults map[string]any
	text := read(t, filepath.Join(chartDir, "values.yaml"))
	must(t, yaml.Unmarshal([]byte(text), &defaults))
	var b strings.Builder
	b.WriteString("| value | default | what |\n| --- | --- | --- |\n")
	var path []string // of keys, one for each two blanks of indentation
	described := ""
	key := regexp.MustCompile(`^( *)([A-Za-z]+):`)
	for line := range strings.Lines(text) {
		if comment, ok := strings.CutPrefix(strings.TrimSpace(line), "# -- "); ok {
			described = comment
			continue
		}
		m := key.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		path = append(path[:len(m[1])/2:len(m[1])/2], m[2])
		if described == "" {
			continue
		}
		value, err := json.Marshal(lookup(defaults, path))
		must(t, err)
		fmt.Fprintf(&b, "| `%s` | `%s` | %s |\n", strings.Join(path, "."), value, described)
		described = ""
	}
	return b.String()
}

func lookup(in any, path []string) any {
	for _, key := range path {
		in = in.(map[string]any)[key]
	}
	return in
}

// Every value is described, itself or as part of one that is.
func TestEachValueIsDescribed(t *testing.T) {
	rows := table(t)
	var defaults map[string]any
	must(t, yaml.Unmarshal([]byte(read(t, filepath.Join(chartDir, "values.yaml"))), &defaults))
	var walk func(path string, in map[string]any)
	walk = func(path string, in map[string]any) {
		for key, value := range in {
			name := strings.TrimPrefix(path+"."+key, ".")
			if strings.Contains(rows, "| `"+name+"` |") {
				continue
			}
			below, ok := value.(map[string]any)
			if !ok {
				t.Errorf("%s is not described", name)
				continue
			}
			walk(name, below)
		}
	}
	walk("", defaults)
}

// The configuration among the values is checked by the schema of pluginproxy's file.
func TestSchemaHasThatOfTheConfiguration(t *testing.T) {
	var values, docs struct {
		Defs                 map[string]any `json:"$defs"`
		AdditionalProperties any            `json:"additionalProperties"`
		Required             any            `json:"required"`
		Properties           any            `json:"properties"`
	}
	must(t, json.Unmarshal([]byte(read(t, filepath.Join(chartDir, "values.schema.json"))), &values))
	must(t, json.Unmarshal([]byte(read(t, "../../docs/config.schema.json")), &docs))
	want := docs.Defs
	want["config"] = map[string]any{
		"type": "object", "additionalProperties": docs.AdditionalProperties, "required": docs.Required, "properties": docs.Properties,
	}
	for name, def := range want {
		if !reflect.DeepEqual(values.Defs[name], def) {
			t.Errorf("$defs/%s of values.schema.json is not that of docs/config.schema.json", name)
		}
	}
}

// Alerts and dashboard ask for metrics that pluginproxy has.
func TestAlertsAndDashboardUseMetricsThatExist(t *testing.T) {
	known := map[string]bool{"rdma_relay_allocation_seconds": true}
	for _, m := range regexp.MustCompile(`desc\("([a-z_]+)"`).FindAllStringSubmatch(read(t, "../../pluginproxy/internal/status/metrics.go"), -1) {
		known["rdma_relay_"+m[1]] = true
	}
	for _, file := range []string{"alerts.yaml", "dashboard.json"} {
		used := regexp.MustCompile(`rdma_relay_[a-z_]+`).FindAllString(read(t, filepath.Join(chartDir, "files", file)), -1)
		if len(used) == 0 {
			t.Errorf("%s uses no metric", file)
		}
		for _, name := range used {
			if !known[name] {
				t.Errorf("%s: no metric is called %s", file, name)
			}
		}
	}
}
