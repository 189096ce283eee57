// The HTTP server: an address that may be taken, and peers that may be many, slow
// or silent.
//
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"time"
)

const (
	// retryListen is how long to wait before a taken address is tried again.
	retryListen = 10 * time.Second
	// maxConns bounds the open connections, so that a flood can't take the memory
	// and the file descriptors that devices are served with.
	maxConns = 64
)

// Serve answers on address with handler until ctx ends, protected by a web
// configuration file ("" for none). Devices matter more than metrics: an address that
// can't be had is said once and tried again.
func Serve(ctx context.Context, address, webConfig string, handler http.Handler, log *slog.Logger) {
	serve(ctx, address, webConfig, handler, retryListen, log)
}

func serve(ctx context.Context, address, webConfig string, handler http.Handler, retry time.Duration, log *slog.Logger) {
	said := false
	for ctx.Err() == nil {
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
		if err == nil {
			log.Info("serving metrics and health", "address", listener.Addr().String())
			said = false
			err = serveOn(ctx, newFairListener(listener, maxConns), webConfig, handler, log)
		}
		if ctx.Err() != nil {
			return
		}
		if !said {
			log.Error("no metrics or health: the address can't be served; devices are served all the same",
				"address", address, "error", err, "retry", retry)
			said = true
		}
		timer := time.NewTimer(retry)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

// newServer ends a connection that says nothing, or reads nothing, within seconds.
// Who asks now and then, as Prometheus does, connects anew each time.
func newServer(handler http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 3 * time.Second,
		ReadTimeout:       5 * time.Second,
		WriteTimeout:      15 * time.Second,
		IdleTimeout:       10 * time.Second,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}
