// A bad file while the program serves: what an operator finds in /statusz, in the
// metrics and in status, until the file is good again.
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rdma-relay/rdma-relay/test/fakekubelet"
)

func TestRefusedFileIsToldEverywhereUntilItIsMended(t *testing.T) {
	s := serveAt(t, func(s *serving) { s.daemon(); must(s.place.t, s.Start()) }, "--metrics-address", "127.0.0.1:0", "--log-format=json")
	s.eventually(fakekubelet.Listed(hca, 10, 10))
	s.says("serving metrics and health")
	address := addressIn(t, s.stderr.String())
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: within}
	get := func(path string) string {
		t.Helper()
		resp, err := client.Get("http://" + address + path)
		must(t, err)
		defer func() { _ = resp.Body.Close() }()
		body, err := io.ReadAll(resp.Body)
		must(t, err)
		return string(body)
	}
	loaded := func(value string) func() bool {
		return func() bool { return strings.Contains(get("/metrics"), "\nrdma_relay_config_load_success "+value+"\n") }
	}
	// As kubelet swaps a ConfigMap: the file is a link through a link.
	swap := func(stamp, text string) {
		t.Helper()
		dir := filepath.Dir(s.path("config.json"))
		must(t, os.Mkdir(filepath.Join(dir, stamp), 0o700))
		must(t, os.WriteFile(filepath.Join(dir, stamp, "config.json"), []byte(text), 0o600))
		must(t, os.Symlink(stamp, filepath.Join(dir, "..data_tmp")))
		must(t, os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
		if info, err := os.Lstat(s.path("config.json")); err != nil || info.Mode().IsRegular() {
			must(t, os.Symlink(filepath.Join("..data", "config.json"), filepath.Join(dir, "link")))
			must(t, os.Rename(filepath.Join(dir, "link"), s.path("config.json")))
		}
	}
	until(t, "success", loaded("1"), &s.stderr)
	swap("..1", strings.ReplaceAll(good, `"rdmaHcaMax":10`, `"rdmaHcaMax":20`))
	s.eventually(fakekubelet.Listed(hca, 20, 20))

	swap("..2", strings.ReplaceAll(good, `"rdmaHcaMax":10`, `"rdmaHcaMax":"30"`))
	until(t, "the refusal", loaded("0"), &s.stderr)
	const fault = `configList[0].rdmaHcaMax: is the text \"30\", not a number; write it without quotes`
	if body := get("/statusz"); !strings.Contains(body, fault) {
		t.Errorf("/statusz lacks %s:\n%s", fault, body)
	}
	if code, stdout, _ := run(t, "status", "--metrics-address", address); code != 0 || !strings.Contains(stdout, "the configuration file is refused") {
		t.Errorf("status: exit code %d\n%s", code, stdout)
	}
	s.eventually(fakekubelet.Listed(hca, 20, 20))

	swap("..3", strings.ReplaceAll(good, `"rdmaHcaMax":10`, `"rdmaHcaMax":30`))
	s.eventually(fakekubelet.Listed(hca, 30, 30))
	until(t, "success again", loaded("1"), &s.stderr)
	if got := len(s.State().Registrations); got != 1 {
		t.Errorf("%d registrations, want 1", got)
	}
	if refused := strings.Count(s.stderr.String(), "configuration refused"); refused != 1 {
		t.Errorf("the refusal is told %d times", refused)
	}
	s.terminate()
}
