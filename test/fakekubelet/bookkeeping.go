// SPDX-License-Identifier: Apache-2.0

package fakekubelet

// This file holds what a kubelet process remembers of its plugins, under both book-keepings: the client list of plugin/v1beta1/handler.go and
// the endpoints and device sets of devicemanager/manager.go. It has no lock, no clock and no I/O: the caller holds k.mu.

import (
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// endpoint is where Allocate goes for a resource.
type endpoint struct {
	path    string
	api     pluginapi.DevicePluginClient // nil for one that only the checkpoint knows
	opts    *pluginapi.DevicePluginOptions
	stopped time.Time // zero while the plugin is there
}

type books struct {
	mode Bookkeeping
	// clients has at most one entry for each resource in ByName; in ByPath one for each Register that is not reaped yet, doubles included.
	clients map[string][]*client
	// endpoints has the current endpoint of each resource.
	endpoints map[string]*endpoint
	// store has all endpoints by resource and path; only in ByPath.
	store map[string]map[string]*endpoint

	// lists has what was listed last, whatever became of the plugin.
	lists map[string][]Device
	// healthy and unhealthy have sets of IDs as sorted slices, which States share: they are replaced, never changed.
	healthy, unhealthy map[string][]string
}

// newBooks starts with the resources that the checkpoint names: stopped endpoints, no devices.
func newBooks(mode Bookkeeping, registered []string, now time.Time) *books {
	b := &books{
		mode:      mode,
		clients:   map[string][]*client{},
		endpoints: map[string]*endpoint{},
		store:     map[string]map[string]*endpoint{},
		lists:     map[string][]Device{},
		healthy:   map[string][]string{},
		unhealthy: map[string][]string{},
	}
	for _, name := range registered {
		b.healthy[name], b.unhealthy[name] = nil, nil
		b.endpoints[name] = &endpoint{stopped: now}
	}
	return b
}

// register books a client before it is connected.
func (b *books) register(c *client) {
	if b.mode == ByName {
		b.clients[c.resource] = []*client{c}
		return
	}
	b.clients[c.resource] = append(slices.Clone(b.clients[c.resource]), c)
}

// deregister forgets every client with the key.
func (b *books) deregister(resource, path string) {
	left := slices.DeleteFunc(slices.Clone(b.clients[resource]), func(c *client) bool {
		return b.mode == ByName || c.path == path
	})
	if len(left) == 0 {
		delete(b.clients, resource)
		return
	}
	b.clients[resource] = left
}

// lookup returns the first client with the key, nil when there is none.
func (b *books) lookup(resource, path string) *client {
	for _, c := range b.clients[resource] {
		if b.mode == ByName || c.path == path {
			return c
		}
	}
	return nil
}

// all returns the clients that a graceful stop disconnects.
func (b *books) all() []*client {
	var all []*client
	for _, cs := range b.clients {
		all = append(all, cs...)
	}
	return all
}

// connected makes the endpoint current. In ByPath a path that is still in the store is refused.
func (b *books) connected(resource string, e *endpoint) error {
	if b.mode == ByPath {
		if b.store[resource] == nil {
			b.store[resource] = map[string]*endpoint{}
		}
		if _, held := b.store[resource][e.path]; held {
			return status.Errorf(codes.Unknown, "device plugin already connected: %s", e.path)
		}
		b.store[resource][e.path] = e
	}
	b.endpoints[resource] = e
	return nil
}

// disconnected stops the endpoint of the key: in ByName whichever is current, in ByPath the one of that path, after which an
// arbitrary other one becomes current.
func (b *books) disconnected(resource, path string, now time.Time) {
	if b.mode == ByName {
		if e, ok := b.endpoints[resource]; ok {
			b.markUnhealthy(resource)
			e.stopped = now
		}
		return
	}
	e, ok := b.store[resource][path]
	if !ok {
		return
	}
	e.stopped = now
	delete(b.store[resource], path)
	if len(b.store[resource]) == 0 {
		delete(b.store, resource)
		b.markUnhealthy(resource)
		return
	}
	for _, other := range b.store[resource] {
		b.endpoints[resource] = other
		break
	}
}

// markUnhealthy moves every healthy device of the resource to the unhealthy ones.
func (b *books) markUnhealthy(resource string) {
	b.unhealthy[resource] = set(slices.Concat(b.unhealthy[resource], b.healthy[resource]))
	if _, ok := b.healthy[resource]; ok {
		b.healthy[resource] = nil
	}
}

// listed replaces the devices of the resource, even when its endpoint is stopped or unknown.
func (b *books) listed(resource string, devices []Device) {
	var healthy, unhealthy []string
	for _, d := range devices {
		if d.Healthy() {
			healthy = append(healthy, d.ID)
		} else {
			unhealthy = append(unhealthy, d.ID)
		}
	}
	b.lists[resource], b.healthy[resource], b.unhealthy[resource] = devices, set(healthy), set(unhealthy)
}

// set sorts the IDs and drops doubles, in place.
func set(ids []string) []string {
	slices.Sort(ids)
	return slices.Compact(ids)
}

// expire forgets the resources whose endpoint has been stopped for longer than grace. It returns when the next one is due, the zero
// time when none is.
func (b *books) expire(now time.Time, grace time.Duration) (next time.Time) {
	for name, e := range b.endpoints {
		if e.stopped.IsZero() {
			continue
		}
		due := e.stopped.Add(grace)
		if due.After(now) {
			if next.IsZero() || due.Before(next) {
				next = due
			}
			continue
		}
		delete(b.endpoints, name)
		delete(b.healthy, name)
		delete(b.unhealthy, name)
	}
	return next
}
