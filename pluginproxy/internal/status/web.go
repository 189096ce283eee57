// Who may see what: the metrics port behind TLS and passwords, as a web configuration
// file of Prometheus' exporter-toolkit says, and the probes beside it.
//
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"

	"github.com/prometheus/exporter-toolkit/web"
)

// CheckWebConfig reads a web configuration file with its certificates and says what is
// wrong with it. The format is that of
// https://github.com/prometheus/exporter-toolkit/blob/master/docs/web-configuration.md.
func CheckWebConfig(path string) error {
	if err := web.Validate(path); err != nil {
		return errors.New(strings.ReplaceAll(err.Error(), "\n  ", " ")) // YAML's errors have lines
	}
	return nil
}

// serveOn answers on listener, which it closes, until ctx ends or the listener fails.
// With a web configuration file the toolkit reads file and certificates anew for each
// connection, and the passwords for each request; while they can't be read, nobody is
// let in.
func serveOn(ctx context.Context, listener net.Listener, webConfig string, handler http.Handler, log *slog.Logger) error {
	defer func() { _ = listener.Close() }() // the toolkit leaves it open when the file is bad
	server := newServer(handler, log)
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if webConfig == "" {
		return server.Serve(listener)
	}
	return web.Serve(&checkedListener{Listener: listener, webConfig: webConfig, log: log}, server, &web.FlagConfig{WebConfigFile: &webConfig}, log)
}

// checkedListener says once when the web configuration file goes bad and once when it
// is good again: the toolkit turns everybody away without a word but to the peer.
type checkedListener struct {
	net.Listener
	webConfig string
	log       *slog.Logger
	bad       bool // touched by Accept alone, which one goroutine calls
}

// Accept implements net.Listener.
func (l *checkedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	switch err := CheckWebConfig(l.webConfig); {
	case err != nil && !l.bad:
		l.log.Error("nobody gets metrics: the web configuration file went bad; devices are served all the same", "path", l.webConfig, "error", err)
		l.bad = true
	case err == nil && l.bad:
		l.log.Info("the web configuration file is good again", "path", l.webConfig)
		l.bad = false
	}
	return conn, nil
}

// Probes is what of the handler all may see without a password: /healthz and /readyz,
// and /statusz who asks on this machine, or inside this pod, over loopback. Kubelet's
// probes know no password (and the toolkit has no exemptions), nor does who is inside
// already.
func Probes(all http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch path := r.URL.Path; {
		case path == "/healthz", path == "/readyz", path == "/statusz" && overLoopback(r):
			all.ServeHTTP(w, r)
		default:
			writeText(w, http.StatusForbidden, "here are only /healthz and /readyz, and /statusz over loopback\n")
		}
	})
}

// overLoopback wants both ends there: the peer's address alone is the loopback's also
// where something forwards what comes from outside to another address of this machine.
func overLoopback(r *http.Request) bool {
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if local == nil {
		return false
	}
	for _, address := range []string{r.RemoteAddr, local.String()} {
		host, _, err := net.SplitHostPort(address)
		if err != nil || !net.ParseIP(host).IsLoopback() {
			return false
		}
	}
	return true
}
