// The probes, /statusz, and an address that is taken.
//
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/config"
	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/latest"
	kubeletside "github.com/rdma-relay/rdma-relay/pluginproxy/internal/register"
	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/relay"
	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/subscribe"
	"github.com/rdma-relay/rdma-relay/test/fakedaemon"
	"github.com/rdma-relay/rdma-relay/test/fakekubelet"
)

func TestReadyzSaysWhatIsMissing(t *testing.T) {
	r := sample()
	code, body, header := get(t, r, "/readyz")
	if code != http.StatusServiceUnavailable || body != "resource rdma/none has no session with kubelet: waiting\n" {
		t.Errorf("%d %q", code, body)
	}
	if got := header.Get("Content-Type"); !strings.HasPrefix(got, "text/plain") {
		t.Errorf("content type %q", got)
	}
	r.set(func(rep *relay.Report) { rep.Ready, rep.Missing = true, nil })
	if code, body, _ := get(t, r, "/readyz"); code != http.StatusOK || body != "ok\n" {
		t.Errorf("%d %q", code, body)
	}
}

// Exclusive name spaces leave every resource empty: readiness says why, and is not about it.
func TestR50_ReadyzTellsWhatIsWrongWithTheNode(t *testing.T) {
	const reason = "RDMA devices are exclusive to one network name space"
	r := sample()
	r.set(func(rep *relay.Report) { rep.Discovery.NodeReasons = []string{reason} })
	if code, body, _ := get(t, r, "/readyz"); code != http.StatusServiceUnavailable || !strings.HasSuffix(body, ": waiting\nthe node: "+reason+"\n") {
		t.Errorf("%d %q", code, body)
	}
	r.set(func(rep *relay.Report) { rep.Ready, rep.Missing = true, nil })
	if code, body, _ := get(t, r, "/readyz"); code != http.StatusOK || body != "ok\nthe node: "+reason+"\n" {
		t.Errorf("%d %q", code, body)
	}
}

func TestStatuszIsTheReport(t *testing.T) {
	code, body, header := get(t, sample(), "/statusz")
	if code != http.StatusOK || header.Get("Content-Type") != "application/json" {
		t.Errorf("%d, %q", code, header.Get("Content-Type"))
	}
	var rep relay.Report
	must(t, json.Unmarshal([]byte(body), &rep))
	if len(rep.Resources) != 2 || rep.Resources[0].Counters.RegistrationsUnreachable != 6 || rep.Resources[0].HCAs[1].Reason != "down" || rep.Version != "v1" {
		t.Errorf("read back: %+v", rep)
	}
	for _, key := range []string{`"left_out"`, `"healthy_hcas"`, `"allocations_refused"`, `"age_seconds"`, `"netns_mode"`} {
		if !strings.Contains(body, key) {
			t.Errorf("no %s in %s", key, body)
		}
	}
}

func TestOtherPathsAndMethodsAreRefused(t *testing.T) {
	if code, _, _ := get(t, sample(), "/debug/pprof/"); code != http.StatusNotFound {
		t.Errorf("/debug/pprof/ answers %d", code)
	}
	if code, _, _ := get(t, sample(), "/index.html"); code != http.StatusNotFound {
		t.Errorf("/index.html answers %d", code)
	}
}

