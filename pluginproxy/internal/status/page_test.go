// The page without a browser: it is well-formed, complete, and inert whatever the
// host's strings are.
//
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/relay"
	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/resource"
	"github.com/rdma-relay/rdma-relay/test/fakedaemon"
)

// void are the elements that the page uses without an end tag.
var void = []atom.Atom{atom.Meta, atom.Br}

// read checks the page tag by tag and returns its text. Nothing that could act, or
// fetch, may be in it.
func read(t *testing.T, body string) (text string) {
	t.Helper()
	var open []string
	var words strings.Builder
	tokens := html.NewTokenizer(strings.NewReader(body))
	for {
		kind := tokens.Next()
		token := tokens.Token()
		switch kind {
		case html.ErrorToken:
			if err := tokens.Err(); !errors.Is(err, io.EOF) {
				t.Fatalf("not HTML: %v", err)
			}
			if len(open) > 0 {
				t.Errorf("left open: %v", open)
			}
			return strings.Join(strings.Fields(words.String()), " ")
		case html.TextToken:
			if !slices.Contains(open, "style") {
				words.WriteString(token.Data)
			}
		case html.StartTagToken:
			inert(t, token)
			words.WriteByte(' ')
			if !slices.Contains(void, token.DataAtom) {
				open = append(open, token.Data)
			}
		case html.EndTagToken:
			if len(open) == 0 || open[len(open)-1] != token.Data {
				t.Fatalf("</%s> closes none of %v", token.Data, open)
			}
			open = open[:len(open)-1]
			words.WriteByte(' ')
		}
	}
}

func inert(t *testing.T, token html.Token) {
	t.Helper()
	switch token.DataAtom {
	case atom.Script, atom.Iframe, atom.Object, atom.Embed, atom.Form, atom.Img, atom.Link, atom.Base, atom.Svg:
		t.Errorf("<%s> in the page", token.Data)
	}
	for _, a := range token.Attr {
		switch {
		case strings.HasPrefix(a.Key, "on"), a.Key == "src", a.Key == "style", a.Key == "http-equiv":
			t.Errorf("<%s %s=%q>", token.Data, a.Key, a.Val)
		case a.Key == "href" && !slices.Contains([]string{"/statusz?format=json", "/metrics", "/readyz"}, a.Val):
			t.Errorf("a link to %q", a.Val)
		}
	}
}

func TestPageTellsEverythingInOneInertDocument(t *testing.T) {
	from := sample()
	from.set(func(rep *relay.Report) {
		rep.Problems = []string{"the kernel module ib_umad does not answer"}
		rep.Resources[1].Why = "kubelet shows 0: no session: waiting"
		rep.Resources[1].LeftOut = []resource.LeftOut{{Device: "mlx5_0", Rule: "ifNames: ens0 is not one of ib0"}, {Device: "mlx5_1", Rule: "ifNames: ens1 is not one of ib0"}}
	})
	rec := ask(t, from, "/", firefox)
	got := read(t, rec.Body.String())
	for _, want := range []string{
		"gpu-7 Not ready", "the kernel module ib_umad does not answer", "resource rdma/none has no session with kubelet: waiting",
		"connected, version v2", "1s ago, generation 7", "shared", "6.12.0",
		"rdma/hca 8 of 10 devices healthy 1 of 2 HCAs healthy session live", "mlx5_1 unhealthy: down", "also in rdma/b", "kubelet shows 0: no session: waiting",
		"ifNames is not one of ib0 mlx5_0 (ens0), mlx5_1 (ens1)",
		"mlx5_0 0000:3b:00.0 pf mlx5_core NUMA 0 1: ACTIVE ethernet, 100 Gb/sec (4X EDR) ens0np0 rdma/hca", "1: DOWN, no carrier ethernet",
		"session rdma/hca began",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("it lacks %q", want)
		}
	}
	if t.Failed() {
		t.Log(got)
	}
	policy := rec.Header().Get("Content-Security-Policy")
	if !strings.HasPrefix(policy, "default-src 'none'; style-src 'sha256-") || strings.Contains(policy, "unsafe") {
		t.Errorf("policy %q", policy)
	}
	if !strings.Contains(rec.Body.String(), "<style>"+pageStyle+"</style>") {
		t.Error("the style in the page is not the one whose hash the policy has")
	}
	if size := rec.Body.Len(); size > 32<<10 {
		t.Errorf("%d bytes is not small", size)
	}
}

