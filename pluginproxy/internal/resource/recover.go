// recoverAfter: a device that flaps should not come and go at kubelet with it.
//
// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"time"

	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/config"
)

// maxRemembered bounds the devices that are remembered after they have gone.
const maxRemembered = maxDevices

// well is what is remembered of a device.
type well struct {
	counts bool // it counted as healthy
	// since is when it became well, as long as it doesn't count for that; zero while
	// it is ill.
	since time.Time
	// gone is when it was first missed; zero while it is there.
	gone time.Time
}

// memory carries one resource's devices from the last Build to this one.
type memory struct {
	wait    time.Duration
	now     time.Time
	before  map[string]well
	after   map[string]well
	recheck time.Time
}

func newMemory(cfg *config.Resource, opts Options, previous *Resource) *memory {
	m := &memory{wait: time.Duration(cfg.RecoverAfter), now: opts.Now}
	if m.wait <= 0 || m.now.IsZero() {
		m.wait = 0
		return m
	}
	m.after = map[string]well{}
	if previous != nil {
		m.before = previous.memory
	}
	return m
}

// see takes down how a device is now and tells whether it is recovering: well, but
// not for long enough. A device that is seen for the first time counts at once.
func (m *memory) see(id string, isWell bool) (recovering bool) {
	if m.wait == 0 {
		return false
	}
	was, known := m.before[id]
	switch {
	case !isWell:
		m.after[id] = well{}
		return false
	case !known || was.counts && was.gone.IsZero():
		m.after[id] = well{counts: true}
		return false
	}
	since := was.since
	if since.IsZero() || !was.gone.IsZero() {
		since = m.now
	}
	due := since.Add(m.wait)
	if !due.After(m.now) {
		m.after[id] = well{counts: true}
		return false
	}
	m.after[id] = well{since: since}
	if m.recheck.IsZero() || due.Before(m.recheck) {
		m.recheck = due
	}
	return true
}

// end gives what the next Build needs. A device that has gone is remembered for as
// long as one that is there has to be well: one that is plugged in after a longer
// time is a new one.
func (m *memory) end() (after map[string]well, recheck time.Time) {
	for id, was := range m.before {
		if _, there := m.after[id]; there || len(m.after) >= maxRemembered {
			continue
		}
		if was.gone.IsZero() {
			was = well{gone: m.now}
		}
		if m.now.Sub(was.gone) < m.wait {
			m.after[id] = was
		}
	}
	return m.after, m.recheck
}
