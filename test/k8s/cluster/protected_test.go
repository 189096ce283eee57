// The metrics port behind TLS and a password.
//
// SPDX-License-Identifier: Apache-2.0

//go:build cluster

package cluster

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A web configuration file of exporter-toolkit; the password is "scrape-me".
const webConfig = `tls_server_config:
  cert_file: tls.crt
  key_file: tls.key
basic_auth_users:
  prometheus: $2a$04$3Rm74ZS/RMncmgJwKpnPMechGkw6KszunN2ICtFN.V4FcuEB27NIG
`

func TestProtectedMetrics(t *testing.T) {
	const serverName, secret = "relay-metrics", "web"
	ns := newNamespace(t, "protected", map[string]string{"pod-security.kubernetes.io/enforce": "privileged"})
	pki := shared.authority
	if err := pki.sign("metrics", identity{user: serverName, names: []string{serverName}}); err != nil {
		t.Fatal(err)
	}
	data := map[string][]byte{"web.yml": []byte(webConfig)}
	for key, file := range map[string]string{"tls.crt": "metrics.crt", "tls.key": "metrics.key"} {
		text, err := os.ReadFile(pki.path(file))
		if err != nil {
			t.Fatal(err)
		}
		data[key] = text
	}
	if _, err := shared.client.CoreV1().Secrets(ns).Create(t.Context(),
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: secret}, Data: data}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	// Ready, so kubelet's own probes get through.
	r := installIn(t, ns, "relay", usualConfig(), values{"metrics": values{"webConfig": values{"existingSecret": secret}}})
	ip := r.pod().Status.PodIP

	rendered, err := run(t.Context(), "helm", "template", r.name, chartDir, "--namespace="+ns, "--set=metrics.podMonitor.enabled=true",
		"--set=metrics.podMonitor.endpoint.scheme=https", "--set=metrics.webConfig.existingSecret="+secret, "--show-only=templates/monitors.yaml")
	if err != nil {
		t.Fatal(err)
	}
	startPrometheus(t, merge(scrapeConfig(t, rendered), values{
		"tls_config": values{"ca_file": pki.path("ca.crt"), "server_name": serverName},
		"basic_auth": values{"username": "prometheus", "password": "scrape-me"},
	}))
	expression := fmt.Sprintf(`rdma_relay_devices{resource=%q,health="healthy",node=%q} == %d`, pool, nodeName, poolSlots)
	eventually(t, "Prometheus has the metrics", func(ctx context.Context) error {
		_, err := query(ctx, expression)
		return err
	})
	for url, want := range map[string]int{
		"http://" + ip + ":9837/metrics": http.StatusBadRequest, // plain HTTP on a port with TLS
		"http://" + ip + ":9838/readyz":  http.StatusOK,
		"http://" + ip + ":9838/metrics": http.StatusForbidden,
		"http://" + ip + ":9838/statusz": http.StatusForbidden,
	} {
		response, err := http.Get(url)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		if response.Body.Close(); response.StatusCode != want {
			t.Errorf("%s answered %s, want %d", url, response.Status, want)
		}
	}
}
