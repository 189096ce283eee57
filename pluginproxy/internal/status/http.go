// SPDX-License-Identifier: Apache-2.0

package status

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/net/netutil"
)

// text makes a label value of what came from outside; Prometheus refuses a scrape
// with one that is not UTF-8.
func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// Register adds the metrics made from reports, those of the Go runtime and those
// of the process to reg.
func Register(reg prometheus.Registerer, from Reporter) error {
	return errors.Join(
		reg.Register(collector{from}),
		reg.Register(collectors.NewGoCollector()),
		reg.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})),
	)
}

// AllocationSeconds makes and registers the histogram of Allocate calls.
func AllocationSeconds(reg prometheus.Registerer) (func(time.Duration), error) {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "rdma_relay_allocation_seconds",
		Help:    "Duration of Allocate calls that were answered.",
		Buckets: prometheus.ExponentialBuckets(1e-5, 4, 10), // 10 µs to 2.6 s
	})
	return func(d time.Duration) { h.Observe(d.Seconds()) }, reg.Register(h)
}

// Handler answers /metrics, /healthz, /readyz and /statusz.
func Handler(from Reporter, metrics prometheus.Gatherer, log *slog.Logger) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{
		ErrorLog:            slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		ErrorHandling:       promhttp.ContinueOnError, // one bad metric must not hide the others
		MaxRequestsInFlight: 4,
	}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		// Making a report takes each lock there is: an answer shows that no part of
		// the program is stuck. Kubelet's absence is not this process's illness.
		rep := from.Report()
		if rep.Kubelet.Deleted {
			// The one state that lasts until somebody restarts the container.
			writeText(w, http.StatusServiceUnavailable, "the directory mounted at "+rep.Kubelet.Dir+" was deleted on the host\n")
			return
		}
		writeText(w, http.StatusOK, "ok\n")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		rep := from.Report()
		// What is wrong with the node (exclusive RDMA name spaces, no RDMA at all) makes
		// resources empty and not this program unready: no restart would mend it.
		code, lines := http.StatusOK, []string{"ok"}
		if !rep.Ready {
			code, lines = http.StatusServiceUnavailable, rep.Missing
		}
		for _, reason := range rep.Discovery.NodeReasons {
			lines = append(slices.Clip(lines), "the node: "+text(reason))
		}
		writeText(w, code, strings.Join(lines, "\n")+"\n")
	})
	mux.HandleFunc("GET /statusz", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		_ = enc.Encode(from.Report()) // the peer has gone
	})
	return mux
}

func writeText(w http.ResponseWriter, code int, body string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_, _ = fmt.Fprint(w, body) // the peer has gone
}

const (
	// retryListen is how long to wait before a taken address is tried again.
	retryListen = 10 * time.Second
	// maxConns bounds the open connections, so that a flood can't take the memory
	// and the file descriptors that devices are served with.
	maxConns = 64
)

// Serve answers on address with handler until ctx ends. Devices matter more than
// metrics: an address that can't be had is said once and tried again.
func Serve(ctx context.Context, address string, handler http.Handler, log *slog.Logger) {
	serve(ctx, address, handler, retryListen, log)
}

func serve(ctx context.Context, address string, handler http.Handler, retry time.Duration, log *slog.Logger) {
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	said := false
	for ctx.Err() == nil {
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
		if err == nil {
			log.Info("serving metrics and health", "address", listener.Addr().String())
			said = false
			err = server.Serve(netutil.LimitListener(listener, maxConns))
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
