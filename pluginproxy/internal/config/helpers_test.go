// Helpers of this room's tests.
//
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"strings"
	"testing"
)

// entry is a file with one resource that has the keys, besides a legal name.
func entry(keys string) string {
	return `{"configList":[{"resourceName":"hca",` + keys + `}]}`
}

// good is an entry that lacks nothing, followed by the keys.
func good(keys string) string {
	return entry(`"rdmaHcaMax":10,"selectors":{"vendors":["15b3"]}` + keys)
}

// selecting is an entry with the selectors.
func selecting(selectors string) string {
	return entry(`"rdmaHcaMax":10,"selectors":{` + selectors + `}`)
}

func mustParse(t *testing.T, text string) *Config {
	t.Helper()
	cfg, err := Parse([]byte(text), "config.json")
	if err != nil {
		t.Fatalf("refused: %v\n%s", err, text)
	}
	return cfg
}

// mustRefuse wants every part in the error, and gives it.
func mustRefuse(t *testing.T, text string, parts ...string) string {
	t.Helper()
	cfg, err := Parse([]byte(text), "config.json")
	if err == nil {
		t.Fatalf("accepted: %+v\n%.500s", cfg.Resources, text)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error lacks %q:\n%v\n%.500s", part, err, text)
		}
	}
	return err.Error()
}

// wantWarning wants one warning that holds the part, or none where it is empty.
func wantWarning(t *testing.T, cfg *Config, part string) {
	t.Helper()
	switch {
	case part == "" && len(cfg.Warnings) > 0:
		t.Errorf("warnings: %q, want none", cfg.Warnings)
	case part != "" && (len(cfg.Warnings) != 1 || !strings.Contains(cfg.Warnings[0], part)):
		t.Errorf("warnings: %q, want one with %q", cfg.Warnings, part)
	}
}
