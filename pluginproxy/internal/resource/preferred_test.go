// Tests of GetPreferredAllocation.
//
// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	v1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

// choosing has three slots on each of four devices a, b (node 0), c, d (node 1).
func choosing(t testing.TB, preference string, sharing string) *Resource {
	t.Helper()
	entry := `{"resourceName":"hca","sharing":"` + sharing + `","preferredAllocation":"` + preference + `","selectors":{"vendors":["15b3"]}`
	if sharing != "exclusive" {
		entry += `,"rdmaHcaMax":3`
	}
	var devices []*v1.Device
	for i, name := range "abcd" {
		devices = append(devices, hca(i, numa(int32(i/2)), func(d *v1.Device) { d.Name = string(name) }))
	}
	return build(t, entry+"}", devices...)
}

// long turns a0 into the ID of slot 0 of device a; short does the opposite.
func long(r *Resource, words string) (ids []string) {
	for _, w := range strings.Fields(words) {
		i := strings.IndexByte("abcd", w[0])
		if i < 0 {
			ids = append(ids, w)
			continue
		}
		id := r.hcas[i].id
		if len(w) > 1 {
			id += "-" + w[1:]
		}
		ids = append(ids, id)
	}
	return ids
}

func short(r *Resource, ids []string) string {
	var words []string
	for _, id := range ids {
		base, slot := r.split(id)
		if i, ok := r.byID[base]; ok {
			w := string("abcd"[i])
			if r.cfg.Sharing == "perDevice" {
				w += fmt.Sprint(slot)
			}
			words = append(words, w)
		} else {
			words = append(words, id)
		}
	}
	return strings.Join(words, " ")
}

const allSlots = "a0 a1 a2 b0 b1 b2 c0 c1 c2 d0 d1 d2"

func TestPreferredAllocation(t *testing.T) {
	for name, tc := range map[string]struct {
		preference, sharing, available, must string
		size                                 int
		want                                 string
	}{
		"spread: one":                            {"spread", "perDevice", allSlots, "", 1, "a0"},
		"spread: two on one node":                {"spread", "perDevice", allSlots, "", 2, "a0 b0"},
		"spread: the node that has enough":       {"spread", "perDevice", "a0 a1 a2 c0 d0", "", 2, "c0 d0"},
		"spread: the node of what it has":        {"spread", "perDevice", allSlots, "d1", 2, "d1 c0"},
		"spread: other devices before the same":  {"spread", "perDevice", allSlots, "", 4, "a0 b0 c0 d0"},
		"spread: a second round":                 {"spread", "perDevice", allSlots, "", 6, "a0 b0 c0 d0 a1 b1"},
		"spread: the emptiest device":            {"spread", "perDevice", "a2 b0 b1 c0", "", 1, "b0"},
		"spread: must counts as taken":           {"spread", "perDevice", allSlots, "a0 a1", 4, "a0 a1 b0 c0"},
		"pack: one":                              {"pack", "perDevice", allSlots, "", 1, "a0"},
		"pack: one device":                       {"pack", "perDevice", allSlots, "", 3, "a0 a1 a2"},
		"pack: the fullest device":               {"pack", "perDevice", "a0 a1 a2 b1 c0 c1", "", 1, "c0"},
		"pack: the fullest of one node":          {"pack", "perDevice", "a0 a1 b1", "", 1, "b1"},
		"pack: the device it has":                {"pack", "perDevice", allSlots, "c1", 3, "c1 c0 c2"},
		"pack: then the same node":               {"pack", "perDevice", allSlots, "c1", 5, "c1 c0 c2 d0 d1"},
		"pack: a node that is enough":            {"pack", "perDevice", "a0 c0 c1 d0 d1", "", 4, "c0 c1 d0 d1"},
		"exclusive: two on one node":             {"spread", "exclusive", "a b c d", "", 2, "a b"},
		"exclusive: the node that has enough":    {"spread", "exclusive", "b c d", "", 2, "c d"},
		"exclusive: beside what it has":          {"spread", "exclusive", "a b c d", "c", 2, "c d"},
		"pool: the lowest":                       {"spread", "pool", "2 10 1 0", "", 2, "0 1"},
		"too few: all":                           {"spread", "perDevice", "a0 b0", "", 5, "a0 b0"},
		"none asked":                             {"spread", "perDevice", allSlots, "a0", 0, ""},
		"fewer than nothing":                     {"spread", "perDevice", allSlots, "", -1, ""},
		"more must than asked":                   {"spread", "perDevice", allSlots, "a0 b0 c0", 2, "a0 b0"},
		"doubles count once":                     {"spread", "perDevice", "a0 a0 a0 b0", "b0 b0", 2, "b0 a0"},
		"unknown IDs come last":                  {"spread", "perDevice", "zz a0 0000:99:00.0-0", "", 2, "a0 0000:99:00.0-0"},
		"unknown IDs that must be are kept":      {"spread", "perDevice", "zz a0", "zz", 2, "zz a0"},
		"nothing available":                      {"spread", "perDevice", "", "", 2, ""},
		"nothing available but what must be had": {"spread", "perDevice", "", "a0", 2, "a0"},
	} {
		t.Run(name, func(t *testing.T) {
			r := choosing(t, tc.preference, tc.sharing)
			available := long(r, tc.available)
			if got := short(r, r.Preferred(available, long(r, tc.must), tc.size)); got != tc.want {
				t.Errorf("prefers %q, want %q", got, tc.want)
			}
			// The order of the question doesn't matter.
			slices.Reverse(available)
			if got := short(r, r.Preferred(available, long(r, tc.must), tc.size)); got != tc.want {
				t.Errorf("asked in reverse prefers %q, want %q", got, tc.want)
			}
		})
	}
}

func TestPreferenceIsOfferedWhereSlotsDiffer(t *testing.T) {
	for sharing, want := range map[string]bool{"pool": false, "perDevice": true, "exclusive": true} {
		if got := choosing(t, "spread", sharing).PreferenceAvailable; got != want {
			t.Errorf("%s: %v", sharing, got)
		}
	}
}

// Whatever is asked, the answer has the size, holds what must be, only what is
// available, and nothing twice; spread takes as many devices as can be had.
func TestPreferredAnswersKeepTheirPromises(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, preference := range []string{"spread", "pack"} {
		r := choosing(t, preference, "perDevice")
		all := long(r, allSlots)
		for range 2000 {
			rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
			available := all[:rng.IntN(len(all)+1)]
			must := available[:rng.IntN(len(available)+1)]
			size := rng.IntN(len(all) + 2)
			got := r.Preferred(available, must, size)
			if len(got) != min(size, len(available)) {
				t.Fatalf("%d of %d: %q", size, len(available), got)
			}
			seen := map[string]bool{}
			for _, id := range got {
				if seen[id] || !slices.Contains(available, id) {
					t.Fatalf("%q of %q", got, available)
				}
				seen[id] = true
			}
			for _, id := range must[:min(len(must), size)] {
				if !seen[id] {
					t.Fatalf("%q lacks %q", got, id)
				}
			}
			if preference == "spread" && len(must) == 0 && distinct(r, got) != min(size, distinct(r, available)) {
				t.Fatalf("%d of %q: %q", size, short(r, available), short(r, got))
			}
		}
	}
}

// distinct counts the devices of the slots.
func distinct(r *Resource, ids []string) int {
	bases := map[string]bool{}
	for _, id := range ids {
		base, _ := r.split(id)
		bases[base] = true
	}
	return len(bases)
}
