// Package prometheus has a real Prometheus scrape both programs through TLS and a
// password, and asks it what the chart's alerts and dashboard ask.
//
// Run it by make e2e-prometheus, which installs Debian's package where it can.
//
// SPDX-License-Identifier: Apache-2.0
package prometheus

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/rdma-relay/rdma-relay/test/fakehost"
	"github.com/rdma-relay/rdma-relay/test/fakekubelet"
)

const chart = "../../charts/rdma-relay/"

func TestMain(m *testing.M) {
	if os.Getenv("RDMA_RELAY_PROMETHEUS") == "" {
		fmt.Println("left out: make e2e-prometheus runs these tests, which need prometheus and promtool")
		return
	}
	os.Exit(m.Run())
}

func TestPromtoolTakesAlertsOfTheChart(t *testing.T) {
	promtool(t, "", "check", "rules", chart+"files/alerts.yaml")
	promtool(t, "", "test", "rules", "../chart/testdata/alerts.promtool.yaml")

	// The same as the chart renders them for the operator.
	rendered, err := os.ReadFile("../chart/testdata/monitoring.golden.yaml")
	must(t, err)
	for text := range strings.SplitSeq(string(rendered), "\n---\n") {
		var rule struct {
			Kind string
			Spec any
		}
		must(t, yaml.Unmarshal([]byte(text), &rule))
		if rule.Kind != "PrometheusRule" {
			continue
		}
		spec, err := yaml.Marshal(rule.Spec)
		must(t, err)
		file := t.TempDir() + "/rules.yaml"
		must(t, os.WriteFile(file, spec, 0o600))
		promtool(t, "", "check", "rules", file)
		return
	}
	t.Error("the chart renders no PrometheusRule")
}

func TestRealPrometheusWatchesANode(t *testing.T) {
	ctx := t.Context()
	n := newNode(t)
	s := newServer(t, n)
	until(t, "a scrape with both resources", func() error {
		return s.has(ctx, `count(rdma_relay_session_active{job="rdma-relay"} == 1) == 2`)
	})

	t.Run("promtool takes the metrics", func(t *testing.T) { promtool(t, n.scrape(t), "check", "metrics") })
	t.Run("nobody gets in without a password", func(t *testing.T) {
		until(t, "the refusal", func() error {
			var data struct {
				ActiveTargets []struct {
					Labels            map[string]string
					Health, LastError string
				}
			}
			if err := s.get(ctx, "targets", nil, &data); err != nil {
				return err
			}
			for _, target := range data.ActiveTargets {
				if target.Labels["job"] == "stranger" && target.Health == "down" && strings.Contains(target.LastError, "401") {
					return nil
				}
			}
			return fmt.Errorf("targets %+v", data.ActiveTargets)
		})
	})

	// Something to be seen by each panel: an allocation, and an adapter that is down.
	_, err := n.kubelet.Allocate(ctx, "rdma/hca_pool", "0")
	must(t, err)
	must(t, n.host.SetCarrier(adapterNet, false))
	must(t, n.host.SetPortState(adapter, 1, fakehost.StateDown))
	wait, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	must(t, n.kubelet.Wait(wait, fakekubelet.Listed(adapterResource, 10, 0)))

	t.Run("alerts are about to fire", func(t *testing.T) {
		for _, want := range []string{"RdmaRelayResourceAtZero", "RdmaRelayPortDown"} {
			until(t, want, func() error {
				return s.has(ctx, fmt.Sprintf(`ALERTS{alertname=%q,alertstate="pending",node="node-1"}`, want))
			})
		}
		if found, err := s.query(ctx, `ALERTS{alertname!~"RdmaRelayResourceAtZero|RdmaRelayPortDown"}`); err != nil || len(found) > 0 {
			t.Errorf("also %v, %v", found, err)
		}
		s.rulesWork(t)
	})
	t.Run("the dashboard has data", func(t *testing.T) { s.dashboard(t) })
}

// scrape gets /metrics as Prometheus does.
func (n *node) scrape(t *testing.T) string {
	t.Helper()
	ca, err := os.ReadFile(n.path("tls.crt"))
	must(t, err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	client := http.Client{Timeout: within, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+n.metrics+"/metrics", nil)
	must(t, err)
	req.SetBasicAuth(user, password)
	resp, err := client.Do(req)
	must(t, err)
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	must(t, err)
	if resp.StatusCode != http.StatusOK || !strings.Contains(string(body), "rdma_relay_devices{") {
		t.Errorf("%s\n%s", resp.Status, body)
	}
	return string(body)
}

// rulesWork wants each alert to have been evaluated without an error.
func (s server) rulesWork(t *testing.T) {
	t.Helper()
	var data struct {
		Groups []struct {
			Rules []struct{ Name, Health, LastError string }
		}
	}
	must(t, s.get(t.Context(), "rules", nil, &data))
	count := 0
	for _, group := range data.Groups {
		for _, rule := range group.Rules {
			if count++; rule.Health != "ok" {
				t.Errorf("alert %s: %s %s", rule.Name, rule.Health, rule.LastError)
			}
		}
	}
	if count < 7 {
		t.Errorf("%d alerts", count)
	}
}

// dashboard asks what each panel and each variable of the Grafana dashboard asks, with
// the variables as they are at first, and wants data.
func (s server) dashboard(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile(chart + "files/dashboard.json")
	must(t, err)
	var d struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
		Templating struct {
			List []struct{ Name, Type, Query, AllValue string }
		}
	}
	must(t, json.Unmarshal(text, &d))

	// Grafana takes at least four scrape intervals for a rate.
	values := []string{"$__rate_interval", "10s"}
	labelValues := regexp.MustCompile(`^label_values\((\w+), (\w+)\)$`)
	for _, v := range d.Templating.List {
		if v.Type != "query" {
			continue
		}
		values = append(values, "$"+v.Name, v.AllValue)
		parts := labelValues.FindStringSubmatch(v.Query)
		if parts == nil {
			t.Errorf("variable %s: the test does not understand %q", v.Name, v.Query)
			continue
		}
		var found []string
		if err := s.get(t.Context(), "label/"+parts[2]+"/values", url.Values{"match[]": {parts[1]}}, &found); err != nil || len(found) == 0 {
			t.Errorf("variable %s: %v, %v", v.Name, found, err)
		}
	}
	replace := strings.NewReplacer(values...)
	asked := 0
	for _, panel := range d.Panels {
		for _, target := range panel.Targets {
			asked++
			until(t, "panel "+panel.Title, func() error {
				expr := replace.Replace(target.Expr)
				if strings.Contains(expr, "$") {
					return errors.New("a variable that nobody sets: " + expr)
				}
				return s.has(t.Context(), expr)
			})
		}
	}
	t.Logf("%d queries of %d panels have data", asked, len(d.Panels))
	if asked < 10 {
		t.Errorf("only %d queries", asked)
	}
}

// Who asks without TLS is told where to ask.
func TestStatusAtAPortWithTLS(t *testing.T) {
	n := newNode(t)
	out, err := exec.CommandContext(t.Context(), program(t, "pluginproxy"), "status", "--metrics-address="+n.metrics).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "400 Bad Request: it is protected by --web-config-file; ask pluginproxy's --probe-address") {
		t.Errorf("%v, %s", err, out)
	}
}
