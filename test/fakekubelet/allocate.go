// SPDX-License-Identifier: Apache-2.0

package fakekubelet

// This file holds the calls to a resource's current endpoint with IDs that the caller chooses; pods.go chooses as kubelet does.

import (
	"context"
	"errors"
	"fmt"
	"time"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// ErrNotAnnounced is returned by calls that the plugin's options do not announce, since kubelet never makes them.
var ErrNotAnnounced = errors.New("not announced in the device plugin options")

// preStartTimeout is KubeletPreStartContainerRPCTimeoutInSecs.
const preStartTimeout = pluginapi.KubeletPreStartContainerRPCTimeoutInSecs * time.Second

// Allocate sends one Allocate call for one container with just these IDs, known or not, and returns the container's answer. Nothing is
// reserved or booked: see AllocatePod for that. Errors of the plugin keep their gRPC status; there is one without a call when no
// endpoint is known or the current one is stopped.
func (k *Kubelet) Allocate(ctx context.Context, resource string, ids ...string) (*pluginapi.ContainerAllocateResponse, error) {
	resp, err := k.AllocateContainers(ctx, resource, ids)
	if err != nil {
		return nil, err
	}
	return resp.GetContainerResponses()[0], nil
}

// AllocateContainers is Allocate for several containers in one call, which the protocol allows and kubelet does not do. An answer
// without any container is an error, as in kubelet.
func (k *Kubelet) AllocateContainers(ctx context.Context, resource string, ids ...[]string) (*pluginapi.AllocateResponse, error) {
	e, err := k.endpoint(resource)
	if err != nil {
		return nil, err
	}
	req := &pluginapi.AllocateRequest{}
	for _, c := range ids {
		req.ContainerRequests = append(req.ContainerRequests, &pluginapi.ContainerAllocateRequest{DevicesIds: c})
	}
	resp, err := e.api.Allocate(ctx, req)
	if err != nil {
		return nil, err
	}
	if len(resp.GetContainerResponses()) == 0 {
		return nil, fmt.Errorf("no containers return in allocation response %v", resp)
	}
	return resp, nil
}

// PreferredAllocation asks the plugin which size of the available IDs to take; ErrNotAnnounced when its options do not offer that.
func (k *Kubelet) PreferredAllocation(ctx context.Context, resource string, available, mustInclude []string, size int) ([]string, error) {
	e, err := k.endpoint(resource)
	if err != nil {
		return nil, err
	}
	if !e.opts.GetGetPreferredAllocationAvailable() {
		return nil, fmt.Errorf("GetPreferredAllocation of %s: %w", resource, ErrNotAnnounced)
	}
	resp, err := e.api.GetPreferredAllocation(ctx, &pluginapi.PreferredAllocationRequest{
		ContainerRequests: []*pluginapi.ContainerPreferredAllocationRequest{{
			AvailableDeviceIDs:   available,
			MustIncludeDeviceIDs: mustInclude,
			AllocationSize:       int32(size),
		}},
	})
	if err != nil {
		return nil, err
	}
	if len(resp.GetContainerResponses()) == 0 {
		return nil, nil
	}
	return resp.GetContainerResponses()[0].GetDeviceIDs(), nil
}

// PreStartContainer makes the call that kubelet makes before each start of a container, with kubelet's 30 s; ErrNotAnnounced when the
// plugin's options do not ask for it.
func (k *Kubelet) PreStartContainer(ctx context.Context, resource string, ids ...string) error {
	e, err := k.endpoint(resource)
	if err != nil {
		return err
	}
	if !e.opts.GetPreStartRequired() {
		return fmt.Errorf("PreStartContainer of %s: %w", resource, ErrNotAnnounced)
	}
	ctx, cancel := context.WithTimeout(ctx, preStartTimeout)
	defer cancel()
	_, err = e.api.PreStartContainer(ctx, &pluginapi.PreStartContainerRequest{DevicesIds: ids})
	return err
}

// endpoint returns the resource's current endpoint unless it is stopped.
func (k *Kubelet) endpoint(resource string) (*endpoint, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.current == nil {
		return nil, ErrNotRunning
	}
	e, ok := k.current.books.endpoints[resource]
	if !ok {
		return nil, fmt.Errorf("unknown Device Plugin %s", resource)
	}
	if !e.stopped.IsZero() {
		return nil, fmt.Errorf("endpoint of %s has been stopped", resource)
	}
	return e, nil
}
