// The way from k8s-rdma-shared-dev-plugin, and back: same ConfigMap, same names, same
// IDs, while a pod holds a device.
//
// SPDX-License-Identifier: Apache-2.0

//go:build cluster

package cluster

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// peer stands in for the other plugin: the same IDs, always healthy, every file of
// every HCA of the pool, and nothing else.
type peer struct {
	pluginapi.UnimplementedDevicePluginServer
	slots int
	of    []int
	end   chan struct{}
}

func (p *peer) GetDevicePluginOptions(context.Context, *pluginapi.Empty) (*pluginapi.DevicePluginOptions, error) {
	return &pluginapi.DevicePluginOptions{}, nil
}

func (p *peer) ListAndWatch(_ *pluginapi.Empty, stream grpc.ServerStreamingServer[pluginapi.ListAndWatchResponse]) error {
	list := &pluginapi.ListAndWatchResponse{}
	for i := range p.slots {
		list.Devices = append(list.Devices, &pluginapi.Device{ID: strconv.Itoa(i), Health: pluginapi.Healthy})
	}
	if err := stream.Send(list); err != nil {
		return err
	}
	select {
	case <-p.end:
	case <-stream.Context().Done():
	}
	return nil
}

func (p *peer) Allocate(_ context.Context, request *pluginapi.AllocateRequest) (*pluginapi.AllocateResponse, error) {
	response := &pluginapi.AllocateResponse{}
	for range request.ContainerRequests {
		one := &pluginapi.ContainerAllocateResponse{}
		for path := range deviceFiles(p.of...) {
			one.Devices = append(one.Devices, &pluginapi.DeviceSpec{HostPath: path, ContainerPath: path, Permissions: "rwm"})
		}
		response.ContainerResponses = append(response.ContainerResponses, one)
	}
	return response, nil
}

// startPeer serves and registers a resource; stop ends it as a deleted DaemonSet does.
func startPeer(t *testing.T, resource string, slots int, of ...int) (stop func()) {
	t.Helper()
	p := &peer{slots: slots, of: of, end: make(chan struct{})}
	socket := filepath.Join(devicePluginsDir, "stand-in-"+strconv.FormatInt(time.Now().UnixNano(), 36)+".sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	pluginapi.RegisterDevicePluginServer(server, p)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener)
	}()
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			close(p.end)
			server.Stop()
			<-served
			_ = os.Remove(socket)
		}
	}
	t.Cleanup(stop)
	conn, err := grpc.NewClient("unix://"+filepath.Join(devicePluginsDir, "kubelet.sock"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := pluginapi.NewRegistrationClient(conn).Register(ctx, &pluginapi.RegisterRequest{
		Version: pluginapi.Version, Endpoint: filepath.Base(socket), ResourceName: resource}); err != nil {
		t.Fatal(err)
	}
	return stop
}

// As in the other project's deployment: ConfigMap rdma-devices, key config.json.
const peerConfig = `{
    "periodicUpdateInterval": 300,
    "configList": [{
        "resourceName": "hca_shared_devices_a",
        "rdmaHcaMax": 1000,
        "selectors": {"vendors": ["15b3"], "deviceIDs": ["1017"], "ifNames": ["ens0f0np0", "ens1f0np0"]}
      }, {
        "resourceName": "hca_shared_devices_b",
        "rdmaHcaMax": 500,
        "selectors": {"vendors": ["15b3"], "ifNames": ["ens2f0np0"]}
      }]
}
`

func TestMigration(t *testing.T) {
	const resourceA, slots = "rdma/hca_shared_devices_a", 1000
	of := []int{0, 1}
	ns := newNamespace(t, "kube-rdma", map[string]string{"pod-security.kubernetes.io/enforce": "privileged"})
	if _, err := shared.client.CoreV1().ConfigMaps(ns).Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "rdma-devices"}, Data: map[string]string{"config.json": peerConfig}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	stop := startPeer(t, resourceA, slots, of...)
	awaitAllocatable(t, resourceA, slots)
	w := startPod(t, "of-the-peer", resourceA)
	was := w.look()
	was.has(t, of...)
	ids := w.deviceIDs(resourceA)

	unchanged := func(t *testing.T) {
		t.Helper()
		w.t = t
		w.stays(was)
		if now := w.deviceIDs(resourceA); !slices.Equal(now, ids) {
			t.Errorf("the pod holds the IDs %q, it held %q", now, ids)
		}
	}
	t.Run("swap", func(t *testing.T) {
		api, inside := recordAPI(t, resourceA), recordKubelet(t, resourceA)
		begin := time.Now()
		stop()
		r := installIn(t, ns, "relay", values{"config": values{"existingConfigMap": values{"name": "rdma-devices"}}})
		awaitAllocatable(t, resourceA, slots)
		awaitAllocatable(t, "rdma/hca_shared_devices_b", 500)
		settled(t, "migration/swap", api.stop(), inside.stop(), slots, begin, time.Now())
		unchanged(t)
		next := startPod(t, "of-ours", resourceA)
		next.look().has(t, of...)
		if now := next.deviceIDs(resourceA); slices.Equal(now, ids) {
			t.Errorf("both pods hold %q", now)
		}

		// From here on kubelet's checkpoint must be as good as its memory.
		shared.kubelet.kill()
		if err := shared.startKubelet(); err != nil {
			t.Fatal(err)
		}
		startPod(t, "after-restart", resourceA).look().has(t, of...)
		unchanged(t)
		if pods := r.pods(); len(pods) != 1 || pods[0].Status.ContainerStatuses[0].RestartCount != 0 {
			t.Errorf("our pods: %v", pods)
		}
	})
	t.Run("roll back", func(t *testing.T) {
		// The release is gone with the subtest before.
		if left := leftovers(t); len(left) > 0 {
			t.Errorf("left behind: %q", left)
		}
		awaitAllocatable(t, resourceA, 0)
		startPeer(t, resourceA, slots, of...)
		awaitAllocatable(t, resourceA, slots)
		startPod(t, "of-the-peer-again", resourceA).look().has(t, of...)
		unchanged(t)
	})
}
