// How many devices of a resource the node has: as the API tells, and as kubelet's
// device manager knows, which is earlier.
//
// SPDX-License-Identifier: Apache-2.0

//go:build cluster

package cluster

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

const (
	devicePluginsDir   = "/var/lib/kubelet/device-plugins"
	pluginsRegistryDir = "/var/lib/kubelet/plugins_registry"
	podResources       = "/var/lib/kubelet/pod-resources/kubelet.sock"
	cdiDir             = "/var/run/cdi"
)

// allocatable is what the API tells; -1 when it tells nothing of the resource.
func allocatable(node *corev1.Node, resource string) int {
	q, ok := node.Status.Allocatable[corev1.ResourceName(resource)]
	if !ok {
		return -1
	}
	return int(q.Value())
}

// awaitAllocatable waits until the API tells that number, and says how long it took.
func awaitAllocatable(t *testing.T, resource string, want int) time.Duration {
	t.Helper()
	begin := time.Now()
	eventually(t, fmt.Sprintf("%s has %d devices", resource, want), func(ctx context.Context) error {
		node, err := shared.client.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if have := allocatable(node, resource); have != want {
			return fmt.Errorf("it has %d", have)
		}
		return nil
	})
	return time.Since(begin)
}

// reading is a number of devices and since when it was seen.
type reading struct {
	at    time.Time
	count int
}

// history is each change of a number.
type history []reading

// below is the longest time in a row with fewer than want devices, up to end.
func (h history) below(want int, end time.Time) (longest time.Duration) {
	var since time.Time
	for _, r := range append(h, reading{end, want}) {
		if r.count < want && since.IsZero() {
			since = r.at
		}
		if r.count >= want && !since.IsZero() {
			longest, since = max(longest, r.at.Sub(since)), time.Time{}
		}
	}
	return longest
}

func (h history) String() string {
	text := ""
	for _, r := range h {
		text += fmt.Sprintf("%s %d, ", r.at.Format("05.000"), r.count)
	}
	return text
}

// recorder collects readings in the background until it is stopped.
type recorder struct {
	mu     sync.Mutex
	seen   history
	cancel context.CancelFunc
	ended  sync.WaitGroup
}

func (r *recorder) note(count int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.seen); n == 0 || r.seen[n-1].count != count {
		r.seen = append(r.seen, reading{time.Now(), count})
	}
}

func (r *recorder) begun() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.seen) > 0
}

// stop ends the recording. May be called twice.
func (r *recorder) stop() history {
	r.cancel()
	r.ended.Wait()
	return r.seen
}

func record(t *testing.T, read func(context.Context, *recorder)) *recorder {
	ctx, cancel := context.WithCancel(context.Background())
	r := &recorder{cancel: cancel}
	r.ended.Go(func() { read(ctx, r) })
	t.Cleanup(func() { r.stop() })
	return r
}

// recordAPI records what the API tells of allocatable devices, from now on.
func recordAPI(t *testing.T, resource string) *recorder {
	t.Helper()
	r := record(t, func(ctx context.Context, r *recorder) {
		for ctx.Err() == nil {
			w, err := shared.client.CoreV1().Nodes().Watch(ctx, metav1.ListOptions{
				FieldSelector: fields.OneTermEqualSelector("metadata.name", nodeName).String(),
				// From what the API server has in memory: to ask etcd first can take seconds.
				ResourceVersion: "0",
			})
			if err != nil {
				continue
			}
			for event := range w.ResultChan() {
				if node, ok := event.Object.(*corev1.Node); ok {
					r.note(allocatable(node, resource))
				}
			}
		}
	})
	await(t, "the API tells of the node", r.begun)
	return r
}

// recordKubelet records what the device manager could allocate from, by asking it
// fifty times a second; it refuses more than a hundred. While it is away nothing is
// recorded.
func recordKubelet(t *testing.T, resource string) *recorder {
	t.Helper()
	conn := podResourcesConn(t)
	return record(t, func(ctx context.Context, r *recorder) {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			got, err := podresources.NewPodResourcesListerClient(conn).GetAllocatableResources(ctx, &podresources.AllocatableResourcesRequest{})
			if err == nil {
				count := 0
				for _, d := range got.Devices {
					if d.ResourceName == resource {
						count += len(d.DeviceIds)
					}
				}
				r.note(count)
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	})
}

func podResourcesConn(t *testing.T) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("unix://"+podResources, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: time.Second}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// deviceIDs are those that kubelet has given to a pod.
func (w *workload) deviceIDs(resource string) []string {
	w.t.Helper()
	conn := podResourcesConn(w.t)
	var list *podresources.ListPodResourcesResponse
	eventually(w.t, "kubelet tells what pods hold", func(ctx context.Context) (err error) {
		list, err = podresources.NewPodResourcesListerClient(conn).List(ctx, &podresources.ListPodResourcesRequest{})
		return err
	})
	var ids []string
	for _, pod := range list.PodResources {
		if pod.Name != w.name || pod.Namespace != workloads {
			continue
		}
		for _, container := range pod.Containers {
			for _, d := range container.Devices {
				if d.ResourceName == resource {
					ids = append(ids, d.DeviceIds...)
				}
			}
		}
	}
	return ids
}
