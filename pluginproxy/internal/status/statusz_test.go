// Who gets JSON and who the page.
//
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/relay"
)

// What browsers send: Firefox and Chromium in 2026.
const (
	firefox  = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
	chromium = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8,application/signed-exchange;v=b3;q=0.7"
)

func ask(t *testing.T, from Reporter, path, accept string) *httptest.ResponseRecorder {
	t.Helper()
	rec := httptest.NewRecorder()
	req := httptest.NewRequest(http.MethodGet, path, nil)
	if accept != "" {
		req.Header.Set("Accept", accept)
	}
	Handler(from, register(t, from), slog.New(slog.DiscardHandler)).ServeHTTP(rec, req)
	return rec
}

func TestBrowsersGetThePageAndToolsGetJSON(t *testing.T) {
	const page, data = "text/html; charset=utf-8", "application/json"
	for name, test := range map[string]struct{ path, accept, want string }{
		"Firefox":                {"/", firefox, page},
		"Chromium":               {"/statusz", chromium, page},
		"curl":                   {"/statusz", "*/*", data},
		"no Accept at all":       {"/", "", data},
		"a JSON client":          {"/statusz", "application/json", data},
		"both alike":             {"/statusz", "text/html, application/json", data},
		"JSON rather":            {"/", "text/html;q=0.5, application/json", data},
		"a page rather":          {"/", "application/json;q=0.5, TEXT/HTML; q=0.8", page},
		"any text":               {"/", "text/*", page},
		"no page please":         {"/", "text/html;q=0, */*", data},
		"nonsense":               {"/", ";;,q=,text/html;q=2", data},
		"not a number":           {"/", "text/html;q=NaN", data},
		"curl wants the page":    {"/?format=html", "*/*", page},
		"a browser wants JSON":   {"/statusz?format=json", chromium, data},
		"something between them": {"/", "application/*;q=0.1,text/html;q=0.2", page},
	} {
		t.Run(name, func(t *testing.T) {
			rec := ask(t, sample(), test.path, test.accept)
			if got := rec.Header().Get("Content-Type"); rec.Code != http.StatusOK || got != test.want {
				t.Fatalf("%d %q, want %q", rec.Code, got, test.want)
			}
			if rec.Header().Get("Vary") != "Accept" || rec.Header().Get("Cache-Control") != "no-store" {
				t.Errorf("headers %v", rec.Header())
			}
			if test.want == data && !json.Valid(rec.Body.Bytes()) {
				t.Errorf("no JSON: %s", rec.Body)
			}
			if test.want == page && !strings.HasPrefix(rec.Body.String(), "<!DOCTYPE html>") {
				t.Errorf("no page: %.80s", rec.Body)
			}
		})
	}
	if rec := ask(t, sample(), "/?format=xml", firefox); rec.Code != http.StatusBadRequest {
		t.Errorf("format=xml is answered with %d", rec.Code)
	}
}

func TestJSONTellsDevicesAndChanges(t *testing.T) {
	var rep relay.Report
	must(t, json.Unmarshal(ask(t, sample(), "/statusz", "").Body.Bytes(), &rep))
	if len(rep.Devices) != 2 || rep.Devices[0].Name != "mlx5_0" || rep.Devices[0].Ports[0].State != "ACTIVE" || rep.Devices[1].Ports[0].State != "DOWN" {
		t.Fatalf("devices %+v", rep.Devices)
	}
	if got := strings.Join(rep.Devices[0].Resources, " "); got != "rdma/hca" {
		t.Errorf("mlx5_0 serves %q", got)
	}
	if len(rep.Changes) != 1 || rep.Changes[0].Text != "began" {
		t.Errorf("changes %+v", rep.Changes)
	}
}
