// A release is changed while pods use its devices.
//
// SPDX-License-Identifier: Apache-2.0

//go:build cluster

package cluster

import (
	"fmt"
	"testing"
	"time"
)

func TestUpgradeOfTheConfigurationIsLive(t *testing.T) {
	r := install(t, "live", usualConfig())
	awaitAllocatable(t, pool, poolSlots)
	awaitAllocatable(t, storage, storageSlots)
	w := startPod(t, "holds-storage", storage)
	was, pod := w.look(), r.pod()

	inside := recordKubelet(t, storage)
	begin := time.Now()
	r.upgrade(config(
		entry("hca_pool", 2*poolSlots, selecting("rdmaDevices", rdmaNames(poolHCAs())...)),
		entry("hca_storage", storageSlots, selecting("ifNames", netName(storageHCA))),
		entry("hca_new", 5, selecting("ifNames", netName(6))),
	))
	for resource, want := range map[string]int{pool: 2 * poolSlots, "rdma/hca_new": 5, own: 0} {
		awaitAllocatable(t, resource, want)
	}
	measured("upgrade/config", time.Since(begin))
	startPod(t, "of-the-new", "rdma/hca_new").look().has(t, 6)
	if now := r.pod(); now.UID != pod.UID {
		t.Errorf("the pod was replaced: %s, then %s", pod.Name, now.Name)
	}
	for _, name := range []string{"discoveryd", "pluginproxy"} {
		if n := r.container(name).RestartCount; n != 0 {
			t.Errorf("%s was restarted %d times", name, n)
		}
	}
	w.stays(was)
	if seen := inside.stop(); len(seen) != 1 || seen[0].count != storageSlots {
		t.Errorf("%s was disturbed: %v", storage, seen)
	}
}

func TestUpgradeOfTheImage(t *testing.T) {
	for surge := range 2 {
		t.Run(fmt.Sprintf("maxSurge=%d", surge), func(t *testing.T) {
			r := install(t, "image", usualConfig(), values{"updateStrategy": values{"rollingUpdate": values{"maxSurge": surge, "maxUnavailable": 1 - surge}}})
			awaitAllocatable(t, pool, poolSlots)
			w := startPod(t, "before", pool)
			was := w.look()
			api, inside := recordAPI(t, pool), recordKubelet(t, pool)
			begin := time.Now()
			r.upgrade(image("e2e-next"))
			await(t, "the new pod alone is there", func() bool {
				pods := r.pods()
				return len(pods) == 1 && pods[0].Spec.Containers[0].Image == imageRegistry+"/discoveryd:e2e-next"
			})
			what := fmt.Sprintf("upgrade/image/maxSurge=%d", surge)
			measured(what, time.Since(begin))
			awaitAllocatable(t, pool, poolSlots)
			startPod(t, "after", pool).look().has(t, poolHCAs()...)
			w.stays(was)
			end := time.Now()
			settled(t, what, api.stop(), inside.stop(), poolSlots, begin, end)
		})
	}
}
