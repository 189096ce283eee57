// /statusz and /: the report as JSON to tools, as a page to browsers.
//
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// statusz answers with the whole report.
type statusz struct {
	from Reporter
	page *page
	log  *slog.Logger
}

// ServeHTTP implements http.Handler.
func (s statusz) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Vary", "Accept")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	html := prefersHTML(r.Header.Values("Accept"))
	switch format := r.URL.Query().Get("format"); format {
	case "":
	case "html", "json":
		html = format == "html"
	default:
		writeText(w, http.StatusBadRequest, "format must be json or html\n")
		return
	}
	rep := s.from.Report()
	rep.Detail()
	if !html {
		w.Header().Set("Content-Type", "application/json")
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		_ = enc.Encode(rep) // the peer has gone
		return
	}
	var body bytes.Buffer
	if err := s.page.write(&body, newView(&rep, time.Now())); err != nil {
		s.log.Error("the status page can't be made", "error", err)
		http.Error(w, "the page can't be made; the log says why. /statusz?format=json has the facts", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", s.page.policy)
	w.Header().Set("Referrer-Policy", "no-referrer")
	_, _ = body.WriteTo(w) // the peer has gone
}

// prefersHTML tells whether a request's Accept headers put a page before JSON
// (RFC 9110, section 12.5.1). Who takes both alike, as curl does, gets JSON.
func prefersHTML(accept []string) bool {
	html, json := quality{}, quality{}
	for _, entry := range strings.Split(strings.Join(accept, ","), ",") {
		name, parameters, _ := strings.Cut(entry, ";")
		q := weight(parameters)
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "text/html", "application/xhtml+xml":
			html.set(q, 2)
		case "text/*":
			html.set(q, 1)
		case "application/json":
			json.set(q, 2)
		case "application/*":
			json.set(q, 1)
		case "*/*":
			html.set(q, 0)
			json.set(q, 0)
		}
	}
	return html.q > json.q
}

// quality is the weight of a media type by the most specific range that names it.
type quality struct {
	q        float64
	specific int
	known    bool
}

func (t *quality) set(q float64, specific int) {
	if !t.known || specific > t.specific || specific == t.specific && q > t.q {
		*t = quality{q, specific, true}
	}
}

// weight reads the q parameter; 1 where there is none, 0 where it makes no sense.
func weight(parameters string) float64 {
	for _, p := range strings.Split(parameters, ";") {
		name, value, _ := strings.Cut(p, "=")
		if !strings.EqualFold(strings.TrimSpace(name), "q") {
			continue
		}
		q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if err != nil || !(q >= 0 && q <= 1) {
			return 0
		}
		return q
	}
	return 1
}
