// Wrong usage and wrong configuration: exit code 2 and one clear sentence.
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"strings"
	"testing"
)

// wantUsage wants exit code 2, nothing on standard output, and one error on standard
// error with these parts.
func wantUsage(t *testing.T, args []string, parts ...string) {
	t.Helper()
	code, stdout, stderr := run(t, args...)
	if code != 2 || stdout != "" {
		t.Errorf("%q: exit code %d, standard output %q; want 2 and nothing\n%s", args, code, stdout, stderr)
	}
	var told []string
	for line := range strings.Lines(stderr) {
		if strings.HasPrefix(line, "pluginproxy: ") {
			told = append(told, line)
		} else if !strings.Contains(line, "level=INFO") && !strings.Contains(stderr, "Did you mean") {
			t.Errorf("%q: also says %q", args, line)
		}
	}
	if len(told) != 1 {
		t.Errorf("%q: %d errors, want 1:\n%s", args, len(told), stderr)
		return
	}
	for _, part := range parts {
		if !strings.Contains(told[0], part) {
			t.Errorf("%q: %q lacks %q", args, told[0], part)
		}
	}
	if strings.Contains(stderr, "goroutine ") {
		t.Errorf("%q: a crash:\n%s", args, stderr)
	}
}

func TestWrongUsageIsExitCode2(t *testing.T) {
	p := newPlace(t)
	file := p.file("config.json", good)
	serve := func(args ...string) []string { return append([]string{"serve", "--config", file}, args...) }
	for name, test := range map[string]struct {
		args  []string
		parts []string
	}{
		"unknown flag":              {serve("--stale-afer=1s"), []string{"--stale-afer", "--help"}},
		"unknown command":           {[]string{"sevre"}, []string{`unknown command "sevre"`}},
		"argument":                  {serve("config.json"), []string{"takes no arguments", "config.json"}},
		"negative --stale-after":    {serve("--stale-after=-1s"), []string{"--stale-after=-1s", "negative"}},
		"--stale-after of words":    {serve("--stale-after=soon"), []string{"soon"}},
		"long --device-plugins-dir": {serve("--device-plugins-dir=/" + strings.Repeat("d", 100)), []string{"--device-plugins-dir", "too long by", "107"}},
		"no --device-plugins-dir":   {serve("--device-plugins-dir="), []string{"--device-plugins-dir", "empty"}},
		"long --plugins-registry":   {serve("--registration=watcher", "--plugins-registry-dir=/"+strings.Repeat("d", 100)), []string{"--plugins-registry-dir", "too long by", "107"}},
		"no --plugins-registry":     {serve("--registration=watcher", "--plugins-registry-dir="), []string{"--plugins-registry-dir", "empty"}},
		"long --discovery-socket":   {serve("--discovery-socket=/" + strings.Repeat("d", 107)), []string{"--discovery-socket", "too long by 1 "}},
		"no --discovery-socket":     {serve("--discovery-socket="), []string{"--discovery-socket", "empty"}},
		"unknown --registration":    {serve("--registration=both"), []string{"--registration=both", "register or watcher"}},
		"--metrics-address a port":  {serve("--metrics-address=9837"), []string{"--metrics-address=9837", "HOST:PORT"}},
		"port out of range":         {serve("--metrics-address=:98370"), []string{"--metrics-address=:98370"}},
		"unknown --log-level":       {serve("--log-level=loud"), []string{"--log-level=loud", "debug, info, warn or error"}},
		"unknown --log-format":      {serve("--log-format=xml"), []string{"--log-format=xml"}},
		"check: long socket":        {[]string{"check", "--config", file, "--discovery-socket", "/" + strings.Repeat("d", 107)}, []string{"--discovery-socket", "too long"}},
		"check: argument":           {[]string{"check", file}, []string{"takes no arguments"}},
		"status: unknown output":    {[]string{"status", "-o", "yaml"}, []string{"--output=yaml", "table or json"}},
		"status: no port":           {[]string{"status", "--metrics-address=localhost"}, []string{"--metrics-address=localhost", "HOST:PORT"}},
	} {
		t.Run(name, func(t *testing.T) { wantUsage(t, test.args, test.parts...) })
	}
}

func TestR53_FileThatIsNoConfiguration(t *testing.T) {
	p := newPlace(t)
	must(t, os.Mkdir(p.path("dir"), 0o700))
	for name, test := range map[string]struct {
		path  string
		parts []string
	}{
		"missing":        {p.path("none.json"), []string{"none.json: no such file"}},
		"a directory":    {p.path("dir"), []string{"dir: is a directory"}},
		"trailing comma": {p.file("comma.json", "{\"configList\": [\n {\"resourceName\":\"a\",\"rdmaHcaMax\":63,\"selectors\":{\"vendors\":[\"15b3\"],}}]}"), []string{"comma.json:2:70:"}},
		"a comment":      {p.file("hash.json", "{\n  # x\n  \"configList\": []}"), []string{"hash.json:2:3:"}},
		"cut off":        {p.file("cut.json", `{"configList": [`), []string{"cut.json:1:"}},
		"empty file":     {p.file("empty.json", ""), []string{"empty.json", "is empty"}},
		"{}":             {p.file("object.json", "{}"), []string{"object.json", "configList"}},
		"[]":             {p.file("list.json", "[]"), []string{"list.json"}},
		"BOM":            {p.file("bom.json", "\xef\xbb\xbf"+good), []string{"bom.json", "byte order mark"}},
	} {
		t.Run(name, func(t *testing.T) {
			// No partial start: there is no kubelet directory to be touched either.
			wantUsage(t, []string{"serve", "--config", test.path, "--device-plugins-dir", p.path("none"), "--metrics-address="}, test.parts...)
			wantUsage(t, []string{"check", "--config", test.path}, test.parts...)
			if _, err := os.Stat(p.path("none")); err == nil {
				t.Error("the kubelet directory was made")
			}
		})
	}
}

func TestHelpAndVersion(t *testing.T) {
	for _, args := range [][]string{{}, {"--help"}, {"serve", "--help"}, {"check", "-h"}, {"version"}} {
		code, stdout, stderr := run(t, args...)
		if code != 0 || stdout == "" || stderr != "" {
			t.Errorf("%q: exit code %d, standard output %q, standard error %q", args, code, stdout, stderr)
		}
	}
	if _, stdout, _ := run(t, "version"); !strings.HasPrefix(stdout, "pluginproxy ") {
		t.Errorf("version says %q", stdout)
	}
	// The names and defaults that others depend on.
	_, help, _ := run(t, "serve", "--help")
	for _, flag := range []string{
		`--config string`, `"/etc/rdma-relay/config.json"`, `--discovery-socket string`, `"/run/rdma-relay/discovery.sock"`,
		`--device-plugins-dir string`, `"/var/lib/kubelet/device-plugins"`, `--plugins-registry-dir string`, `"/var/lib/kubelet/plugins_registry"`,
		`--registration string`, `--metrics-address string`, `":9837"`, `--stale-after duration`, `--log-level string`, `--log-format string`,
	} {
		if !strings.Contains(help, flag) {
			t.Errorf("help of serve lacks %q:\n%s", flag, help)
		}
	}
}
