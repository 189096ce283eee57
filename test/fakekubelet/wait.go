// SPDX-License-Identifier: Apache-2.0

package fakekubelet

// This file holds the making of snapshots and waiting on them.

import (
	"context"
	"fmt"
	"maps"
	"slices"
)

// Wait returns nil as soon as cond holds; at once when it holds already. It looks again after every change of the node, so nothing that
// lasts is missed, and what lasts shorter than cond takes may be: ask the records (Sessions, Responses, Registrations) for such. It ends with
// an error that shows the last state when ctx ends, and with ErrClosed after Close. cond may call no method of Kubelet that changes it.
func (k *Kubelet) Wait(ctx context.Context, cond func(State) bool) error {
	for {
		s, changed, closed := k.observe()
		if cond(s) {
			return nil
		}
		if closed {
			return ErrClosed
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("condition not met: %w; fake kubelet: %v", ctx.Err(), s)
		}
	}
}

// State returns the node as it is now.
func (k *Kubelet) State() State {
	s, _, _ := k.observe()
	return s
}

// Listed is a condition for Wait: the resource has this capacity and this many allocatable devices.
func Listed(resource string, capacity, allocatable int) func(State) bool {
	return func(s State) bool { return s.Capacity(resource) == capacity && s.Allocatable(resource) == allocatable }
}

// All is a condition for Wait: each of conds holds in the same state.
func All(conds ...func(State) bool) func(State) bool {
	return func(s State) bool {
		for _, c := range conds {
			if !c(s) {
				return false
			}
		}
		return true
	}
}

// observe returns the present state and a channel that is closed when it is not the present one any more.
func (k *Kubelet) observe() (s State, changed <-chan struct{}, closed bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.cached == nil {
		snapshot := k.snapshot()
		k.cached = &snapshot
	}
	return *k.cached, k.changed, k.closed
}

// update changes the node and wakes every waiter.
func (k *Kubelet) update(f func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f()
	k.cached = nil
	close(k.changed)
	k.changed = make(chan struct{})
}

// snapshot copies what may change later; the caller holds mu. Responses and Binds only grow, so their heads are shared.
func (k *Kubelet) snapshot() State {
	s := State{
		Binds:         slices.Clip(k.binds),
		Responses:     slices.Clip(k.responses),
		Resources:     make(map[string]Resource, len(k.nodeStatus)),
		Sessions:      make([]Session, len(k.sessions)),
		Registrations: make([]Registration, len(k.registrations)),
		Allocated:     k.pods.byResource(),
	}
	for i, x := range k.sessions {
		s.Sessions[i] = x.rec
		s.Sessions[i].Blackholed = x.resume != nil
	}
	for i, x := range k.registrations {
		s.Registrations[i] = *x
	}
	if k.current != nil {
		s.Running, s.Boot = true, k.current.boot
	}
	for name := range k.nodeStatus {
		if k.current == nil {
			s.Resources[name] = Resource{}
			continue
		}
		s.Resources[name] = k.current.books.report(name)
	}
	return s
}

// report returns a resource as GetCapacity of devicemanager/manager.go counts it: one without an endpoint has nothing.
func (b *books) report(resource string) Resource {
	e, ok := b.endpoints[resource]
	if !ok {
		return Resource{}
	}
	healthy, unhealthy := b.healthy[resource], b.unhealthy[resource]
	return Resource{
		Capacity:    len(healthy) + len(unhealthy),
		Allocatable: len(healthy),
		Stopped:     !e.stopped.IsZero(),
		Endpoint:    e.path,
		Devices:     b.lists[resource],
		Healthy:     healthy,
		Unhealthy:   unhealthy,
	}
}

func sortedKeys[V any](m map[string]V) []string {
	return slices.Sorted(maps.Keys(m))
}
