// Package relay is the middle of pluginproxy: whenever the configuration or the
// snapshot changes it computes the resources and hands each to the keeper that
// holds its place at kubelet.
//
// SPDX-License-Identifier: Apache-2.0
package relay

import (
	"context"
	"log/slog"
	"sync"
	"time"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/config"
	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/latest"
	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/register"
	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/resource"
	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/session"
	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/subscribe"
	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

// Sources are what a Relay reads from. Their owner runs them.
type Sources struct {
	Config interface {
		Get() (config.State, <-chan struct{})
	}
	Discovery interface {
		Get() (subscribe.State, <-chan struct{})
	}
	Kubelet *register.Dir
}

// Options are a Relay's settings; the zero value is what a real node wants.
type Options struct {
	// NodeName is what reports call the node.
	NodeName string
	// StaleAfter makes all devices unhealthy when the last completed scan is older.
	// 0: never.
	StaleAfter time.Duration
	// ListInterval is session.Config's Interval.
	ListInterval time.Duration
	// Timing of the keepers; the zero value means register.DefaultTiming.
	Timing register.Timing
	// ObserveAllocation, where set, is told how long each allocation took.
	ObserveAllocation func(time.Duration)
}

// Relay serves the resources. Make it with New, then call Run once. Report may be
// called at any time.
type Relay struct {
	src     Sources
	opts    Options
	log     *slog.Logger
	sockets *register.Names
	left    map[string]time.Time // when a resource that was taken out was let go; Run's own
	journal journal

	mu      sync.Mutex
	serving map[string]*served
	order   []string // names in the order of the configuration
	stale   bool
}

// served is a resource that kubelet knows or is to know.
type served struct {
	keeper *register.Keeper
	offer  *latest.Value[session.Offer]
	stats  *session.Stats
	now    *resource.Resource
	stop   context.CancelFunc
	ended  chan struct{} // closed when the keeper's Run has returned
}

// New returns a Relay that serves nothing yet.
func New(src Sources, opts Options, log *slog.Logger) *Relay {
	if opts.Timing == (register.Timing{}) {
		opts.Timing = register.DefaultTiming
	}
	return &Relay{src: src, opts: opts, log: log, sockets: register.NewNames(),
		left: map[string]time.Time{}, serving: map[string]*served{}}
}

// input is what the resources depend on.
type input struct {
	config   *config.Config
	snapshot *discoveryv1.Snapshot
	stale    bool
}

// Run serves from the first snapshot on until ctx ends. Then it ends all sessions,
// removes its sockets and returns.
func (r *Relay) Run(ctx context.Context) {
	defer r.stopAll()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var (
		applied   input
		resources []*resource.Resource
	)
	first, _ := r.src.Discovery.Get()
	told := seen{lost: first.Problem}
	for {
		cfg, cfgChanged := r.src.Config.Get()
		disc, discChanged := r.src.Discovery.Get()
		if disc.Snapshot != nil {
			now := time.Now()
			in := input{cfg.Config, disc.Snapshot, r.opts.StaleAfter > 0 && disc.Age() >= r.opts.StaleAfter}
			recheck := earliest(resources)
			if in != applied || !recheck.IsZero() && !now.Before(recheck) {
				resources = resource.Build(in.config, in.snapshot,
					resource.Options{Stale: in.stale, Now: now, Previous: resources})
				r.apply(ctx, resources, in.stale)
				applied = in
			}
			timer.Reset(r.next(now, disc, earliest(resources)))
		}
		told = r.note(told, cfg, disc)
		select {
		case <-ctx.Done():
			return
		case <-cfgChanged:
		case <-discChanged:
		case <-timer.C:
		}
	}
}

// next is how long nothing changes by itself: until the snapshot becomes stale or
// a device has been well for long enough.
func (r *Relay) next(now time.Time, disc subscribe.State, recheck time.Time) time.Duration {
	wait := 24 * time.Hour
	if left := r.opts.StaleAfter - disc.Age(); r.opts.StaleAfter > 0 && left > 0 {
		wait = left
	}
	if !recheck.IsZero() {
		wait = min(wait, recheck.Sub(now))
	}
	return wait
}

// earliest is when one of the resources is to be computed again; zero: never.
func earliest(resources []*resource.Resource) (at time.Time) {
	for _, res := range resources {
		if t := res.RecheckAt; !t.IsZero() && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	return at
}

// apply makes these resources the ones that are served. A resource whose name and
// options stay keeps its session.
func (r *Relay) apply(ctx context.Context, resources []*resource.Resource, stale bool) {
	wanted := make(map[string]bool, len(resources))
	order := make([]string, 0, len(resources))
	for _, res := range resources {
		wanted[res.Name] = true
		order = append(order, res.Name)
	}
	var gone []*served
	r.mu.Lock()
	if stale != r.stale {
		r.log.Warn("staleness of the snapshot changed", "stale", stale, "limit", r.opts.StaleAfter)
	}
	r.order, r.stale = order, stale
	for name, s := range r.serving {
		if !wanted[name] {
			delete(r.serving, name)
			gone = append(gone, s)
			r.log.Info("resource removed", "resource", name)
			r.journal.add(KindResource, name, "removed from the configuration")
		}
	}
	for _, res := range resources {
		s := r.serving[res.Name]
		if s != nil && s.now.PreferenceAvailable == res.PreferenceAvailable {
			r.say(s.now, res)
			s.now = res
			s.offer.Set(offer{res})
			continue
		}
		if s != nil {
			// Kubelet asks for the options once, when it connects.
			r.left[res.Name] = time.Now()
			gone = append(gone, s)
			r.log.Info("resource is registered anew: its options have changed", "resource", res.Name)
		}
		r.say(nil, res)
		r.serving[res.Name] = r.serve(ctx, res)
	}
	r.mu.Unlock()
	stop(gone)
	for _, s := range gone {
		if !wanted[s.now.Name] {
			r.left[s.now.Name] = time.Now()
		}
	}
}

// serve starts the keeper of a new resource.
func (r *Relay) serve(ctx context.Context, res *resource.Resource) *served {
	log := r.log.With("resource", res.Name)
	s := &served{
		offer: latest.New[session.Offer](offer{res}),
		stats: &session.Stats{ObserveAllocation: r.opts.ObserveAllocation},
		now:   res,
		ended: make(chan struct{}),
	}
	cfg := session.Config{Offer: s.offer, Stats: s.stats, Log: log, Interval: r.opts.ListInterval}
	s.keeper = register.NewKeeper(res.Name, r.src.Kubelet, r.sockets, cfg, r.opts.Timing, log)
	// Kubelet up to 1.36 stops whatever endpoint is current when it has noticed the
	// end of an older one, so a resource that is put back must not be too quick.
	wait := r.opts.Timing.Disconnect + r.opts.Timing.Settle - time.Since(r.left[res.Name])
	delete(r.left, res.Name)
	ctx, s.stop = context.WithCancel(ctx)
	go func() {
		defer close(s.ended)
		var following sync.WaitGroup
		defer following.Wait()
		following.Go(func() { r.follow(ctx, s) })
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
			s.keeper.Run(ctx)
		case <-ctx.Done():
		}
	}()
	return s
}

// stop ends keepers and waits for them.
func stop(list []*served) {
	for _, s := range list {
		s.stop()
	}
	for _, s := range list {
		<-s.ended
	}
}

func (r *Relay) stopAll() {
	r.mu.Lock()
	all := make([]*served, 0, len(r.serving))
	for _, s := range r.serving {
		all = append(all, s)
	}
	r.mu.Unlock()
	stop(all)
}

// Counts are the numbers of a resource.
type Counts struct{ Devices, Healthy, HCAs, HealthyHCAs int }

func count(res *resource.Resource) (c Counts) {
	for _, d := range res.Devices {
		c.Devices++
		if d.Health == pluginapi.Healthy {
			c.Healthy++
		}
	}
	for _, h := range res.HCAs {
		c.HCAs++
		if h.Healthy {
			c.HealthyHCAs++
		}
	}
	return c
}

// offer makes a resource what a session gives out.
type offer struct{ *resource.Resource }

func (o offer) List() []*pluginapi.Device { return o.Devices }

func (o offer) Options() *pluginapi.DevicePluginOptions {
	return &pluginapi.DevicePluginOptions{GetPreferredAllocationAvailable: o.PreferenceAvailable}
}
