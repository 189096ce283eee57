// The program with a protected metrics port: its probes, and who asks from inside.
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/rdma-relay/rdma-relay/test/fakekubelet"
)

// The password is "secret".
const webUsers = "basic_auth_users:\n  prometheus: $2a$04$ahL/xj3Tr0m3eX0RLVQi9uqal6vfabAH1mDqH2mdIds0QZgmaWwHK\n"

func TestBadWebConfigIsExitCode2(t *testing.T) {
	p := newPlace(t)
	serve := []string{"serve", "--config", p.file("config.json", good), "--device-plugins-dir", p.path("none")}
	for name, test := range map[string]struct {
		args  []string
		parts []string
	}{
		"missing":            {[]string{"--web-config-file", p.path("none.yml")}, []string{"--web-config-file=", "none.yml: no such file"}},
		"unknown key":        {[]string{"--web-config-file", p.file("key.yml", "users: {}\n")}, []string{"key.yml: ", "field users not found"}},
		"password in clear":  {[]string{"--web-config-file", p.file("clear.yml", "basic_auth_users: {a: b}\n")}, []string{"clear.yml: ", "bcrypt"}},
		"nothing to protect": {[]string{"--metrics-address=", "--web-config-file", p.file("web.yml", webUsers)}, []string{"protects --metrics-address, which is empty"}},
		"a probe port alone": {[]string{"--probe-address=9838"}, []string{"--probe-address=9838", "HOST:PORT"}},
	} {
		t.Run(name, func(t *testing.T) { wantUsage(t, append(serve, test.args...), test.parts...) })
	}
}

func TestProbesAndStatusBesideAProtectedPort(t *testing.T) {
	web := newPlace(t).file("web.yml", webUsers)
	s := serveAt(t, func(s *serving) { s.daemon(); must(s.place.t, s.Start()) },
		"--metrics-address=127.0.0.1:0", "--probe-address=127.0.0.1:0", "--web-config-file", web, "--log-format=json")
	s.eventually(fakekubelet.Listed(hca, 10, 10))

	addresses := regexp.MustCompile(`"serving metrics and health","address":"([^"]+)"`)
	until(t, "two addresses", func() bool { return len(addresses.FindAllString(s.stderr.String(), -1)) == 2 }, &s.stderr)
	var protected, probes string
	for _, m := range addresses.FindAllStringSubmatch(s.stderr.String(), -1) {
		resp, err := http.Get("http://" + m[1] + "/healthz")
		must(t, err)
		must(t, resp.Body.Close())
		switch resp.StatusCode {
		case http.StatusUnauthorized:
			protected = m[1]
		case http.StatusOK:
			probes = m[1]
		}
	}
	if protected == "" || probes == "" {
		t.Fatalf("protected %q, probes %q\n%s", protected, probes, &s.stderr)
	}
	if code, _, stderr := run(t, "status", "--metrics-address", protected); code != 1 || !strings.Contains(stderr, "ask pluginproxy's --probe-address") {
		t.Errorf("status at the protected port: exit code %d, %q", code, stderr)
	}
	if code, stdout, stderr := run(t, "status", "--metrics-address", probes); code != 0 || !strings.Contains(stdout, hca) {
		t.Errorf("status at the probes' port: exit code %d, %q, %q", code, stdout, stderr)
	}
	s.terminate()
}
