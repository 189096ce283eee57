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
	// Taken are those of LeftOut that the resource selects and doesn't get since it or
	// the one that has them is exclusive.
	Taken []Taken
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

// Taken is a device that another resource has for itself, or had before one that
// wants it for itself.
type Taken struct {
	Device string `json:"device"`
	// By is the name of the first resource that has it.
	By string `json:"by"`
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
	b := &builder{snap: snap, all: all, opts: opts, lists: map[listKey][]*pluginapi.Device{}}
	rules := tests()
	resources := make([]*Resource, len(cfg.Resources))
	for i := range cfg.Resources {
		r := &cfg.Resources[i]
		resources[i] = b.resource(i, newMatcher(r, rules), previous[r.Name()])
	}
	for i, r := range resources {
		b.hints(r, b.shared(i, resources), rules)
	}
	return resources
}

// builder is the work of one Build.
type builder struct {
	snap  *discoveryv1.Snapshot
	all   []*facts
	opts  Options
	free  owners // of a device that no resource has yet
	lists map[listKey][]*pluginapi.Device
	seen  *seen // made when a hint first needs it

	// Room for what the next resource gathers.
	taken []*facts
	left  []LeftOut
	both  []Shared
}

// owners are the resources that have a device. Devices with the same owners share
// one, whatever the number of devices and resources.
type owners struct {
	names     []string
	indexes   []int // in the configuration
	exclusive bool
	next      map[int]*owners // with one more resource
}

// with gives the owners after one more.
func (o *owners) with(index int, name string, exclusive bool) *owners {
	if o.next == nil {
		o.next = map[int]*owners{}
	}
	if o.next[index] == nil {
		o.next[index] = &owners{
			names:     append(o.names[:len(o.names):len(o.names)], name),
			indexes:   append(o.indexes[:len(o.indexes):len(o.indexes)], index),
			exclusive: exclusive,
		}
	}
	return o.next[index]
}

// resource computes one resource but for what depends on the others.
func (b *builder) resource(index int, m *matcher, previous *Resource) *Resource {
	cfg := m.cfg
	r := &Resource{Name: cfg.Name(), cfg: cfg, PreferenceAvailable: cfg.Sharing != config.SharingPool}
	b.taken, b.left = b.taken[:0], b.left[:0]
	size := int64(0)
	for _, f := range b.all {
		rule := m.refuses(f)
		if rule == "" {
			// A device that can't be used is claimed too: else one that comes back would
			// be taken away from the resource that has it meanwhile.
			if rule = b.claim(f, index, r); rule != "" {
				r.Taken = append(r.Taken, Taken{f.label, f.owners.names[0]})
			}
		}
		if rule == "" {
			if reason := f.unfit(cfg); reason != "" {
				rule = unusablePrefix + reason
			}
		}
		if rule == "" && cfg.Sharing != config.SharingPool {
			if size += groupBytes(cfg, f); size > config.MaxListBytes {
				rule = "the list would be bigger than kubelet reads"
			}
		}
		if rule == "" {
			b.taken = append(b.taken, f)
		} else {
			b.left = append(b.left, LeftOut{f.label, rule})
		}
	}
	r.hcas, r.LeftOut = slices.Clone(b.taken), slices.Clone(b.left)
	r.index()
	b.judge(r, previous)
	b.list(r, previous)
	return r
}

// index makes the devices be found by their IDs.
func (r *Resource) index() {
	if r.cfg.Sharing == config.SharingPool {
		return
	}
	r.byID = make(map[string]int, len(r.hcas))
	for i, f := range r.hcas {
		r.byID[f.id] = i
	}
}

const unusablePrefix = "unusable: "

// claim gives the device to the resource, or says why it may not have it. The
// order of the configuration decides: where one of two resources is exclusive, the
// first that selects a device has it for itself.
func (b *builder) claim(f *facts, index int, r *Resource) (refusal string) {
	if f.owners == nil {
		f.owners = &b.free
	}
	exclusive := r.cfg.Sharing == config.SharingExclusive
	switch {
	case f.owners.exclusive:
		return "sharing: " + f.owners.names[0] + " has it exclusively"
	case exclusive && len(f.owners.names) > 0:
		return "sharing: " + f.owners.names[0] + " has it already, so it can't be exclusive"
	}
	f.owners = f.owners.with(index, r.Name, exclusive)
	return ""
}

// shared notes which devices other resources have too, and gives the names of
// those (R47).
func (b *builder) shared(index int, resources []*Resource) (others []string) {
	r := resources[index]
	met := map[*owners]bool{}
	shares := make([]bool, len(resources))
	b.both = b.both[:0]
	for _, f := range r.hcas {
		if len(f.owners.names) == 1 {
			continue
		}
		b.both = append(b.both, Shared{f.label, f.owners.names})
		if !met[f.owners] {
			met[f.owners] = true
			for _, i := range f.owners.indexes {
				shares[i] = i != index
			}
		}
	}
	r.Shared = slices.Clone(b.both)
	for i, other := range resources {
		if shares[i] {
			others = append(others, other.Name)
		}
	}
	return others
}

// judge finds which devices are healthy.
func (b *builder) judge(r, previous *Resource) {
	memory := newMemory(r.cfg, b.opts, previous)
	r.HCAs = make([]HCA, len(r.hcas))
	for i, f := range r.hcas {
		reason := f.ill(r.cfg)
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
