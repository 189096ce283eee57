// Package resource is the pure step from a snapshot and a configuration to what
// each resource tells kubelet: which devices serve it, the list of slots with
// their health, the answers to Allocate, and why the other devices are left out.
// It reads no clock, no file and no socket, and takes any snapshot.
//
// SPDX-License-Identifier: Apache-2.0
package resource

import (
	"slices"
	"time"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/config"
	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

// Options are what the result depends on besides the configuration and the snapshot.
type Options struct {
	// Stale makes every slot unhealthy: the snapshot is too old to be believed.
	Stale bool
	// Now is the time for recoverAfter. Zero: every device that is well counts at once.
	Now time.Time
	// Previous is the result of the Build before. Of it come the memory for
	// recoverAfter and lists that have not changed.
	Previous []*Resource
}

// Resource is what one entry of the configuration comes to with one snapshot.
// Nothing in it changes after Build, so it may be shared between goroutines.
type Resource struct {
	// Name is prefix/name.
	Name string
	// Devices are the slots for ListAndWatch in the order of device and number. Two
	// results with the same list share it.
	Devices []*pluginapi.Device
	// PreferenceAvailable: some choices of slots are better than others.
	PreferenceAvailable bool
	// HCAs are the RDMA devices behind the slots, sorted by name.
	HCAs []HCA
	// LeftOut are all other devices of the snapshot, sorted by name.
	LeftOut []LeftOut
	// Shared are those of HCAs that other resources have too.
	Shared []Shared
	// Hints say what is probably not as the operator meant it, such as an interface
	// that doesn't exist. Stable as long as nothing changes.
	Hints []string
	// RecheckAt is when a device that is well again will count by recoverAfter: the
	// result may then differ though the snapshot doesn't. Zero: never.
	RecheckAt time.Time

	cfg    *config.Resource
	hcas   []*facts        // beside HCAs
	byID   map[string]int  // index in hcas by device ID
	shape  []slotGroup     // what Devices is made of
	memory map[string]well // by device ID, with recoverAfter only
}

// HCA is an RDMA device that serves a resource.
type HCA struct {
	Name string `json:"name"`
	// PCIAddress is empty for a virtual device.
	PCIAddress string `json:"pci_address,omitempty"`
	Healthy    bool   `json:"healthy"`
	// Reason says why it isn't healthy, or what limits it though it is.
	Reason string `json:"reason,omitempty"`
}

// LeftOut is a device that doesn't serve a resource.
type LeftOut struct {
	// Device is the RDMA name, or the PCI address where there is none.
	Device string `json:"device"`
	// Rule is the first one that turned it away, in words.
	Rule string `json:"rule"`
}

// Shared is a device that several resources have.
type Shared struct {
	Device string `json:"device"`
	// Resources are the names of all of them, in the order of the configuration.
	Resources []string `json:"resources"`
}

// Build computes the resources, in the order of cfg.Resources. It never fails:
// what can't be used is left out with its reason. It is safe for concurrent use.
func Build(cfg *config.Config, snap *discoveryv1.Snapshot, opts Options) []*Resource {
	all := digest(snap)
	previous := make(map[string]*Resource, len(opts.Previous))
	for _, r := range opts.Previous {
		if r != nil {
			previous[r.Name] = r
		}
	}
	b := &builder{snap: snap, all: all, opts: opts, owners: make(map[*facts]*owners, len(all)), lists: map[listKey][]*pluginapi.Device{}}
	rules := tests()
	resources := make([]*Resource, len(cfg.Resources))
	for i := range cfg.Resources {
		r := &cfg.Resources[i]
		resources[i] = b.resource(newMatcher(r, rules), previous[r.Name()])
	}
	for _, r := range resources {
		b.hints(r, b.shared(r), rules)
	}
	return resources
}

// builder is the work of one Build.
type builder struct {
	snap   *discoveryv1.Snapshot
	all    []*facts
	opts   Options
	owners map[*facts]*owners
	free   owners // of a device that no resource has yet
	lists  map[listKey][]*pluginapi.Device
	seen   *seen // made when a hint first needs it
}

// owners are the resources that have a device. Devices with the same owners share
// one, whatever the number of devices and resources.
type owners struct {
	names     []string
	exclusive bool
	next      map[string]*owners // with one more resource
}

// with gives the owners after one more.
func (o *owners) with(name string, exclusive bool) *owners {
	if o.next == nil {
		o.next = map[string]*owners{}
	}
	if o.next[name] == nil {
		o.next[name] = &owners{names: append(o.names[:len(o.names):len(o.names)], name), exclusive: exclusive}
	}
	return o.next[name]
}

// resource computes one resource but for what depends on the others.
func (b *builder) resource(m *matcher, previous *Resource) *Resource {
	cfg := m.cfg
	r := &Resource{Name: cfg.Name(), cfg: cfg, byID: map[string]int{}, PreferenceAvailable: cfg.Sharing != config.SharingPool}
	leave := func(f *facts, rule string) { r.LeftOut = append(r.LeftOut, LeftOut{f.label, rule}) }
	size := int64(0)
	for _, f := range b.all {
		if rule := m.refuses(f); rule != "" {
			leave(f, rule)
			continue
		}
		// A device that can't be used is claimed too: else one that comes back would
		// be taken away from the resource that has it meanwhile.
		if rule := b.claim(f, r); rule != "" {
			leave(f, rule)
			continue
		}
		if reason := f.unfit(cfg); reason != "" {
			leave(f, unusablePrefix+reason)
			continue
		}
		if cfg.Sharing != config.SharingPool {
			if size += groupBytes(cfg, f); size > config.MaxListBytes {
				leave(f, "the list would be bigger than kubelet reads")
				continue
			}
		}
		r.byID[f.id] = len(r.hcas)
		r.hcas = append(r.hcas, f)
	}
	b.judge(r, previous)
	b.list(r, previous)
	return r
}

const unusablePrefix = "unusable: "

// claim gives the device to the resource, or says why it may not have it. The
// order of the configuration decides: where one of two resources is exclusive, the
// first that selects a device has it for itself.
func (b *builder) claim(f *facts, r *Resource) (refusal string) {
	o := b.owners[f]
	if o == nil {
		o = &b.free
	}
	exclusive := r.cfg.Sharing == config.SharingExclusive
	switch {
	case o.exclusive:
		return "sharing: " + o.names[0] + " has it exclusively"
	case exclusive && len(o.names) > 0:
		return "sharing: " + o.names[0] + " has it already, so it can't be exclusive"
	}
	b.owners[f] = o.with(r.Name, exclusive)
	return ""
}

// shared notes which devices other resources have too, and which those are (R47).
func (b *builder) shared(r *Resource) (others []string) {
	met := map[*owners]bool{}
	for _, f := range r.hcas {
		o := b.owners[f]
		if len(o.names) == 1 {
			continue
		}
		r.Shared = append(r.Shared, Shared{f.label, o.names})
		if met[o] {
			continue
		}
		met[o] = true
		for _, name := range o.names {
			if name != r.Name && !slices.Contains(others, name) {
				others = append(others, name)
			}
		}
	}
	return others
}

// judge finds which devices are healthy.
func (b *builder) judge(r, previous *Resource) {
	memory := newMemory(r.cfg, b.opts, previous)
	r.HCAs = make([]HCA, len(r.hcas))
	for i, f := range r.hcas {
		reason := f.ill(r.cfg.Health)
		if recovering := memory.see(f.id, reason == ""); recovering && reason == "" {
			reason = "it is well again, but not yet for " + time.Duration(r.cfg.RecoverAfter).String()
		}
		if b.opts.Stale {
			reason = "the snapshot is stale: nothing was heard of discoveryd"
		}
		h := HCA{Name: f.name, PCIAddress: f.pci, Healthy: reason == "", Reason: reason}
		if h.Healthy {
			h.Reason = f.note
		}
		r.HCAs[i] = h
	}
	r.memory, r.RecheckAt = memory.end()
}
