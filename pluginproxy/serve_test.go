// The program as a process, between a fake daemon and a fake kubelet.
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/register"
	"github.com/rdma-relay/rdma-relay/test/fakedaemon"
	"github.com/rdma-relay/rdma-relay/test/fakekubelet"
)

const hca = "rdma/hca"

// serving is a place with a kubelet that has not started, and a program that serves
// there.
type serving struct {
	place
	*fakekubelet.Kubelet
	*program
}

func serveAt(t *testing.T, prepare func(*serving), args ...string) *serving {
	t.Helper()
	s := &serving{place: newPlace(t)}
	s.Kubelet = fakekubelet.New(s.path("dp"), fakekubelet.Options{DialTimeout: time.Second})
	t.Cleanup(func() { must(t, s.Close()) })
	if prepare != nil {
		prepare(s)
	}
	s.program = start(t, append([]string{
		"serve", "--config", s.file("config.json", good), "--discovery-socket", s.path("discovery.sock"),
		"--device-plugins-dir", s.path("dp"), "--metrics-address=",
	}, args...)...)
	return s
}

func (s *serving) daemon() {
	s.place.daemon(fakedaemon.Say(fakedaemon.Whole(fakedaemon.Snapshot("a", 1, fakedaemon.HCA(0)))))
}

// eventually waits for a condition of the kubelet.
func (s *serving) eventually(cond func(fakekubelet.State) bool) {
	s.place.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	if err := s.Wait(ctx, cond); err != nil {
		s.place.t.Fatalf("%v\nlog:\n%s", err, &s.stderr)
	}
}

func TestSIGTERMEndsTheProgramFromAnyState(t *testing.T) {
	for name, reach := range map[string]struct {
		prepare func(*serving)
		wait    func(*serving)
	}{
		"no kubelet, no daemon": {nil, func(s *serving) { s.says("there is no snapshot yet") }},
		"no daemon":             {func(s *serving) { must(s.place.t, s.Start()) }, func(s *serving) { s.says("there is no snapshot yet") }},
		"no kubelet":            {(*serving).daemon, func(s *serving) { s.says("waiting for") }},
		"hung daemon": {
			func(s *serving) {
				lis, err := net.Listen("unix", s.path("discovery.sock"))
				must(s.place.t, err)
				s.place.t.Cleanup(func() { _ = lis.Close() })
			},
			func(s *serving) { s.says("pluginproxy starts") },
		},
		"kubelet hangs in Register": {
			func(s *serving) { s.daemon(); s.SlowRegister(time.Hour); must(s.place.t, s.Start()) },
			func(s *serving) {
				s.eventually(func(k fakekubelet.State) bool { return len(k.Registrations) == 1 })
			},
		},
		"kubelet refuses": {
			func(s *serving) { s.daemon(); s.RefuseNext(-1, nil); must(s.place.t, s.Start()) },
			func(s *serving) { s.says("refused the registration") },
		},
		"session": {
			func(s *serving) { s.daemon(); must(s.place.t, s.Start()) },
			func(s *serving) { s.eventually(fakekubelet.Listed(hca, 10, 10)) },
		},
		"kubelet that reads no more": {
			func(s *serving) { s.daemon(); must(s.place.t, s.Start()) },
			func(s *serving) { s.eventually(fakekubelet.Listed(hca, 10, 10)); must(s.place.t, s.Freeze(hca)) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := serveAt(t, reach.prepare)
			reach.wait(s)
			signal := time.Now()
			s.terminate()
			s.SlowRegister(0)
			for _, r := range s.State().Registrations {
				if r.At.After(signal) {
					t.Errorf("a registration %v after the signal", r.At.Sub(signal))
				}
			}
			entries, _ := os.ReadDir(s.path("dp"))
			for _, e := range entries {
				if strings.Contains(e.Name(), register.SocketPrefix) {
					t.Errorf("the socket %s stays", e.Name())
				}
			}
			if log := s.stderr.String(); !strings.Contains(log, "pluginproxy ends") || strings.Contains(log, "panic") {
				t.Errorf("log:\n%s", log)
			}
		})
	}
}