func TestPageEscapesWhateverTheHostSays(t *testing.T) {
	const evil = `<script>alert("x")</script><img src=x onerror=y>'" style=z {{.}} </style>`
	device := fakedaemon.HCA(0)
	device.Name, device.FirmwareVersion, device.Parent.Driver, device.Parent.PciAddress = evil, evil, evil, evil
	device.Ports[0].Rate, device.Ports[0].NetDevices[0].Name = evil, evil
	from := sample()
	from.set(func(rep *relay.Report) {
		rep.Snapshot = fakedaemon.Snapshot("a", 1, device)
		rep.Node = relay.NodeReport{Name: evil, KernelRelease: evil, Modules: []relay.ModuleReport{{Name: evil}}}
		rep.Missing, rep.Problems = []string{evil}, []string{evil}
		rep.Config = relay.ConfigReport{Hash: evil, Problem: evil, Warnings: []string{evil}}
		rep.Discovery.DaemonVersion, rep.Discovery.NetnsMode, rep.Version = evil, evil, evil
		rep.Kubelet.Dir = evil
		rep.Changes = []relay.Change{{Kind: evil, Resource: evil, Text: evil}}
		r := &rep.Resources[0]
		r.Name, r.Why, r.Hints = evil, evil+"1", []string{evil}
		r.HCAs, r.LeftOut = []resource.HCA{{Name: evil, PCIAddress: evil, Reason: evil}}, []resource.LeftOut{{Device: evil, Rule: evil}}
		r.Shared = []resource.Shared{{Device: evil, Resources: []string{evil + "2"}}}
	})
	body := ask(t, from, "/", firefox).Body.String()
	text := read(t, body)
	if got := strings.Count(text, `alert("x")`); got < 25 {
		t.Errorf("only %d of the strings are shown as text", got)
	}
}

func TestPageOfABigNodeIsBounded(t *testing.T) {
	from := sample()
	from.set(func(rep *relay.Report) {
		rep.Snapshot = fakedaemon.Snapshot("a", 1, fakedaemon.HCAs(2000)...)
		r := &rep.Resources[1]
		for i := range 2000 {
			r.LeftOut = append(r.LeftOut, resource.LeftOut{Device: fmt.Sprint("mlx5_", i), Rule: "vendors: 15b3 is not one of 8086"},
				resource.LeftOut{Device: fmt.Sprint("odd_", i), Rule: fmt.Sprint("unusable: reason ", i)})
		}
	})
	body := ask(t, from, "/", firefox).Body.String()
	text := read(t, body)
	for _, want := range []string{"and 1744 devices more", "mlx5_15 (15b3) and 1984 more", "and 1977 rules more", "Left out: 4000"} {
		if !strings.Contains(text, want) {
			t.Errorf("it lacks %q", want)
		}
	}
	if len(body) > 300<<10 {
		t.Errorf("%d bytes", len(body))
	}
}

func TestPageBeforeTheFirstSnapshot(t *testing.T) {
	from := &reporter{rep: relay.Report{Version: "v1", Missing: []string{"no snapshot yet"}, Resources: []relay.ResourceReport{{Name: "rdma/hca", Waiting: true, Why: "not registered"}}}}
	got := read(t, ask(t, from, "/", firefox).Body.String())
	for _, want := range []string{"This node Not ready", "? devices: not known yet", "there is no snapshot yet", "not connected", "None yet."} {
		if !strings.Contains(got, want) {
			t.Errorf("it lacks %q: %s", want, got)
		}
	}
}

func TestVerdict(t *testing.T) {
	well := relay.ResourceReport{Name: "a", Session: true, Devices: 1, Healthy: 1}
	ill := relay.ResourceReport{Name: "b", Session: true, Why: "0 devices"}
	for want, rep := range map[string]*relay.Report{
		"good": {Ready: true, Resources: []relay.ResourceReport{well}},
		"warn": {Ready: true, Resources: []relay.ResourceReport{well, ill}},
		"bad":  {Resources: []relay.ResourceReport{well}},
	} {
		if got := newView(rep, time.Now()).Mark; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if got := newView(&relay.Report{Ready: true, Problems: []string{"x"}}, time.Now()).Mark; got != "warn" {
		t.Errorf("with a problem: %s", got)
	}
}
