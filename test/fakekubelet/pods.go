// SPDX-License-Identifier: Apache-2.0

package fakekubelet

// This file holds the admission of a pod: which devices its containers get, in the order of devicesToAllocate in devicemanager/manager.go.

import (
	"context"
	"fmt"
	"slices"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// Pod asks for devices.
type Pod struct {
	UID        string
	Containers []Container
	// NUMANodes is the topology manager's hint; empty means that there is none.
	NUMANodes []int64
}

// Container asks for a number of devices by resource name.
type Container struct {
	Name   string
	Limits map[string]int
}

// Grant is what a container holds of one resource.
type Grant struct {
	Container string
	Resource  string
	DeviceIDs []string // sorted
	// Response is the plugin's answer, which kubelet replays at each later start of the container.
	Response *pluginapi.ContainerAllocateResponse
}

// AllocatePod admits a pod: for each container and resource it chooses healthy devices that no pod holds, those near NUMANodes
// first, asks GetPreferredAllocation where the plugin announces it and there is a choice, and sends one Allocate call. The grants are kept in the
// checkpoint. Where kubelet takes any device, the first by ID is taken here.
//
// An admitted pod may be admitted again, as after a reboot: its devices must still be healthy, and the kept answers are returned without a call.
// When one container can't be served the error is kubelet's admission error and the pod holds nothing.
func (k *Kubelet) AllocatePod(ctx context.Context, pod Pod) ([]Grant, error) {
	k.mu.Lock()
	held := slices.Clone(k.pods[pod.UID])
	k.mu.Unlock()

	var grants []Grant
	defer func() { k.release(grants) }()
	for _, c := range pod.Containers {
		for _, resource := range sortedKeys(c.Limits) {
			i := slices.IndexFunc(held, func(g Grant) bool { return g.Container == c.Name && g.Resource == resource })
			if i >= 0 {
				if err := k.readmit(held[i]); err != nil {
					return nil, err
				}
				grants = append(grants, held[i])
				continue
			}
			g, err := k.grant(ctx, pod, c, resource)
			if err != nil {
				return nil, fmt.Errorf("container %s: %w", c.Name, err)
			}
			if len(g.DeviceIDs) > 0 {
				grants = append(grants, g)
			}
		}
	}
	k.mu.Lock()
	p := k.current
	k.mu.Unlock()
	if p == nil {
		return nil, ErrNotRunning
	}
	k.update(func() { k.pods[pod.UID] = grants })
	return grants, k.saveCheckpoint(p)
}

// RemovePod frees what the pod holds.
func (k *Kubelet) RemovePod(uid string) error {
	p := k.running()
	if p == nil {
		return ErrNotRunning
	}
	k.update(func() { delete(k.pods, uid) })
	return k.saveCheckpoint(p)
}

// Grants returns what the pod holds: what kubelet hands to the runtime at each start of a container.
func (k *Kubelet) Grants(uid string) []Grant {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.pods[uid])
}

// readmit checks that a kept grant can still be used.
func (k *Kubelet) readmit(g Grant) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	healthy, err := k.healthyOf(g.Resource)
	if err != nil {
		return err
	}
	for _, id := range g.DeviceIDs {
		if _, ok := slices.BinarySearch(healthy, id); !ok {
			return fmt.Errorf("previously allocated devices are no longer healthy; cannot allocate unhealthy devices %s", g.Resource)
		}
	}
	return nil
}

// healthyOf returns the healthy devices, sorted, or the admission error of a resource that has none; the caller holds mu.
func (k *Kubelet) healthyOf(resource string) ([]string, error) {
	if k.current == nil {
		return nil, ErrNotRunning
	}
	healthy, ok := k.current.books.healthy[resource]
	if !ok {
		return nil, fmt.Errorf("cannot allocate unregistered device %s", resource)
	}
	if len(healthy) == 0 {
		return nil, fmt.Errorf("no healthy devices present; cannot allocate unhealthy devices %s", resource)
	}
	return healthy, nil
}

// grant chooses devices for one container and asks the plugin for them. On success the IDs stay reserved until release.
func (k *Kubelet) grant(ctx context.Context, pod Pod, c Container, resource string) (Grant, error) {
	need := c.Limits[resource]
	if need == 0 {
		return Grant{}, nil
	}
	ids, err := k.choose(ctx, pod, resource, need)
	if err != nil {
		return Grant{}, err
	}
	g := Grant{Container: c.Name, Resource: resource, DeviceIDs: ids}
	g.Response, err = k.Allocate(ctx, resource, ids...)
	if err != nil {
		k.release([]Grant{g})
		return Grant{}, err
	}
	return g, nil
}

// choose reserves need devices.
func (k *Kubelet) choose(ctx context.Context, pod Pod, resource string, need int) ([]string, error) {
	k.mu.Lock()
	free, err := k.free(resource)
	var list []Device
	if err == nil {
		list = k.current.books.lists[resource]
	}
	k.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if len(free) < need {
		return nil, fmt.Errorf("requested number of devices unavailable for %s. Requested: %d, Available: %d", resource, need, len(free))
	}
	near, rest := byAffinity(free, list, pod.NUMANodes)

	var chosen []string
	ask, candidates := near, slices.Concat(near, rest)
	if need >= len(near) {
		// All near ones are taken; the plugin is asked about the remainder, with those as a must in kubelet's "available plus allocated".
		chosen = slices.Clone(near)
		ask = free
	}
	if len(chosen) < need {
		preferred, err := k.PreferredAllocation(ctx, resource, ask, chosen, need)
		if err != nil && !isNotAnnounced(err) {
			return nil, fmt.Errorf("device plugin GetPreferredAllocation rpc failed with err: %w", err)
		}
		chosen = fill(chosen, preferred, ask, need)
		chosen = fill(chosen, candidates, candidates, need)
	}
	slices.Sort(chosen)

	k.mu.Lock()
	defer k.mu.Unlock()
	if k.reserved[resource] == nil {
		k.reserved[resource] = map[string]struct{}{}
	}
	for _, id := range chosen {
		k.reserved[resource][id] = struct{}{}
	}
	return chosen, nil
}

// free returns the healthy devices that no pod holds or is about to get, sorted; the caller holds mu.
func (k *Kubelet) free(resource string) ([]string, error) {
	healthy, err := k.healthyOf(resource)
	if err != nil {
		return nil, err
	}
	held := k.pods.byResource()[resource]
	var free []string
	for _, id := range healthy {
		_, reserved := k.reserved[resource][id]
		if _, used := slices.BinarySearch(held, id); !used && !reserved {
			free = append(free, id)
		}
	}
	return free, nil
}

// release ends the reservation of the grants' IDs.
func (k *Kubelet) release(grants []Grant) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, g := range grants {
		for _, id := range g.DeviceIDs {
			delete(k.reserved[g.Resource], id)
		}
	}
}
