// The watcher route: kubelet's own plugin manager finds our sockets in its registry,
// asks, and registers them with the device manager.
//
// SPDX-License-Identifier: Apache-2.0

package k8s

import (
	"context"
	"os"
	"testing"
	"time"

	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
	"k8s.io/kubernetes/pkg/kubelet/pluginmanager/cache"
	"k8s.io/kubernetes/pkg/kubelet/pluginmanager/operationexecutor"
	"k8s.io/kubernetes/pkg/kubelet/pluginmanager/pluginwatcher"
	"k8s.io/kubernetes/pkg/kubelet/pluginmanager/reconciler"
)

// watchRegistry is kubelet's plugin manager for a device manager (NewPluginManager and Run
// in pkg/kubelet/pluginmanager, whose package itself would pull in half of kubelet).
func watchRegistry(t testing.TB, k *kubelet, registry string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	wanted := cache.NewDesiredStateOfWorld()
	executor := operationexecutor.NewOperationExecutor(operationexecutor.NewOperationGenerator(nil))
	r := reconciler.NewReconciler(executor, time.Second, wanted, cache.NewActualStateOfWorld())
	r.AddHandler(registerapi.DevicePlugin, k.m.GetWatcherHandler())
	if err := pluginwatcher.NewWatcher(registry, wanted).Start(ctx, ctx.Done()); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		runReconciler(ctx, r)
	}()
	return func() {
		cancel()
		<-ended
	}
}

// startWatchedNode is startNode with the watcher route. restart is that of kubelet as a
// whole.
func startWatchedNode(t *testing.T, resources ...resourceConfig) (n *node, restart func()) {
	t.Helper()
	n = newNode(t, 1, resources...)
	registry := shortDir(t)
	n.ours = registry
	n.flags = []string{"--registration=watcher", "--plugins-registry-dir=" + registry}
	n.kubelet = startKubelet(t, n.plugins)
	stop := watchRegistry(t, n.kubelet, registry)
	t.Cleanup(func() { stop() })
	n.startDiscovery()
	n.startProxy()
	return n, func() {
		stop()
		n.kubelet.restart()
		stop = watchRegistry(t, n.kubelet, registry)
	}
}

func TestWatcherRoute(t *testing.T) {
	n, restart := startWatchedNode(t, pool("hca", 100), pool("other", 7))
	n.kubelet.usable(hca, 100)
	n.kubelet.usable("rdma/other", 7)
	for range 5 {
		restart()
		begin := time.Now()
		n.kubelet.usable(hca, 100)
		n.kubelet.usable("rdma/other", 7)
		t.Logf("usable %v after kubelet's restart", time.Since(begin).Round(time.Millisecond))
	}
	if got := n.sockets(); len(got) != 2 {
		t.Errorf("own sockets %v, want one for each resource", got)
	}
	n.terminate()
	if left := n.sockets(); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// Kubelet never comes back to a socket by itself: another one has to appear.
func TestWatcherRouteAfterALostSession(t *testing.T) {
	n, _ := startWatchedNode(t, pool("hca", 10))
	for name, lose := range map[string]func(socket string){
		"kubelet closes the connection": func(socket string) { disconnect(t.Context(), n.kubelet.m, hca, socket) },
		"own socket is removed": func(socket string) {
			if err := os.Remove(socket); err != nil {
				t.Fatal(err)
			}
		},
	} {
		n.kubelet.usable(hca, 10)
		before := n.sockets()
		if len(before) != 1 {
			t.Fatalf("%s: own sockets %v, want one", name, before)
		}
		lose(before[0])
		begin := time.Now()
		eventually(t, name+": a new socket", true, func() bool {
			now := n.sockets()
			return len(now) == 1 && now[0] != before[0]
		})
		n.kubelet.usable(hca, 10)
		t.Logf("%s: usable again after %v", name, time.Since(begin).Round(time.Millisecond))
		<-time.After(1200 * time.Millisecond) // one more round of kubelet's reconciler
		n.kubelet.usable(hca, 10)
	}
	n.terminate()
}

// A new instance of the plugin comes before the old one goes: kubelet up to 1.36 then
// forgets the new one when the old one's socket is removed.
func TestWatcherRouteNewInstanceBesideTheOld(t *testing.T) {
	n, _ := startWatchedNode(t, pool("hca", 10))
	n.kubelet.usable(hca, 10)
	older := n.proxy
	n.startProxy()
	eventually(t, "both have a socket", 2, func() int { return len(n.sockets()) })
	<-time.After(1200 * time.Millisecond) // kubelet has come to the new one
	begin := time.Now()
	older.terminate()
	<-time.After(1200 * time.Millisecond) // what kubelet does about the old one, it has done
	n.kubelet.usable(hca, 10)
	t.Logf("usable %v after the end of the old one", time.Since(begin).Round(time.Millisecond))
	n.terminate()
}
