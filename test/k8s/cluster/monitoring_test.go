// Metrics, alerts and dashboard of the chart with a real Prometheus.
//
// SPDX-License-Identifier: Apache-2.0

//go:build cluster

package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestMonitoring(t *testing.T) {
	// One port is down, so that there is something to tell.
	const down = 5
	if err := shared.host.setPort(down, "1: DOWN"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := shared.host.setPort(down, "4: ACTIVE"); err != nil {
			t.Error(err)
		}
	})
	r := install(t, "watched", config(
		entry("hca_pool", poolSlots, selecting("rdmaDevices", rdmaNames(poolHCAs())...)),
		entry("hca_each", 2, values{"sharing": "perDevice", "selectors": values{"rdmaDevices": rdmaNames(ownHCAs())}}),
		entry("hca_down", 2, values{"sharing": "perDevice", "selectors": values{"rdmaDevices": rdmaNames([]int{down})}}),
	))
	awaitAllocatable(t, pool, poolSlots)
	startPod(t, "asks", pool).look()
	rendered, err := run(t.Context(), "helm", "template", r.name, chartDir, "--namespace="+r.namespace,
		"--set=metrics.podMonitor.enabled=true", "--show-only=templates/monitors.yaml")
	if err != nil {
		t.Fatal(err)
	}
	startPrometheus(t, scrapeConfig(t, rendered))

	t.Run("the PodMonitor finds the pod and names its node", func(t *testing.T) {
		for expression, want := range map[string]string{
			`up{job="relay"}`: "1",
			`rdma_relay_devices{resource="rdma/hca_pool",health="healthy",node="` + nodeName + `",namespace="` + r.namespace + `"}`: fmt.Sprint(poolSlots),
			`rdma_relay_devices{resource="rdma/hca_down",health="unhealthy"}`:                                                       "2",
			`rdma_relay_port_active{device="` + rdmaName(down) + `"}`:                                                               "0",
			`rdma_relay_allocations_total{resource="rdma/hca_pool",result="ok"}`:                                                    "1",
		} {
			eventually(t, expression, func(ctx context.Context) error {
				got, err := query(ctx, expression)
				if err == nil && (len(got) != 1 || got[0].Value[1] != want) {
					err = fmt.Errorf("%v, want one series of %s", got, want)
				}
				return err
			})
		}
	})
	t.Run("every query of the dashboard returns data", func(t *testing.T) { dashboard(t) })
	t.Run("all alerts can be evaluated, and none fires", func(t *testing.T) { alerts(t) })
	t.Run("promtool finds no fault", func(t *testing.T) { promtool(t, r.pod().Status.PodIP) })
}

type panel struct {
	Title   string
	Panels  []panel
	Targets []struct{ Expr string }
}

func dashboard(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(chartDir, "files/dashboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	var top panel
	if err := json.Unmarshal(text, &top); err != nil {
		t.Fatal(err)
	}
	// As Grafana fills them in, with everything selected.
	variables := strings.NewReplacer("$node", ".*", "$resource", ".*", "$__rate_interval", "10s")
	queries := 0
	for todo := []panel{top}; len(todo) > 0; todo = todo[1:] {
		todo = append(todo, todo[0].Panels...)
		for _, target := range todo[0].Targets {
			queries++
			expression := variables.Replace(target.Expr)
			eventually(t, todo[0].Title, func(ctx context.Context) error {
				_, err := query(ctx, expression)
				return err
			})
		}
	}
	if queries < 10 {
		t.Errorf("only %d queries were found", queries)
	}
}

func alerts(t *testing.T) {
	var data struct {
		Groups []struct {
			Rules []struct{ Name, Health, LastError, State string }
		}
	}
	count := 0
	eventually(t, "every rule was evaluated", func(ctx context.Context) error {
		if err := ask(ctx, "/api/v1/rules", url.Values{}, &data); err != nil {
			return err
		}
		count = 0
		for _, group := range data.Groups {
			for _, rule := range group.Rules {
				count++
				if rule.Health != "ok" {
					return fmt.Errorf("%s: health %q %s", rule.Name, rule.Health, rule.LastError)
				}
				if rule.State == "firing" {
					return fmt.Errorf("%s fires", rule.Name)
				}
			}
		}
		return nil
	})
	if count < 6 {
		t.Errorf("only %d rules were found", count)
	}
}

// promtool checks the format and names of the metrics, the rules, and runs the tests of
// the rules.
func promtool(t *testing.T, podIP string) {
	path, err := program("promtool")
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.Get("http://" + podIP + ":9837/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	metrics, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"check", "metrics"},
		{"check", "rules", filepath.Join(chartDir, "files/alerts.yaml")},
		{"test", "rules", "../../chart/testdata/alerts.promtool.yaml"},
	} {
		cmd := exec.CommandContext(t.Context(), path, args...)
		cmd.Stdin = bytes.NewReader(metrics)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}
