// The Prometheus server, and its HTTP API.
//
// SPDX-License-Identifier: Apache-2.0

package prometheus

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"testing"
	"time"
)

// server is a running Prometheus.
type server string // its address

// newServer scrapes the node each second, once as it should be done and once without a
// password. The labels are those that the chart's monitors set.
func newServer(t *testing.T, n *node) server {
	t.Helper()
	rules, err := filepath.Abs("../../charts/rdma-relay/files/alerts.yaml")
	must(t, err)
	job := `
  - job_name: %s
    scheme: https
    tls_config: {ca_file: %s}
    static_configs: [{targets: ["%s"], labels: {node: node-1, namespace: rdma-relay}}]
`
	n.write(t, "prometheus.yml", fmt.Sprintf("global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [%s]\nscrape_configs:", rules)+
		fmt.Sprintf(job, "rdma-relay", n.path("tls.crt"), n.metrics)+
		fmt.Sprintf("    basic_auth: {username: %s, password: %s}\n", user, password)+
		fmt.Sprintf(job, "stranger", n.path("tls.crt"), n.metrics))
	promtool(t, "", "check", "config", n.path("prometheus.yml"))
	p := start(t, "prometheus", "--config.file="+n.path("prometheus.yml"), "--storage.tsdb.path="+n.path("tsdb"), "--web.listen-address=127.0.0.1:0")
	return server(p.finds(t, `[Ll]istening on.*address=(127\.0\.0\.1:[1-9]\d*)`))
}

// get asks the API and decodes the data of the answer.
func (s server) get(ctx context.Context, path string, query url.Values, data any) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+string(s)+"/api/v1/"+path+"?"+query.Encode(), nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return fmt.Errorf("%s: %w", resp.Status, err)
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s: %s", path, answer.Error)
	}
	return json.Unmarshal(answer.Data, data)
}

// sample is one series of an instant query.
type sample struct {
	Metric map[string]string
	Value  [2]any
}

func (s server) query(ctx context.Context, expr string) (found []sample, err error) {
	var data struct{ Result []sample }
	err = s.get(ctx, "query", url.Values{"query": {expr}}, &data)
	return data.Result, err
}

// has wants a query to find something.
func (s server) has(ctx context.Context, expr string) error {
	found, err := s.query(ctx, expr)
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("%s has no data", expr)
	}
	return err
}
