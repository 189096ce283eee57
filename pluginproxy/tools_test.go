// check and status: what an operator reads.
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/relay"
	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/resource"
	"github.com/rdma-relay/rdma-relay/test/fakedaemon"
)

// same compares texts whose columns may be padded by any number of blanks. A wanted
// line with … at its end says only how the line begins.
func same(t *testing.T, what, got, want string) {
	t.Helper()
	squeeze := func(s string) (lines []string) {
		for line := range strings.Lines(strings.TrimSpace(s)) {
			lines = append(lines, strings.Join(strings.Fields(line), " "))
		}
		return lines
	}
	g, w := squeeze(got), squeeze(want)
	for i := range max(len(g), len(w)) {
		var a, b string
		if i < len(g) {
			a = g[i]
		}
		if i < len(w) {
			b = w[i]
		}
		begin, open := strings.CutSuffix(b, "…")
		if fits := a == b || open && strings.HasPrefix(a, begin); !fits {
			t.Errorf("%s, line %d:\n got %q\nwant %q\nwhole:\n%s", what, i+1, a, b, got)
			return
		}
	}
}

func TestCheckPrintsWhatIsInForce(t *testing.T) {
	p := newPlace(t)
	code, stdout, stderr := run(t, "check", "--config", p.file("config.json", good))
	if code != 0 || stderr != "" {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	hash := strings.TrimPrefix(strings.Fields(stdout)[3], "hash ")
	same(t, "check", strings.ReplaceAll(stdout, hash, "HASH"), `
		# good; hash HASH
		configList:
		- cdi: false
		charDevices:
		- uverbs
		- rdma_cm
		- umad
		- issm
		health: present
		permissions: rw
		preferredAllocation: spread
		rdmaHcaMax: 10
		recoverAfter: 0s
		resourceName: hca
		resourcePrefix: rdma
		selectors:
		vendors:
		- 15b3
		sharing: pool
		topologyHints: true`)
	// What it prints is a configuration, and the same one.
	_, again, stderr := run(t, "check", "--config", p.file("again.yaml", stdout))
	if again != stdout {
		t.Errorf("its own output is read as\n%s\n%s", again, stderr)
	}
}

func TestCheckWarnsOnStandardError(t *testing.T) {
	p := newPlace(t)
	file := p.file("config.json", `{"periodicUpdateInterval":60,`+good[1:])
	code, stdout, stderr := run(t, "check", "--config", file)
	if code != 0 || !strings.HasPrefix(stderr, "warning: ") || !strings.Contains(stderr, "periodicUpdateInterval") || strings.Contains(stdout, "warning") {
		t.Errorf("exit code %d\n%s\n%s", code, stdout, stderr)
	}
}

func TestCheckShowsWhatEachResourceWouldExpose(t *testing.T) {
	p := newPlace(t)
	socket := p.daemon(fakedaemon.Say(fakedaemon.Whole(fakedaemon.Snapshot("a", 1,
		fakedaemon.HCA(0), fakedaemon.Down(fakedaemon.HCA(1)), fakedaemon.WithoutCM(fakedaemon.HCA(2))))))
	file := p.file("config.json", `{"configList":[
		{"resourceName":"pool","rdmaHcaMax":10,"selectors":{"vendors":["15b3"]}},
		{"resourceName":"second","rdmaHcaMax":1,"sharing":"perDevice","selectors":{"rdmaDevices":["mlx5_1"]}},
		{"resourceName":"none","rdmaHcaMax":5,"selectors":{"ifNames":["ens9"]}}]}`)
	code, stdout, stderr := run(t, "check", "--config", file, "--discovery-socket", socket)
	if code != 0 || stderr != "" {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	same(t, "check", stdout, `
		rdma/pool: 10 devices behind 2 HCAs
		selected mlx5_0 0000:3b:00.0 healthy
		selected mlx5_1 0000:3b:01.0 healthy; also in rdma/second
		left out: mlx5_2: unusable: /dev/infiniband/rdma_cm is missing; load the kernel module rdma_ucm
		hint: 1 device…

		rdma/second: 1 devices behind 1 HCAs
		selected mlx5_1 0000:3b:01.0 unhealthy: no port is ACTIVE (port 1: no carrier); also in rdma/pool
		left out: mlx5_0, mlx5_2: rdmaDevices is not one of mlx5_1
		hint: 1 device…
		hint: all devices are unhealthy; mlx5_1: no port is ACTIVE (port 1: no carrier)

		rdma/none: 0 devices behind 0 HCAs
		left out: mlx5_0 (ens0np0), mlx5_1 (ens1np0), mlx5_2 (ens2np0): ifNames is not one of ens9
		hint: selectors.ifNames: this node has no RDMA device with the network device ens9`)
}

func TestCheckWithoutADaemonFails(t *testing.T) {
	for name, test := range map[string]struct {
		prepare func(place)
		words   string
	}{
		"no socket":  {func(place) {}, "no such file"},
		"no service": {func(p place) { p.daemon(nil) }, "does not offer rdmarelay.discovery.v1.DiscoveryService"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			test.prepare(p)
			code, stdout, stderr := run(t, "check", "--config", p.file("config.json", good),
				"--discovery-socket", p.path("discovery.sock"), "--timeout=1s")
			if code != 1 || stdout != "" || !strings.Contains(stderr, "no snapshot from discoveryd: ") || !strings.Contains(stderr, test.words) {
				t.Errorf("exit code %d\n%s\n%s", code, stdout, stderr)
			}
		})
	}
}

// answering is an HTTP server whose /statusz says this.
func answering(t *testing.T, code int, body []byte) (address string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/statusz" {
			code = http.StatusNotFound
		}
		w.WriteHeader(code)
		_, _ = w.Write(body)
	}))
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

