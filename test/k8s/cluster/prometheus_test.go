// A real Prometheus, configured from the PodMonitor that the chart renders, as the
// Prometheus operator does it. Debian's is built without the discovery by the API
// server; so the test asks the API server, and hands over the same targets with the
// same labels in a file.
//
// SPDX-License-Identifier: Apache-2.0

//go:build cluster

package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

const prometheusAddress = "127.0.0.1:9090"

// podMonitor is what is read of one.
type podMonitor struct {
	Spec struct {
		Selector struct {
			MatchLabels map[string]string `json:"matchLabels"`
		} `json:"selector"`
		NamespaceSelector struct {
			MatchNames []string `json:"matchNames"`
		} `json:"namespaceSelector"`
		PodMetricsEndpoints []struct {
			Port        string `json:"port"`
			Path        string `json:"path"`
			Scheme      string `json:"scheme"`
			Relabelings []struct {
				SourceLabels []string `json:"sourceLabels"`
				TargetLabel  string   `json:"targetLabel"`
			} `json:"relabelings"`
		} `json:"podMetricsEndpoints"`
	} `json:"spec"`
}

// scrapeConfig is the operator's translation of a PodMonitor (its generatePodMonitorConfig).
func scrapeConfig(t *testing.T, rendered string) values {
	t.Helper()
	var m podMonitor
	if err := yaml.Unmarshal([]byte(rendered), &m); err != nil {
		t.Fatal(err)
	}
	if len(m.Spec.PodMetricsEndpoints) != 1 {
		t.Fatalf("the PodMonitor has %d endpoints: %s", len(m.Spec.PodMetricsEndpoints), rendered)
	}
	endpoint := m.Spec.PodMetricsEndpoints[0]
	keep := func(label, value string) values {
		return values{"action": "keep", "source_labels": []string{label}, "regex": regexp.QuoteMeta(value)}
	}
	relabel := []values{
		keep("__meta_kubernetes_pod_container_port_name", endpoint.Port),
		{"source_labels": []string{"__meta_kubernetes_namespace"}, "target_label": "namespace"},
		{"source_labels": []string{"__meta_kubernetes_pod_name"}, "target_label": "pod"},
	}
	for label, value := range m.Spec.Selector.MatchLabels {
		relabel = append(relabel, keep("__meta_kubernetes_pod_label_"+illegalInLabel.ReplaceAllString(label, "_"), value))
	}
	for _, r := range endpoint.Relabelings {
		relabel = append(relabel, values{"source_labels": r.SourceLabels, "target_label": r.TargetLabel})
	}
	file := filepath.Join(t.TempDir(), "targets.json")
	targets, err := json.Marshal(podTargets(t, m.Spec.NamespaceSelector.MatchNames))
	if err != nil {
		t.Fatal(err)
	}
	if err := writeFile(file, string(targets)); err != nil {
		t.Fatal(err)
	}
	return values{"job_name": "relay", "metrics_path": endpoint.Path, "scheme": cmp.Or(endpoint.Scheme, "http"), "relabel_configs": relabel,
		"file_sd_configs": []values{{"files": []string{file}}}}
}

var illegalInLabel = regexp.MustCompile(`[^a-zA-Z0-9_]`)

// podTargets are what Prometheus' discovery with "role: pod" finds (its buildPod): one
// target for each port of each container.
func podTargets(t *testing.T, namespaces []string) (targets []values) {
	t.Helper()
	for _, namespace := range namespaces {
		pods, err := shared.client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, pod := range pods.Items {
			for _, container := range pod.Spec.Containers {
				for _, port := range container.Ports {
					labels := values{
						"__meta_kubernetes_namespace":               pod.Namespace,
						"__meta_kubernetes_pod_name":                pod.Name,
						"__meta_kubernetes_pod_node_name":           pod.Spec.NodeName,
						"__meta_kubernetes_pod_container_name":      container.Name,
						"__meta_kubernetes_pod_container_port_name": port.Name,
					}
					for name, value := range pod.Labels {
						labels["__meta_kubernetes_pod_label_"+illegalInLabel.ReplaceAllString(name, "_")] = value
					}
					targets = append(targets, values{"labels": labels,
						"targets": []string{net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(int(port.ContainerPort)))}})
				}
			}
		}
	}
	return targets
}

// startPrometheus runs one with the chart's alerts for the length of the test.
func startPrometheus(t *testing.T, scrape values) {
	t.Helper()
	rules, err := filepath.Abs(filepath.Join(chartDir, "files/alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := yaml.Marshal(values{"global": values{"scrape_interval": "1s", "evaluation_interval": "1s"},
		"rule_files": []string{rules}, "scrape_configs": []values{scrape}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "prometheus.yml")
	if err := writeFile(file, string(text)); err != nil {
		t.Fatal(err)
	}
	p, err := shared.start("prometheus", "--config.file="+file, "--storage.tsdb.path="+t.TempDir(), "--web.listen-address="+prometheusAddress)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Log(tail(p.log, 20))
		}
	})
}

// ask asks Prometheus' HTTP API and decodes the data of its answer.
func ask(ctx context.Context, path string, query url.Values, data any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+prometheusAddress+path+"?"+query.Encode(), nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer := struct {
		Status, Error string
		Data          any
	}{Data: data}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return err
	}
	if answer.Status != "success" {
		return errors.New(answer.Error)
	}
	return nil
}

// sample is one series of an instant query.
type sample struct {
	Metric map[string]string
	Value  [2]any // time, text
}

func query(ctx context.Context, expression string) ([]sample, error) {
	var data struct{ Result []sample }
	err := ask(ctx, "/api/v1/query", url.Values{"query": {expression}}, &data)
	if err == nil && len(data.Result) == 0 {
		err = fmt.Errorf("no data for %s", expression)
	}
	return data.Result, err
}
