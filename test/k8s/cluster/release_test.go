// The chart as a user installs it: by helm.
//
// SPDX-License-Identifier: Apache-2.0

//go:build cluster

package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

const chartDir = "../../../charts/rdma-relay"

// values are a chart's, nested maps.
type values = map[string]any

// The resources of most tests: a pool of six HCAs, a pool of one of them, and the
// other two, each for one pod.
const (
	pool, poolSlots       = "rdma/hca_pool", 64
	storage, storageSlots = "rdma/hca_storage", 10
	own                   = "rdma/hca_own"
	storageHCA            = 3
)

func poolHCAs() []int { return []int{0, 1, 2, 3, 4, 5} }
func ownHCAs() []int  { return []int{6, 7} }

// rdmaNames are the RDMA names of these HCAs.
func rdmaNames(of []int) (names []string) {
	for _, i := range of {
		names = append(names, rdmaName(i))
	}
	return names
}

func entry(name string, slots int, more values) values {
	e := values{"resourceName": name, "rdmaHcaMax": slots}
	maps.Copy(e, more)
	return e
}

func selecting(key string, of ...string) values { return values{"selectors": values{key: of}} }

// config is the value config of the chart.
func config(entries ...values) values {
	return values{"config": values{"inline": values{"configList": entries}}}
}

func usualConfig() values {
	return config(
		entry("hca_pool", poolSlots, selecting("rdmaDevices", rdmaNames(poolHCAs())...)),
		entry("hca_storage", storageSlots, selecting("ifNames", netName(storageHCA))),
		values{"resourceName": "hca_own", "sharing": "exclusive", "selectors": values{"rdmaDevices": rdmaNames(ownHCAs())}},
	)
}

// release is an installed chart.
type release struct {
	t               *testing.T
	name, namespace string
	values          values
}

// install installs the chart in a name space of its own, and waits as helm --wait
// does: until the DaemonSet is ready.
func install(t *testing.T, name string, v ...values) *release {
	t.Helper()
	return installIn(t, newNamespace(t, name, map[string]string{"pod-security.kubernetes.io/enforce": "privileged"}), name, v...)
}

func installIn(t *testing.T, namespace, name string, v ...values) *release {
	t.Helper()
	r := &release{t: t, name: name, namespace: namespace, values: values{
		"global": values{"imageRegistry": "cluster.local"},
		"host":   values{"sys": filepath.Join(shared.host.root, "sys"), "dev": filepath.Join(shared.host.root, "dev")},
	}}
	r.set(image("e2e"))
	r.set(v...)
	t.Cleanup(func() {
		r.t = t // a subtest may have been in its place
		if t.Failed() {
			t.Log(r.state())
		}
		r.uninstall()
	})
	r.helm("install")
	return r
}

// image names the tag of both images.
func image(tag string) values {
	return values{"discovery": values{"image": values{"tag": tag, "pullPolicy": "Never"}}, "proxy": values{"image": values{"tag": tag, "pullPolicy": "Never"}}}
}

// set lays values over those that are there.
func (r *release) set(v ...values) {
	for _, over := range v {
		r.values = merge(r.values, over)
	}
}

func merge(under, over values) values {
	out := maps.Clone(under)
	for key, value := range over {
		a, okA := out[key].(values)
		b, okB := value.(values)
		if okA && okB {
			out[key] = merge(a, b)
		} else {
			out[key] = value
		}
	}
	return out
}

// upgrade changes values of the release.
func (r *release) upgrade(v ...values) {
	r.t.Helper()
	r.set(v...)
	r.helm("upgrade")
}

func (r *release) helm(verb string) {
	r.t.Helper()
	text, err := yaml.Marshal(r.values)
	if err != nil {
		r.t.Fatal(err)
	}
	file := filepath.Join(r.t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, text, 0o644); err != nil {
		r.t.Fatal(err)
	}
	if _, err := run(context.Background(), "helm", verb, r.name, chartDir, "--namespace="+r.namespace, "--values="+file, "--wait", "--timeout="+patience.String()); err != nil {
		r.t.Fatal(err)
	}
}