// Liveness is about this process alone; a restart would mend nothing.
func TestR78_HealthzIsNotAboutKubeletOrTheDaemon(t *testing.T) {
	dir, err := os.MkdirTemp("", "dp")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	kubelet := fakekubelet.New(dir, fakekubelet.Options{})
	t.Cleanup(func() { must(t, kubelet.Close()) })
	cfg, err := config.Parse([]byte(`{"configList":[{"resourceName":"hca","rdmaHcaMax":20000,"selectors":{"vendors":["15b3"]}}]}`), "config.json")
	must(t, err)
	log := slog.New(slog.DiscardHandler)
	discovery := latest.New(subscribe.State{Problem: "connecting"})
	watched := kubeletside.NewDir(dir, 0, log)
	r := relay.New(relay.Sources{Config: latest.New(config.State{Config: cfg}), Discovery: discovery, Kubelet: watched},
		relay.Options{ListInterval: time.Millisecond}, log)
	run(t, watched.Run)
	run(t, r.Run)

	expect := func(state string, ready int, words string) {
		t.Helper()
		if code, body, _ := get(t, r, "/healthz"); code != http.StatusOK || body != "ok\n" {
			t.Errorf("%s: /healthz answers %d %q", state, code, body)
		}
		until(t, state+" in /readyz", func() bool {
			code, body, _ := get(t, r, "/readyz")
			return code == ready && strings.Contains(body, words)
		})
		if code, _, _ := get(t, r, "/metrics"); code != http.StatusOK {
			t.Errorf("%s: /metrics answers %d", state, code)
		}
	}
	expect("no daemon", http.StatusServiceUnavailable, "no snapshot from discoveryd yet: connecting")
	generation := uint64(0)
	publish := func(hcas int) {
		generation++
		discovery.Set(subscribe.State{
			Snapshot: fakedaemon.Snapshot("a", generation, fakedaemon.HCAs(hcas)...), Status: fakedaemon.Fresh(), ScannedAt: time.Now(), Connected: true,
		})
	}
	publish(1)
	expect("no kubelet", http.StatusServiceUnavailable, "rdma/hca has no session with kubelet: waiting for")
	must(t, kubelet.Start())
	expect("a session", http.StatusOK, "ok")
	must(t, kubelet.Freeze("rdma/hca"))
	for i := range 10 {
		publish(i % 2)
	}
	expect("kubelet that does not read", http.StatusOK, "ok")
	kubelet.Resume("rdma/hca")
	must(t, kubelet.Stop())
	expect("kubelet gone", http.StatusServiceUnavailable, "rdma/hca has no session with kubelet")
	discovery.Set(func() subscribe.State { s, _ := discovery.Get(); s.Connected = false; return s }())
	must(t, kubelet.Start())
	expect("daemon gone, kubelet back", http.StatusOK, "ok")
}

// Such a container can't mend itself: kubelet has to restart it, which mounts anew.
func TestHealthzFailsWhenTheMountedDirectoryWasDeleted(t *testing.T) {
	from := sample()
	from.rep.Kubelet = relay.KubeletReport{Dir: "/var/lib/kubelet/device-plugins"}
	if code, _, _ := get(t, from, "/healthz"); code != http.StatusOK {
		t.Errorf("with a directory that is merely empty: %d", code)
	}
	from.rep.Kubelet.Deleted = true
	if code, body, _ := get(t, from, "/healthz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "/var/lib/kubelet/device-plugins was deleted") {
		t.Errorf("with a deleted one: %d %q", code, body)
	}
}

func TestR80_AddressThatIsTakenIsSaidOnceAndTriedAgain(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	address := taken.Addr().String()
	logs := &logBuffer{}
	reg := register(t, sample())
	log := slog.New(slog.NewTextHandler(logs, nil))
	const retry = 5 * time.Millisecond
	stop := run(t, func(ctx context.Context) { serve(ctx, address, "", Handler(sample(), reg, log), retry, log) })
	until(t, "the complaint", func() bool { return logs.count("the address can't be served") == 1 })
	several := time.NewTimer(10 * retry)
	<-several.C
	if got := logs.count("\n"); got != 1 || !strings.Contains(logs.String(), address) || !strings.Contains(logs.String(), "address already in use") {
		t.Errorf("%d lines, want 1 with the address and the cause:\n%s", got, logs)
	}
	must(t, taken.Close())
	until(t, "an answer", func() bool { code, _ := fetch(t.Context(), "http://"+address+"/healthz"); return code == http.StatusOK })
	if got := logs.count("serving metrics and health"); got != 1 {
		t.Errorf("log:\n%s", logs)
	}
	stop()
	if code, _ := fetch(t.Context(), "http://"+address+"/healthz"); code != 0 {
		t.Errorf("it answers %d after its end", code)
	}
}

func TestServeEndsWhileItWaitsForAnAddress(t *testing.T) {
	stop := run(t, func(ctx context.Context) {
		serve(ctx, "no such address", "", http.NotFoundHandler(), time.Hour, slog.New(slog.DiscardHandler))
	})
	stop()
}

func TestServeEndsWithConnectionsOpen(t *testing.T) {
	address := freeAddress(t)
	stop := run(t, func(ctx context.Context) {
		Serve(ctx, address, "", http.NotFoundHandler(), slog.New(slog.DiscardHandler))
	})
	until(t, "an answer", func() bool { code, _ := fetch(t.Context(), "http://"+address+"/"); return code == http.StatusNotFound })
	conn, err := net.Dial("tcp", address)
	must(t, err)
	defer func() { _ = conn.Close() }()
	_, err = fmt.Fprint(conn, "GET / HTTP/1.1\r\n") // and no more
	must(t, err)
	stop()
}

// freeAddress is one that nobody listens on now.
func freeAddress(t *testing.T) string {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer func() { _ = lis.Close() }()
	return lis.Addr().String()
}

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(entries)
}