func sample() relay.Report {
	return relay.Report{
		Version: "v1", Missing: []string{"resource rdma/none has no session with kubelet: waiting for kubelet.sock"},
		Problems: []string{"the node: no RDMA subsystem"},
		Node:     relay.NodeReport{Name: "gpu-7", KernelRelease: "6.12.0", Modules: []relay.ModuleReport{{Name: "ib_umad", Present: true}, {Name: "ib_uverbs"}}},
		Kubelet:  relay.KubeletReport{Dir: "/dp"},
		Changes:  []relay.Change{{At: time.Now().Add(-60 * 24 * time.Hour), Kind: relay.KindSession, Resource: "rdma/hca", Text: "began"}},
		Config: relay.ConfigReport{
			Hash: "0123", LoadedAt: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC), Problem: "config.json:1:2: bad", Warnings: []string{"a warning"},
		},
		Discovery: relay.DiscoveryReport{
			Connected: true, DaemonVersion: "v2", Generation: 7, Devices: 3, NetnsMode: "shared", AgeSeconds: 12.3, NodeReasons: []string{"no RDMA subsystem"},
		},
		Resources: []relay.ResourceReport{
			{
				Name: "rdma/hca", Why: "1 of 2 HCAs unhealthy: mlx5_1: no port is ACTIVE", Devices: 10, Healthy: 8, HealthyHCAs: 1, Session: true, Registered: true,
				HCAs:    []resource.HCA{{Name: "mlx5_0", Healthy: true}, {Name: "mlx5_1", Reason: "no port is ACTIVE"}},
				LeftOut: []resource.LeftOut{{Device: "mlx5_2", Rule: "vendors"}}, Hints: []string{"a hint"},
				Counters: relay.Counters{RegistrationsOK: 2, AllocationsOK: 5},
			},
			{Name: "rdma/none", Why: "kubelet shows 0: no session: waiting for kubelet.sock", Problem: "waiting for kubelet.sock"},
		},
	}
}

func TestStatusTellsPeopleWhatIsWrongFirst(t *testing.T) {
	body, err := json.Marshal(sample())
	must(t, err)
	code, stdout, stderr := run(t, "status", "--metrics-address", answering(t, http.StatusOK, body))
	if code != 0 || stderr != "" {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	same(t, "status", stdout, `
		NOT READY
		resource rdma/none has no session with kubelet: waiting for kubelet.sock
		problem: the node: no RDMA subsystem
		warning: configuration: a warning

		RESOURCE DEVICES HEALTHY HCAS SESSION SINCE REGISTRATIONS ALLOCATIONS
		rdma/hca 10 8 1/2 live 2 5
		rdma/none 0 0 0/0 none 0 0

		rdma/hca: 1 of 2 HCAs unhealthy: mlx5_1: no port is ACTIVE
		unhealthy: mlx5_1: no port is ACTIVE
		selected: mlx5_0
		hint: a hint
		left out: mlx5_2: vendors

		rdma/none: kubelet shows 0: no session: waiting for kubelet.sock

		node gpu-7
		discoveryd connected, version v2
		last scan 12s ago, generation 7
		kubelet no kubelet.sock in /dp
		configuration hash 0123, loaded…
		RDMA devices 3
		netns mode shared
		kernel 6.12.0
		modules ib_umad, ib_uverbs (does not answer)
		pluginproxy version v1

		LAST CHANGES
		60…`)
}

func TestStatusOfANodeThatIsWell(t *testing.T) {
	rep := relay.Report{Ready: true, Kubelet: relay.KubeletReport{Present: true}, Discovery: relay.DiscoveryReport{NetnsMode: "shared", Problem: "discoveryd ended the stream", Generation: 3, AgeSeconds: 100, Stale: true}}
	body, err := json.Marshal(rep)
	must(t, err)
	_, stdout, _ := run(t, "status", "--metrics-address", answering(t, http.StatusOK, body))
	same(t, "status", stdout, `
		ready: every resource has a session with kubelet

		RESOURCE DEVICES HEALTHY HCAS SESSION SINCE REGISTRATIONS ALLOCATIONS

		discoveryd not connected
		last scan 1m40s ago, generation 3 (stale)
		kubelet kubelet.sock is there
		configuration hash
		RDMA devices 0
		netns mode shared
		pluginproxy version`)
}

func TestStatusAsJSONIsTheAnswerItself(t *testing.T) {
	body, err := json.Marshal(sample())
	must(t, err)
	code, stdout, _ := run(t, "status", "-o", "json", "--metrics-address", answering(t, http.StatusOK, body))
	if code != 0 || stdout != string(body) {
		t.Errorf("exit code %d\n%s", code, stdout)
	}
}

func TestStatusWithoutAnAnswerFails(t *testing.T) {
	for name, address := range map[string]string{
		"nobody":           "127.0.0.1:1",
		"another program":  answering(t, http.StatusOK, []byte("hello")),
		"an error":         answering(t, http.StatusTeapot, nil),
		"an endless story": answering(t, http.StatusOK, []byte(strings.Repeat(" ", 1<<20))),
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("http_proxy", "http://127.0.0.1:9") // must not be asked
			code, stdout, stderr := run(t, "status", "--metrics-address", address)
			if code != 1 || stdout != "" || strings.Count(stderr, "\n") != 1 {
				t.Errorf("exit code %d\n%s\n%s", code, stdout, stderr)
			}
		})
	}
}
