//go:build kubelet136

// What differs between the device managers of Kubernetes 1.37 and 1.36, as 1.36
// has it. kubelet137_test.go is the other half.
//
// SPDX-License-Identifier: Apache-2.0

package k8s

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/pluginmanager/reconciler"
)

// kubeletRelease is the minor release whose device manager is built in.
const kubeletRelease = "1.36"

func noTopology() topologymanager.Manager {
	return topologymanager.NewFakeManager()
}

func capacityOf(m *devicemanager.ManagerImpl) (capacity, allocatable v1.ResourceList) {
	capacity, allocatable, _ = m.GetCapacity()
	return capacity, allocatable
}

func allocatableDevices(m *devicemanager.ManagerImpl) devicemanager.ResourceDeviceInstances {
	return m.GetAllocatableDevices()
}

// disconnect makes kubelet close the connection to a plugin and forget it, as it does
// by itself when it takes the plugin for gone.
func disconnect(_ context.Context, m *devicemanager.ManagerImpl, resource, socket string) {
	m.GetWatcherHandler().DeRegisterPlugin(resource, socket)
}

func allocate(_ context.Context, m *devicemanager.ManagerImpl, pod *v1.Pod) error {
	return m.Allocate(pod, &pod.Spec.Containers[0])
}

func runReconciler(ctx context.Context, r reconciler.Reconciler) { r.Run(ctx.Done()) }
