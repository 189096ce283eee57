// Where the chart may be installed, and how often.
//
// SPDX-License-Identifier: Apache-2.0

//go:build cluster

package cluster

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Pod Security Admission: host paths need the level privileged, and nothing else that
// the chart asks for may be refused.
func TestNamespaceWithPodSecurityAdmission(t *testing.T) {
	const enforce = "pod-security.kubernetes.io/enforce"
	t.Run("baseline refuses the host paths and nothing else", func(t *testing.T) {
		ns := newNamespace(t, "baseline", map[string]string{enforce: "baseline"})
		out, err := run(t.Context(), "helm", "install", "relay", chartDir, "--namespace="+ns)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out, "violate PodSecurity") {
			t.Errorf("helm shows no warning of the API server: %s", out)
		}
		eventually(t, "the controller tells why it can't make pods", func(ctx context.Context) error {
			events, err := shared.client.CoreV1().Events(ns).List(ctx, metav1.ListOptions{})
			if err != nil {
				return err
			}
			for _, e := range events.Items {
				if e.Reason == "FailedCreate" {
					if why := e.Message; !strings.Contains(why, "hostPath volumes") || strings.Count(why, "(") != 1 {
						t.Errorf("refused for %s", why)
					}
					return nil
				}
			}
			return errors.New("no such event")
		})
	})
	t.Run("the chart makes a namespace of its own with the label", func(t *testing.T) {
		const made = "relay-made"
		ns := newNamespace(t, "records", nil)
		r := installIn(t, ns, "relay", usualConfig(), values{"namespaceOverride": made, "namespace": values{"create": true}})
		awaitAllocatable(t, pool, poolSlots)
		got, err := shared.client.CoreV1().Namespaces().Get(t.Context(), made, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got.Labels[enforce] != "privileged" {
			t.Errorf("labels %v", got.Labels)
		}
		r.uninstall()
		if left := leftovers(t); len(left) > 0 {
			t.Errorf("left behind: %q", left)
		}
	})
}

// Nodes with different configurations have a release each. Here one node has both
// labels, so that both are at work in the same directories at once.
func TestTwoReleasesSideBySide(t *testing.T) {
	labels := map[string]string{"rdma": "compute", "storage-rdma": "yes"}
	setNodeLabels(t, labels)
	ns := newNamespace(t, "two", map[string]string{"pod-security.kubernetes.io/enforce": "privileged"})
	compute := installIn(t, ns, "compute", values{"nodeSelector": values{"rdma": "compute"}},
		config(entry("hca_compute", 8, selecting("rdmaDevices", rdmaName(0), rdmaName(1)))))
	disks := installIn(t, ns, "disks", values{"nodeSelector": values{"storage-rdma": "yes"}},
		config(entry("hca_disks", 4, selecting("rdmaDevices", rdmaName(7)))))
	elsewhere := installIn(t, ns, "elsewhere", values{"nodeSelector": values{"rdma": "none"}},
		config(entry("hca_elsewhere", 4, selecting("rdmaDevices", rdmaName(7)))))
	awaitAllocatable(t, "rdma/hca_compute", 8)
	awaitAllocatable(t, "rdma/hca_disks", 4)
	if pods := elsewhere.pods(); len(pods) != 0 {
		t.Errorf("a release for other nodes has %d pods here", len(pods))
	}
	both := startPod(t, "both", "rdma/hca_compute", "rdma/hca_disks")
	was := both.look()
	was.has(t, 0, 1, 7)

	inside := recordKubelet(t, "rdma/hca_disks")
	compute.uninstall()
	awaitAllocatable(t, "rdma/hca_compute", 0)
	startPod(t, "still", "rdma/hca_disks").look().has(t, 7)
	if seen := inside.stop(); len(seen) != 1 {
		t.Errorf("the end of one release disturbed the other: %v", seen)
	}
	if n := disks.container("pluginproxy").RestartCount; n != 0 {
		t.Errorf("the other release's pluginproxy was restarted %d times", n)
	}
	both.stays(was)
}

// setNodeLabels gives the node labels for the length of the test.
func setNodeLabels(t *testing.T, labels map[string]string) {
	t.Helper()
	set := func(ctx context.Context, apply func(*corev1.Node)) error {
		node, err := shared.client.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		apply(node)
		_, err = shared.client.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{})
		return err
	}
	eventually(t, "the node has the labels", func(ctx context.Context) error {
		return set(ctx, func(n *corev1.Node) {
			for k, v := range labels {
				n.Labels[k] = v
			}
		})
	})
	t.Cleanup(func() {
		eventually(t, "the node has no such labels", func(ctx context.Context) error {
			return set(ctx, func(n *corev1.Node) {
				for k := range labels {
					delete(n.Labels, k)
				}
			})
		})
	})
}
