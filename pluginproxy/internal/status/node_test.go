// What the tests of this room share: a reporter that says what it is told to, and
// requests to a handler.
//
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/relay"
	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/resource"
	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
	"github.com/rdma-relay/rdma-relay/test/fakedaemon"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const within = 10 * time.Second

// reporter says what it is told to.
type reporter struct {
	mu  sync.Mutex
	rep relay.Report
}

func (r *reporter) Report() relay.Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rep
}

func (r *reporter) set(change func(*relay.Report)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.rep)
}

// sample is a node with two resources: one that is well and one with nothing.
func sample() *reporter {
	snapshot := fakedaemon.Snapshot("a", 7, fakedaemon.HCA(0), fakedaemon.Down(fakedaemon.HCA(1)))
	return &reporter{rep: relay.Report{
		Version:   "v1",
		Missing:   []string{"resource rdma/none has no session with kubelet: waiting"},
		Config:    relay.ConfigReport{Hash: "0123456789abcdef"},
		Node:      relay.NodeReport{Name: "gpu-7", KernelRelease: "6.12.0"},
		Changes:   []relay.Change{{At: time.Now(), Kind: relay.KindSession, Resource: "rdma/hca", Text: "began"}},
		Discovery: relay.DiscoveryReport{Connected: true, DaemonVersion: "v2", Generation: 7, AgeSeconds: 1.5, ScanSeconds: 0.25, NetnsMode: "shared"},
		Snapshot:  snapshot,
		Resources: []relay.ResourceReport{
			{
				Name: "rdma/hca", Devices: 10, Healthy: 8, HealthyHCAs: 1,
				HCAs:       []resource.HCA{{Name: "mlx5_0", Healthy: true}, {Name: "mlx5_1", Reason: "down"}},
				LeftOut:    []resource.LeftOut{{Device: "mlx5_2", Rule: "vendors"}},
				Shared:     []resource.Shared{{Device: "mlx5_0", Resources: []string{"rdma/hca", "rdma/b"}}, {Device: "mlx5_1"}},
				Taken:      []resource.Taken{{Device: "mlx5_2", By: "rdma/c"}},
				Registered: true, Session: true,
				Counters: relay.Counters{
					Sessions: 3, Superseded: 2, Lists: 11, RegistrationsOK: 4, RegistrationsRefused: 5, RegistrationsUnreachable: 6,
					AllocationsOK: 7, AllocationsRefused: 8,
				},
			},
			{Name: "rdma/none"},
		},
	}}
}

// register makes a registry with all metrics made from the reporter.
func register(t *testing.T, from Reporter) *prometheus.Registry {
	t.Helper()
	reg := prometheus.NewRegistry()
	if err := Register(reg, from); err != nil {
		t.Fatal(err)
	}
	return reg
}

// get asks a handler made from the reporter.
func get(t *testing.T, from Reporter, path string) (code int, body string, header http.Header) {
	t.Helper()
	rec := httptest.NewRecorder()
	Handler(from, register(t, from), slog.New(slog.DiscardHandler)).ServeHTTP(rec, httptest.NewRequest(http.MethodGet, path, nil))
	return rec.Code, rec.Body.String(), rec.Header()
}

// fetch asks a real server once; it returns the status code, 0 when there is none.
func fetch(ctx context.Context, url string) (code int, body string) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: within}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err.Error()
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	text, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text)
}

// until waits for a condition.
func until(t *testing.T, what string, cond func() bool) {
	t.Helper()
	deadline := time.After(within)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not seen: %s", what)
		}
	}
}

// run runs a part until the test ends, or until stop is called, and waits for it.
func run(t *testing.T, part func(context.Context)) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); part(ctx) }()
	stop = func() {
		cancel()
		select {
		case <-ended:
		case <-time.After(within):
			t.Error("it has not ended though it was told to")
			<-ended
		}
	}
	t.Cleanup(stop)
	return stop
}

func port(number uint32, state discoveryv1.PortState) *discoveryv1.Port {
	return &discoveryv1.Port{Number: number, State: state}
}

// logBuffer is a log that may be read while it is written.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *logBuffer) count(text string) int { return strings.Count(l.String(), text) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
