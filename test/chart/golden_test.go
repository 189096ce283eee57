// Each file of values in testdata renders to the manifests beside it.
//
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

var update = flag.Bool("update", false, "write what is rendered to testdata and README.md")

func TestValuesRenderAsRecorded(t *testing.T) {
	files, err := filepath.Glob("testdata/*.values.yaml")
	must(t, err)
	if len(files) < 10 {
		t.Fatalf("only %d files of values", len(files))
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".values.yaml")
		t.Run(name, func(t *testing.T) {
			got, err := template(t, name, "--values="+file)
			must(t, err)
			checkObjects(t, decode(t, got))

			golden := filepath.Join("testdata", name+".golden.yaml")
			if *update {
				must(t, os.WriteFile(golden, []byte(got), 0o600))
			}
			want, err := os.ReadFile(golden)
			must(t, err)
			if got != string(want) {
				t.Errorf("not as in %s; if that is right: go test -run %s -update .\n%s", golden, t.Name(), firstDifference(string(want), got))
			}
		})
	}
}

// checkObjects is what holds whatever the values.
func checkObjects(t *testing.T, all objects) {
	t.Helper()
	for _, o := range all {
		if len(o.Name) > 63 {
			t.Errorf("%s %s: the name has %d bytes, 63 are allowed", o.Kind, o.Name, len(o.Name))
		}
		if o.Namespace == "" && o.Kind != "Namespace" {
			t.Errorf("%s %s has no namespace", o.Kind, o.Name)
		}
		for key, value := range o.Labels {
			if len(value) > 63 {
				t.Errorf("%s %s: label %s has %d bytes", o.Kind, o.Name, key, len(value))
			}
		}
		if o.Kind == "ConfigMap" && strings.HasSuffix(o.Name, "-config") {
			file := filepath.Join(t.TempDir(), "config.json")
			must(t, os.WriteFile(file, []byte(o.typed.(*corev1.ConfigMap).Data["config.json"]), 0o600))
			if _, stderr, err := run(t, "pluginproxy", "check", "--config="+file); err != nil {
				t.Errorf("pluginproxy refuses the configuration: %s", stderr)
			}
		}
	}
	_, discovery, proxy := all.pod(t)
	for _, c := range []corev1.Container{discovery, proxy} {
		// With --help nothing is started, but a flag that does not exist is refused.
		if _, stderr, err := run(t, c.Name, append(c.Args, "--help")...); err != nil {
			t.Errorf("%s %q: %s", c.Name, c.Args, stderr)
		}
	}
	if text := all.kind("DaemonSet")[0].text; strings.Contains(text, "kubernetes.io/arch") {
		t.Error("R75: the pods are bound to an architecture")
	}
}

func firstDifference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(w), len(g)) {
		if w[i] != g[i] {
			return "want " + w[i] + "\n got " + g[i]
		}
	}
	return "one is longer"
}