func TestSIGINTEndsTheProgramToo(t *testing.T) {
	s := serveAt(t, nil)
	s.says("there is no snapshot yet")
	must(t, s.cmd.Process.Signal(syscall.SIGINT))
	if code := s.wait(5 * time.Second); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// R16 with real processes: kubelet's view over a restart of the plugin.
func TestR16_RestartOfTheProcessKeepsTheIDs(t *testing.T) {
	s := serveAt(t, func(s *serving) { s.daemon(); must(s.place.t, s.Start()) })
	s.eventually(fakekubelet.Listed(hca, 10, 10))
	before := s.State()
	s.terminate()
	s.eventually(fakekubelet.Listed(hca, 10, 0))
	if got := len(s.State().Responses); got != len(before.Responses) {
		t.Errorf("%d lists were sent at the end", got-len(before.Responses))
	}
	s.program = start(t, s.cmd.Args[1:]...)
	s.eventually(fakekubelet.Listed(hca, 10, 10))
	after := s.State()
	if a, b := strings.Join(before.Resources[hca].Healthy, " "), strings.Join(after.Resources[hca].Healthy, " "); a != b {
		t.Errorf("IDs %q, then %q", a, b)
	}
	s.terminate()
}

// R18: what a crash leaves behind is cleaned by the next life.
func TestKilledProcessLeavesNothingForLong(t *testing.T) {
	s := serveAt(t, func(s *serving) { s.daemon(); must(s.place.t, s.Start()) })
	s.eventually(fakekubelet.Listed(hca, 10, 10))
	must(t, s.cmd.Process.Kill())
	s.wait(within)
	s.program = start(t, s.cmd.Args[1:]...)
	s.eventually(fakekubelet.Listed(hca, 10, 10))
	ours := func() (count int) {
		entries, err := os.ReadDir(s.path("dp"))
		must(t, err)
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), register.SocketPrefix) {
				count++
			}
		}
		return count
	}
	until(t, "one socket", func() bool { return ours() == 1 }, &s.stderr)
	s.terminate()
}

func TestConfigIsReloadedWhileServing(t *testing.T) {
	s := serveAt(t, func(s *serving) { s.daemon(); must(s.place.t, s.Start()) })
	s.eventually(fakekubelet.Listed(hca, 10, 10))
	s.file("next", strings.ReplaceAll(good, `"rdmaHcaMax":10`, `"rdmaHcaMax":20`))
	must(t, os.Rename(s.path("next"), s.path("config.json")))
	s.eventually(fakekubelet.Listed(hca, 20, 20))
	s.file("next", "{")
	must(t, os.Rename(s.path("next"), s.path("config.json")))
	s.says("configuration refused; the old one stays in force")
	if got := len(s.State().Registrations); got != 1 {
		t.Errorf("%d registrations, want 1", got)
	}
	s.terminate()
}

func TestR80_MetricsAddressIsTakenMovedOrOff(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer func() { _ = taken.Close() }()
	node := func(s *serving) { s.daemon(); must(s.place.t, s.Start()) }

	t.Run("taken", func(t *testing.T) {
		s := serveAt(t, node, "--metrics-address", taken.Addr().String())
		s.says("the address can't be served; devices are served all the same")
		s.eventually(fakekubelet.Listed(hca, 10, 10))
		s.terminate()
	})
	t.Run("off", func(t *testing.T) {
		s := serveAt(t, node)
		s.eventually(fakekubelet.Listed(hca, 10, 10))
		s.terminate()
		if log := s.stderr.String(); strings.Contains(log, "serving metrics") {
			t.Errorf("log:\n%s", log)
		}
	})
	t.Run("moved", func(t *testing.T) {
		s := serveAt(t, node, "--metrics-address", "127.0.0.1:0", "--log-format=json")
		s.says("serving metrics and health")
		s.eventually(fakekubelet.Listed(hca, 10, 10))
		address := addressIn(t, s.stderr.String())
		client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: within}
		until(t, "readiness", func() bool {
			resp, err := client.Get("http://" + address + "/readyz")
			if err != nil {
				return false
			}
			defer func() { _ = resp.Body.Close() }()
			return resp.StatusCode == http.StatusOK
		}, &s.stderr)
		code, stdout, stderr := run(t, "status", "--metrics-address", address)
		if code != 0 || stderr != "" || !strings.Contains(stdout, "ready: every resource") || !strings.Contains(stdout, hca) {
			t.Errorf("status: exit code %d\n%s%s", code, stdout, stderr)
		}
		s.terminate()
	})
}

// addressIn finds the address of the HTTP server in a JSON log.
func addressIn(t *testing.T, log string) string {
	t.Helper()
	for line := range strings.Lines(log) {
		var entry struct{ Msg, Address string }
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Msg == "serving metrics and health" {
			return entry.Address
		}
	}
	t.Fatalf("no address in the log:\n%s", log)
	return ""
}
