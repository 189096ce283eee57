// Checks that several tests share.
//
// SPDX-License-Identifier: Apache-2.0

//go:build cluster

package cluster

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

// await is eventually for a condition that has no more to say.
func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	eventually(t, what, func(context.Context) error {
		if !is() {
			return errors.New("not so")
		}
		return nil
	})
}

// longestGap is how long a node may be without its devices, at most, on whatever busy
// machine: containers are restarted and pods replaced within seconds.
const longestGap = 20 * time.Second

// settled checks that whatever happened between begin and end, the number of devices
// is the full one now, and prints for how long it was not.
func settled(t *testing.T, what string, api, inside history, want int, begin, end time.Time) {
	t.Helper()
	measured(what+"/gap-in-api", api.below(want, end))
	measured(what+"/gap-in-kubelet", inside.below(want, end))
	t.Logf("since %s: API %v; kubelet %v", begin.Format("05.000"), api, inside)
	for where, h := range map[string]history{"API": api, "kubelet": inside} {
		if gap := h.below(want, end); gap > longestGap {
			t.Errorf("%s: fewer than %d devices for %v: %v", where, want, gap, h)
		}
		if len(h) == 0 {
			t.Errorf("%s: nothing was recorded", where)
		} else if last := h[len(h)-1].count; last != want {
			t.Errorf("%s: %d devices at the end, want %d: %v", where, last, want, h)
		}
	}
}

// runningContainers are those of the IDs that containerd runs. Kubelet keeps records of
// dead ones for a while, which are its own business.
func runningContainers(t *testing.T, ids []string) (running []string) {
	t.Helper()
	list, err := shared.ctr(context.Background(), "tasks", "ls", "-q")
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range strings.Fields(list) {
		if slices.Contains(ids, id) {
			running = append(running, id)
		}
	}
	return running
}
