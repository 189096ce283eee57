// How the tests here run helm, and what they make of its output.
//
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"bytes"
	"cmp"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

const chartDir = "../../charts/rdma-relay"

// binary is where helm or one of our programs lies.
func binary(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(cmp.Or(os.Getenv("RDMA_RELAY_BIN"), "../../bin"), name))
	must(t, err)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("%s is not there: run make test-chart, or set RDMA_RELAY_BIN", path)
	}
	return path
}

// run runs a program to its end.
func run(t *testing.T, name string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary(t, name), args...)
	// No settings of whoever runs the tests.
	home := t.TempDir()
	cmd.Env = append(os.Environ(), "HELM_CONFIG_HOME="+home, "HELM_CACHE_HOME="+home, "HELM_DATA_HOME="+home)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

// template renders the chart for Kubernetes 1.37.
func template(t *testing.T, release string, args ...string) (manifests string, err error) {
	t.Helper()
	out, stderr, err := run(t, "helm", append([]string{"template", release, chartDir, "--namespace=rdma-relay", "--kube-version=1.37.0"}, args...)...)
	if err != nil {
		return "", errors.New(stderr)
	}
	return out, nil
}

func mustTemplate(t *testing.T, release string, args ...string) objects {
	t.Helper()
	out, err := template(t, release, args...)
	must(t, err)
	return decode(t, out)
}

// object is a manifest in the three ways in which a test looks at it.
type object struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	typed any // nil for kinds that Kubernetes itself does not have
	text  string
}

type objects []object

// decode splits manifests and decodes them strictly: a field that Kubernetes does not
// have, or that has another type there, fails the test.
func decode(t *testing.T, manifests string) (all objects) {
	t.Helper()
	for text := range strings.SplitSeq("\n"+manifests, "\n---\n") {
		var head struct {
			metav1.TypeMeta
			Metadata metav1.ObjectMeta
		}
		must(t, yaml.Unmarshal([]byte(text), &head))
		if head.Kind == "" {
			continue
		}
		o := object{TypeMeta: head.TypeMeta, ObjectMeta: head.Metadata, text: text}
		if o.typed = typeOf(head.Kind); o.typed != nil {
			if err := yaml.UnmarshalStrict([]byte(text), o.typed); err != nil {
				t.Errorf("%s %s: %v", o.Kind, o.Name, err)
			}
		}
		all = append(all, o)
	}
	return all
}

func typeOf(kind string) any {
	switch kind {
	case "DaemonSet":
		return &appsv1.DaemonSet{}
	case "ConfigMap":
		return &corev1.ConfigMap{}
	case "Namespace":
		return &corev1.Namespace{}
	case "Service":
		return &corev1.Service{}
	case "ServiceAccount":
		return &corev1.ServiceAccount{}
	case "Role":
		return &rbacv1.Role{}
	case "RoleBinding":
		return &rbacv1.RoleBinding{}
	case "NetworkPolicy":
		return &networkingv1.NetworkPolicy{}
	}
	return nil
}

// kind returns the objects of one kind.
func (all objects) kind(kind string) (some objects) {
	for _, o := range all {
		if o.Kind == kind {
			some = append(some, o)
		}
	}
	return some
}

func (all objects) daemonSet(t *testing.T) *appsv1.DaemonSet {
	t.Helper()
	some := all.kind("DaemonSet")
	if len(some) != 1 {
		t.Fatalf("%d DaemonSets, want one", len(some))
	}
	return some[0].typed.(*appsv1.DaemonSet)
}

// pod is the pod of the DaemonSet with its two containers.
func (all objects) pod(t *testing.T) (pod corev1.PodSpec, discovery, proxy corev1.Container) {
	t.Helper()
	pod = all.daemonSet(t).Spec.Template.Spec
	if len(pod.Containers) != 2 || pod.Containers[0].Name != "discoveryd" || pod.Containers[1].Name != "pluginproxy" {
		t.Fatalf("containers %+v", pod.Containers)
	}
	return pod, pod.Containers[0], pod.Containers[1]
}

// flagOf is the value of a flag of a container.
func flagOf(c corev1.Container, name string) (value string, ok bool) {
	for _, arg := range c.Args {
		if v, found := strings.CutPrefix(arg, "--"+name+"="); found {
			return v, true
		}
	}
	return "", false
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
