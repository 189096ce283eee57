// What is told of changes: one log line for each change of what a resource exposes
// and why, and the journal of all changes.
//
// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/config"
	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/resource"
	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/subscribe"
	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

// say logs what a resource exposes and why, when that has changed. A device that a
// selector turns away is worth no line, unless the resource has none at all.
func (r *Relay) say(before, after *resource.Resource) {
	unusable := unusableOf(after)
	if before != nil && count(before) == count(after) &&
		slices.Equal(before.HCAs, after.HCAs) && slices.Equal(before.Hints, after.Hints) &&
		slices.Equal(unusableOf(before), unusable) &&
		(len(after.HCAs) > 0 || slices.Equal(before.LeftOut, after.LeftOut)) {
		return
	}
	c := count(after)
	var unhealthy []string
	for _, h := range after.HCAs {
		if !h.Healthy {
			unhealthy = append(unhealthy, h.Name+": "+h.Reason)
		}
	}
	told := unusable
	if c.HCAs == 0 {
		told = nil // the hints say it
	}
	facts := []any{"resource", after.Name, "devices", c.Devices, "healthy", c.Healthy, "hcas", c.HCAs, "healthy_hcas", c.HealthyHCAs}
	for _, part := range []struct {
		key  string
		list []string
	}{{"unhealthy", unhealthy}, {"unusable", told}, {"hints", after.Hints}} {
		if len(part.list) > 0 {
			facts = append(facts, part.key, some(part.list))
		}
	}
	r.log.Info("resource", facts...)
	text := "0 devices"
	if c.Devices > 0 {
		text = fmt.Sprintf("%d of %s healthy, %d of %s", c.Healthy, plural(c.Devices, "device"), c.HealthyHCAs, plural(c.HCAs, "HCA"))
	}
	if why := slices.Concat(unhealthy, unusable); len(why) > 0 {
		text += "; " + why[0]
	} else if n := len(after.Hints); c.Devices == 0 && n > 0 {
		text += "; " + after.Hints[n-1]
	}
	r.journal.add(KindResource, after.Name, text)
}

// unusableOf are the devices that a resource selects and can't have, with reasons.
func unusableOf(res *resource.Resource) (list []string) {
	for _, l := range res.LeftOut {
		if reason, ok := strings.CutPrefix(l.Rule, unusablePrefix); ok {
			list = append(list, l.Device+": "+reason)
		}
	}
	return list
}

// some bounds a list in a log line.
func some(list []string) []string {
	const most = 8
	if more := len(list) - most; more > 0 {
		return append(list[:most:most], fmt.Sprintf("and %d more", more))
	}
	return list
}

// seen is what the journal has told of the sources.
type seen struct {
	config    *config.Config
	problem   string
	connected bool
	lost      string // why there is no stream
	snapshot  *discoveryv1.Snapshot
}

// note tells the journal what is new in the sources.
func (r *Relay) note(before seen, cfg config.State, disc subscribe.State) seen {
	now := seen{cfg.Config, cfg.Problem, disc.Connected, disc.Problem, disc.Snapshot}
	switch {
	case now.problem != before.problem && now.problem != "":
		r.journal.add(KindConfig, "", "refused: "+now.problem)
	case now.config != before.config:
		r.journal.add(KindConfig, "", fmt.Sprintf("loaded: hash %s, %s", now.config.Hash, plural(len(now.config.Resources), "resource")))
	case now.problem != before.problem:
		r.journal.add(KindConfig, "", "the file is good again and says what is in force")
	}
	switch {
	case now.connected && !before.connected:
		r.journal.add(KindDiscovery, "", "connected, version "+disc.Status.GetDaemonVersion())
	case !now.connected && (before.connected || now.lost != before.lost):
		r.journal.add(KindDiscovery, "", "not connected: "+now.lost)
	}
	if now.snapshot != before.snapshot {
		r.journal.add(KindSnapshot, "", fmt.Sprintf("generation %d: %s", now.snapshot.GetGeneration(), differences(before.snapshot, now.snapshot)))
	}
	return now
}

// follow tells the journal how a resource stands with kubelet, until ctx ends.
func (r *Relay) follow(ctx context.Context, s *served) {
	name := s.keeper.Resource
	before, _ := s.keeper.State()
	for {
		now, changed := s.keeper.State()
		if now.Registered && !before.Registered {
			r.journal.add(KindRegistration, name, "kubelet accepted the registration")
		}
		switch {
		case now.Session && before.Session && now.Registered && before.Registered && !now.Since.Equal(before.Since):
			r.journal.add(KindSession, name, "ended and began anew")
		case now.Session && !before.Session:
			r.journal.add(KindSession, name, "began")
		case before.Session && !now.Session:
			r.journal.add(KindSession, name, "ended: "+now.Problem)
		case now.Problem != before.Problem && now.Problem != r.src.Kubelet.Pending() && !now.Session && !now.Registered:
			r.journal.add(KindRegistration, name, "no session: "+now.Problem)
		}
		before = now
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}
