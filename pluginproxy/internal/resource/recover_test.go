// Tests of recoverAfter. The clock is an argument.
//
// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"testing"
	"time"

	v1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

func TestADeviceThatWasIllMustBeWellForAWhile(t *testing.T) {
	cfg := conf(t, `{"resourceName":"hca","sharing":"exclusive","recoverAfter":"30s","selectors":{"vendors":["15b3"]}}`)
	start := time.Unix(1000, 0)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	const up, down, gone = "up", "down", "gone"
	type step struct {
		second  int
		port    string
		healthy bool
		recheck int // second; 0: never
	}
	for name, steps := range map[string][]step{
		"well from the start":     {{0, up, true, 0}, {5, up, true, 0}},
		"a short fault":           {{0, up, true, 0}, {5, down, false, 0}, {6, up, false, 36}, {35, up, false, 36}, {36, up, true, 0}, {37, up, true, 0}},
		"ill from the start":      {{0, down, false, 0}, {5, up, false, 35}, {40, up, true, 0}},
		"a fault while it waits":  {{0, up, true, 0}, {5, down, false, 0}, {6, up, false, 36}, {30, down, false, 0}, {31, up, false, 61}, {61, up, true, 0}},
		"gone and back":           {{0, up, true, 0}, {5, gone, false, 0}, {6, up, false, 36}, {36, up, true, 0}},
		"gone while it waits":     {{0, down, false, 0}, {5, up, false, 35}, {10, gone, false, 0}, {20, gone, false, 0}, {25, up, false, 55}},
		"gone for long, plugged":  {{0, up, true, 0}, {5, gone, false, 0}, {34, gone, false, 0}, {35, gone, false, 0}, {100, up, true, 0}},
		"the clock stands still":  {{0, down, false, 0}, {0, up, false, 30}, {0, up, false, 30}},
		"the clock goes backward": {{50, down, false, 0}, {50, up, false, 80}, {10, up, false, 80}, {80, up, true, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			var previous []*Resource
			for i, s := range steps {
				var devices []*v1.Device
				switch s.port {
				case up:
					devices = append(devices, hca(0))
				case down:
					devices = append(devices, hca(0, state(v1.PortState_PORT_STATE_DOWN)))
				}
				rs := Build(cfg, snapshot(devices...), Options{Now: at(s.second), Previous: previous})
				r := rs[0]
				if got := len(r.HCAs) == 1 && r.HCAs[0].Healthy; got != s.healthy {
					t.Errorf("step %d: healthy %v: %+v", i, got, r.HCAs)
				}
				var recheck time.Time
				if s.recheck > 0 {
					recheck = at(s.recheck)
				}
				if !r.RecheckAt.Equal(recheck) {
					t.Errorf("step %d: recheck at %v, want %v", i, r.RecheckAt, recheck)
				}
				previous = rs
			}
		})
	}
}

func TestRecoveryIsToldAndStalenessDoesNotRestartIt(t *testing.T) {
	cfg := conf(t, pool(`,"health":"active","recoverAfter":"10s"`))
	now := time.Unix(1000, 0)
	down, up := snapshot(hca(0, state(v1.PortState_PORT_STATE_DOWN))), snapshot(hca(0))
	rs := Build(cfg, down, Options{Now: now})
	rs = Build(cfg, up, Options{Now: now, Previous: rs})
	if got := rs[0].HCAs[0].Reason; got != "it is well again, but not yet for 10s" {
		t.Errorf("reason %q", got)
	}
	wantIDs(t, rs[0], "-0", "-1", "-2")
	rs = Build(cfg, up, Options{Now: now.Add(5 * time.Second), Previous: rs, Stale: true})
	rs = Build(cfg, up, Options{Now: now.Add(10 * time.Second), Previous: rs})
	wantIDs(t, rs[0], "0", "1", "2")
	// Without a clock there is nothing to wait for.
	wantIDs(t, Build(cfg, up, Options{Previous: rs})[0], "0", "1", "2")
}