// uninstall waits until the pods are gone. May be called twice.
func (r *release) uninstall() {
	r.t.Helper()
	if _, err := run(context.Background(), "helm", "uninstall", r.name, "--namespace="+r.namespace, "--ignore-not-found", "--wait", "--timeout="+patience.String()); err != nil {
		r.t.Error(err)
	}
	eventually(r.t, "all pods of "+r.name+" are gone", func(context.Context) error {
		if pods := r.pods(); len(pods) > 0 {
			return fmt.Errorf("%d are there", len(pods))
		}
		return nil
	})
}

// pods are those of the DaemonSet.
func (r *release) pods() []corev1.Pod {
	r.t.Helper()
	list, err := shared.client.CoreV1().Pods(r.namespace).List(context.Background(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/instance=" + r.name})
	if err != nil {
		r.t.Fatal(err)
	}
	return list.Items
}

// pod is the one pod of the DaemonSet.
func (r *release) pod() corev1.Pod {
	r.t.Helper()
	pods := r.pods()
	if len(pods) != 1 {
		r.t.Fatalf("the release has %d pods, want 1", len(pods))
	}
	return pods[0]
}

// container is the status of one container of the pod.
func (r *release) container(name string) corev1.ContainerStatus {
	r.t.Helper()
	for _, s := range r.pod().Status.ContainerStatuses {
		if s.Name == name {
			return s
		}
	}
	return corev1.ContainerStatus{}
}

// containerID is what the runtime calls it.
func (r *release) containerID(name string) string {
	r.t.Helper()
	return strings.TrimPrefix(r.container(name).ContainerID, "containerd://")
}

// killContainer is kill -9 of a container's first process.
func (r *release) killContainer(name string) {
	r.t.Helper()
	if _, err := shared.ctr(context.Background(), "tasks", "kill", "--signal=SIGKILL", r.containerID(name)); err != nil {
		r.t.Fatal(err)
	}
}

// state is what helps to find why a test has failed.
func (r *release) state() string {
	out, err := run(context.Background(), "kubectl", "--namespace="+r.namespace, "get", "pods,events", "-o", "wide")
	for _, container := range []string{"discoveryd", "pluginproxy"} {
		logs, _ := run(context.Background(), "kubectl", "--namespace="+r.namespace, "logs", "--selector=app.kubernetes.io/instance="+r.name, "--container="+container, "--tail=30")
		out += "\n--- " + container + "\n" + logs
	}
	return fmt.Sprint(out, "\n", err)
}

// run runs helm or kubectl as the cluster's administrator.
func run(ctx context.Context, name string, args ...string) (string, error) {
	path, err := program(name)
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, path, args...)
	home := shared.path("home")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+shared.authority.path("admin.kubeconfig"), "HOME="+home,
		"HELM_CONFIG_HOME="+home, "HELM_CACHE_HOME="+home, "HELM_DATA_HOME="+home)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// newNamespace makes a name space that goes away with the test. Its name is not used
// again, so nobody waits until it is gone.
func newNamespace(t *testing.T, name string, labels map[string]string) string {
	t.Helper()
	ns, err := shared.client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: name + "-", Labels: labels}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := shared.client.CoreV1().Namespaces().Delete(context.Background(), ns.Name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
	return ns.Name
}

// eventually waits for a condition of the cluster.
func eventually(t *testing.T, what string, try func(context.Context) error) {
	t.Helper()
	if err := shared.await(context.Background(), what, try); err != nil {
		t.Fatal(err)
	}
}

// leftovers are files in kubelet's and the runtime's directories that are ours.
func leftovers(t *testing.T) []string {
	t.Helper()
	var ours []string
	for _, dir := range []string{devicePluginsDir, pluginsRegistryDir, cdiDir} {
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		for _, e := range entries {
			if strings.Contains(e.Name(), "rdma-relay") {
				ours = append(ours, filepath.Join(dir, e.Name()))
			}
		}
	}
	slices.Sort(ours)
	return ours
}
