// Pods that ask for RDMA devices.
//
// SPDX-License-Identifier: Apache-2.0

//go:build cluster

package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// workload is one pod with one container, the program of the folder pod.
type workload struct {
	t    *testing.T
	name string
}

// report is what that program tells; see pod/main.go.
type report struct {
	Boot    string
	Env     []string
	Devices map[string]struct{ Number, Open string }
	Others  map[string]string
}

const workloads = "default" // name space of the pods

// startPod makes a pod that asks for one device of each resource, and does not wait.
func startPod(t *testing.T, name string, resources ...string) *workload {
	t.Helper()
	wants := corev1.ResourceList{}
	for _, r := range resources {
		wants[corev1.ResourceName(r)] = resource.MustParse("1")
	}
	one := int64(1)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
		RestartPolicy:                 corev1.RestartPolicyAlways,
		TerminationGracePeriodSeconds: &one,
		Containers: []corev1.Container{{Name: "c", Image: podImage, ImagePullPolicy: corev1.PullNever, Args: []string{"serve"},
			Resources: corev1.ResourceRequirements{Limits: wants}}},
	}}
	if _, err := shared.client.CoreV1().Pods(workloads).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w := &workload{t: t, name: name}
	t.Cleanup(func() {
		w.t = t // a subtest may have been in its place
		w.remove()
	})
	return w
}

// remove deletes the pod and waits until it is gone. May be called twice.
func (w *workload) remove() {
	w.t.Helper()
	pods := shared.client.CoreV1().Pods(workloads)
	if err := pods.Delete(context.Background(), w.name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		w.t.Error(err)
	}
	eventually(w.t, "pod "+w.name+" is gone", func(ctx context.Context) error {
		_, err := pods.Get(ctx, w.name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(err, errors.New("it is there"))
	})
}

func (w *workload) status() (corev1.PodStatus, error) {
	pod, err := shared.client.CoreV1().Pods(workloads).Get(context.Background(), w.name, metav1.GetOptions{})
	if err != nil {
		return corev1.PodStatus{}, err
	}
	return pod.Status, nil
}

// look waits until the pod runs and asks it what it has; others are numbers of
// devices that it was not given and tries to open.
func (w *workload) look(others ...string) report {
	w.t.Helper()
	var r report
	eventually(w.t, "pod "+w.name+" answers", func(ctx context.Context) error {
		status, err := w.status()
		if err != nil {
			return err
		}
		if status.Phase != corev1.PodRunning {
			return fmt.Errorf("phase %s: %s %s", status.Phase, status.Reason, status.Message)
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+status.PodIP+":8080/?"+url.Values{"other": others}.Encode(), nil)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		r = report{}
		return json.NewDecoder(response.Body).Decode(&r)
	})
	return r
}

// has checks that the container has exactly the files of these HCAs, with their true
// numbers, and may open them.
func (r report) has(t *testing.T, of ...int) {
	t.Helper()
	want, have := deviceFiles(of...), map[string]string{}
	for path, d := range r.Devices {
		have[path] = d.Number
		// No driver is behind these numbers: the kernel got as far as to look for one.
		if d.Open != "ENXIO" && d.Open != "ENODEV" {
			t.Errorf("open %s in the container: %q, want that only the driver is missing", path, d.Open)
		}
	}
	if !maps.Equal(have, want) {
		t.Errorf("the container has\n%v, want\n%v", have, want)
	}
}

// variable checks both variables of a resource.
func (r report) variable(t *testing.T, resource string, of ...int) {
	t.Helper()
	var addresses, names []string
	for _, i := range of {
		addresses, names = append(addresses, pciAddress(i)), append(names, rdmaName(i))
	}
	suffix := strings.ToUpper(strings.NewReplacer("/", "_", "-", "_", ".", "_").Replace(resource))
	for name, want := range map[string][]string{"PCIDEVICE_" + suffix: addresses, "RDMADEVICE_" + suffix: names} {
		if line := name + "=" + strings.Join(want, ","); !slices.Contains(r.Env, line) {
			t.Errorf("the container's environment lacks %s; it has %q", line, r.Env)
		}
	}
}

// refused checks that the devices cgroup kept the container from all that it tried.
func (r report) refused(t *testing.T, others ...string) {
	t.Helper()
	for _, number := range others {
		if r.Others[number] != "EPERM" {
			t.Errorf("open a device with the number %s that was not given: %q, want EPERM", number, r.Others[number])
		}
	}
}

// stays checks that the container is the one that it was, with what it had.
func (w *workload) stays(was report) {
	w.t.Helper()
	is := w.look()
	if is.Boot != was.Boot {
		w.t.Errorf("the container of %s was started again (%s, then %s)", w.name, was.Boot, is.Boot)
	}
	if !maps.Equal(is.Devices, was.Devices) {
		w.t.Errorf("the container of %s has %v, it had %v", w.name, is.Devices, was.Devices)
	}
}
