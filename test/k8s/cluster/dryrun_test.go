// The real API server takes whatever the chart renders: each value set of test/chart.
//
// SPDX-License-Identifier: Apache-2.0

//go:build cluster

package cluster

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Kinds of the Prometheus operator; what is in them only the operator checks.
const monitoringKinds = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: {{plural}}.monitoring.coreos.com, annotations: {api-approved.kubernetes.io: unapproved}}
spec:
  group: monitoring.coreos.com
  scope: Namespaced
  names: {plural: {{plural}}, kind: {{kind}}}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
---
`

func TestServerSideDryRun(t *testing.T) {
	sets, err := filepath.Glob("../../chart/testdata/*.values.yaml")
	if err != nil || len(sets) < 10 {
		t.Fatalf("%d value sets: %v", len(sets), err)
	}
	dir := t.TempDir()
	var crds strings.Builder
	for _, kind := range []string{"PodMonitor", "ServiceMonitor", "PrometheusRule"} {
		one := strings.NewReplacer("{{plural}}", strings.ToLower(kind)+"s", "{{kind}}", kind).Replace(monitoringKinds)
		crds.WriteString(one)
	}
	apply(t, dir, crds.String(), false)
	t.Cleanup(func() {
		if _, err := run(context.Background(), "kubectl", "delete", "--ignore-not-found", "--filename", filepath.Join(dir, "objects.yaml")); err != nil {
			t.Log(err)
		}
	})
	for _, kind := range []string{"podmonitors", "servicemonitors", "prometheusrules"} {
		if _, err := run(t.Context(), "kubectl", "wait", "--for=condition=Established", "crd/"+kind+".monitoring.coreos.com", "--timeout="+patience.String()); err != nil {
			t.Fatal(err)
		}
	}
	ns := newNamespace(t, "dry-run", nil)
	inNamespace := regexp.MustCompile(`\bnamespace: "?([a-z0-9-]+)`)
	for _, set := range sets {
		name := strings.TrimSuffix(filepath.Base(set), ".values.yaml")
		t.Run(name, func(t *testing.T) {
			out, err := run(t.Context(), "helm", "template", name, chartDir, "--namespace="+ns, "--kube-version=1.37.0", "--values="+set)
			if err != nil {
				t.Fatal(err)
			}
			// Those of a namespace that the chart makes: a dry run makes none.
			var made []string
			for _, match := range inNamespace.FindAllStringSubmatch(out, -1) {
				if other := match[1]; other != ns && !slices.Contains(made, other) {
					made = append(made, other)
					if _, err := run(t.Context(), "kubectl", "create", "namespace", other); err != nil && !strings.Contains(err.Error(), "AlreadyExists") {
						t.Fatal(err)
					}
				}
			}
			answer := apply(t, t.TempDir(), out, true)
			if n := strings.Count(answer, "(server dry run)"); n < 2 {
				t.Errorf("only %d objects were tried:\n%s", n, answer)
			}
		})
	}
}

// apply gives manifests to the API server, strictly: an unknown field is an error.
func apply(t *testing.T, dir, manifests string, dry bool) string {
	t.Helper()
	path := filepath.Join(dir, "objects.yaml")
	if err := os.WriteFile(path, []byte(manifests), 0o644); err != nil {
		t.Fatal(err)
	}
	args := []string{"apply", "--validate=strict", "--server-side", "-f", path}
	if dry {
		args = append(args, "--dry-run=server")
	}
	out, err := run(t.Context(), "kubectl", args...)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(out, "serverside-applied (server dry run)", "(server dry run)")
}
