// What dies and comes back: kubelet and both of our containers.
//
// SPDX-License-Identifier: Apache-2.0

//go:build cluster

package cluster

import (
	"testing"
	"time"
)

func TestKubeletKilled(t *testing.T) {
	for _, route := range []string{"register", "watcher"} {
		t.Run(route, func(t *testing.T) {
			r := install(t, "kubelet-"+route, usualConfig(), values{"kubelet": values{"registration": route}})
			awaitAllocatable(t, pool, poolSlots)
			before := startPod(t, "before", pool)
			was := before.look()
			was.has(t, poolHCAs()...)

			api, inside := recordAPI(t, pool), recordKubelet(t, pool)
			shared.kubelet.kill()
			meanwhile := startPod(t, "meanwhile", pool)
			begin := time.Now()
			if err := shared.startKubelet(); err != nil {
				t.Fatal(err)
			}
			// Admitted by the new kubelet, which may ask before the plugin is back: a pod of
			// a Deployment would be replaced then. So this is only told.
			await(t, "the new kubelet has looked at the pod", func() bool {
				status, err := meanwhile.status()
				return err == nil && (status.Phase == "Running" || status.Phase == "Failed")
			})
			status, _ := meanwhile.status()
			measured("kubelet-killed/"+route+"/pod-made-meanwhile", time.Since(begin), status.Phase, status.Reason)
			after := startPod(t, "after", pool)
			after.look().has(t, poolHCAs()...)
			measured("kubelet-killed/"+route+"/new-pod-runs", time.Since(begin))
			awaitAllocatable(t, pool, poolSlots)
			before.stays(was)

			end := time.Now()
			settled(t, "kubelet-killed/"+route, api.stop(), inside.stop(), poolSlots, begin, end)
			if n := r.container("pluginproxy").RestartCount + r.container("discoveryd").RestartCount; n != 0 {
				t.Errorf("our containers were restarted %d times", n)
			}
		})
	}
}

func TestContainerKilled(t *testing.T) {
	r := install(t, "killed", usualConfig())
	awaitAllocatable(t, pool, poolSlots)
	before := startPod(t, "before", pool)
	was := before.look()
	for _, name := range []string{"discoveryd", "pluginproxy"} {
		t.Run(name, func(t *testing.T) {
			r.t = t
			api, inside := recordAPI(t, pool), recordKubelet(t, pool)
			restarts := r.container(name).RestartCount
			begin := time.Now()
			r.killContainer(name)
			if name == "discoveryd" {
				// At once, while the daemon is away.
				w := startPod(t, "meanwhile", pool)
				w.look().has(t, poolHCAs()...)
			}
			await(t, "the container is back", func() bool {
				s := r.container(name)
				return s.RestartCount > restarts && s.Ready
			})
			measured("container-killed/"+name+"/ready-again", time.Since(begin))
			awaitAllocatable(t, pool, poolSlots)
			startPod(t, "after", pool).look().has(t, poolHCAs()...)
			before.stays(was)
			end := time.Now()
			apiSeen, insideSeen := api.stop(), inside.stop()
			settled(t, "container-killed/"+name, apiSeen, insideSeen, poolSlots, begin, end)
			if name == "discoveryd" && (len(apiSeen) != 1 || len(insideSeen) != 1) {
				t.Errorf("the number of devices changed: %v; in kubelet %v", apiSeen, insideSeen)
			}
		})
	}
}
