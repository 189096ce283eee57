// The cluster by itself: a pod runs.
//
// SPDX-License-Identifier: Apache-2.0

//go:build cluster

package cluster

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestPodRuns(t *testing.T) {
	ctx := t.Context()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default"}, Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "c", Image: podImage, Args: []string{"serve"}}}}}
	if _, err := shared.client.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := shared.await(ctx, "pod runs", func(ctx context.Context) error {
		p, err := shared.client.CoreV1().Pods("default").Get(ctx, "p", metav1.GetOptions{})
		if err == nil && p.Status.Phase != corev1.PodRunning {
			err = context.Canceled
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}
