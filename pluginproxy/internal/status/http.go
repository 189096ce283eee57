// SPDX-License-Identifier: Apache-2.0

package status

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
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

// Handler answers /metrics, /healthz, /readyz, and / and /statusz alike.
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
	state := statusz{from: from, page: newPage(), log: log}
	mux.Handle("GET /statusz", state)
	mux.Handle("GET /{$}", state)
	return mux
}

func writeText(w http.ResponseWriter, code int, body string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_, _ = fmt.Fprint(w, body) // the peer has gone
}
