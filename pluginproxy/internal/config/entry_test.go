// Tests of the keys of one resource.
//
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

func TestDefaultsAreThePeersMeaning(t *testing.T) {
	cfg := mustParse(t, good(""))
	wantWarning(t, cfg, "")
	got := fmt.Sprintf("%+v", cfg.Resources[0])
	want := fmt.Sprintf("%+v", Resource{
		Prefix: "rdma", ShortName: "hca", Max: 10, Sharing: SharingPool, Selectors: Selectors{Vendors: []string{"15b3"}},
		Health: HealthPresent, CharDevices: []CharDevice{Uverbs, RDMACM, Umad, Issm}, Permissions: "rw",
		TopologyHints: true, Preference: PreferSpread,
	})
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if r := mustParse(t, good(`,"sharing":"perDevice"`)).Resources[0]; r.Health != HealthActive {
		t.Errorf("health of perDevice: %s, want active", r.Health)
	}
}

func TestR58_DevicesKeyBothKeysNeither(t *testing.T) {
	cfg := mustParse(t, entry(`"rdmaHcaMax":1,"devices":["ib1","ib0"]`))
	wantWarning(t, cfg, "configList[0].devices: is deprecated; write it as selectors.ifNames")
	if got := cfg.Resources[0].Selectors.IfNames; !slices.Equal(got, []string{"ib0", "ib1"}) {
		t.Errorf("ifNames: %q", got)
	}
	mustParse(t, entry(`"rdmaHcaMax":1,"devices":[],"selectors":{"ifNames":["ib0"]}`))
	mustParse(t, entry(`"rdmaHcaMax":1,"devices":["ib0"],"selectors":{"vendors":[]}`))
	mustRefuse(t, entry(`"rdmaHcaMax":1,"devices":["ib0"],"selectors":{"vendors":["15b3"]}`),
		"configList[0].devices: can't stand beside selectors; move its names to selectors.ifNames")
	for _, keys := range []string{``, `,"selectors":{}`, `,"selectors":{"vendors":[]}`, `,"devices":[]`, `,"devices":[],"selectors":{"drivers":[],"ifNames":[]}`} {
		got := mustRefuse(t, entry(`"rdmaHcaMax":1`+keys), "configList[0].selectors: is missing or empty and would match every device")
		if strings.Contains(got, "\n") {
			t.Errorf("said more than once: %s", got)
		}
	}
	if got := mustRefuse(t, entry(`"rdmaHcaMax":1,"selectors":[]`), "selectors: is a list, not an object"); strings.Contains(got, "\n") {
		t.Errorf("said more than once: %s", got)
	}
}

func TestR59_UpdateIntervalIsCheckedAndHasNoEffect(t *testing.T) {
	with := func(interval string) string {
		return strings.Replace(good(""), "{", `{"periodicUpdateInterval":`+interval+`,`, 1)
	}
	base := mustParse(t, good(""))
	for _, interval := range []string{"0", "1", "60", "300", "31536000"} {
		cfg := mustParse(t, with(interval))
		wantWarning(t, cfg, "periodicUpdateInterval: has no effect: updates are driven by events")
		if cfg.Hash != base.Hash {
			t.Errorf("an interval of %s changes the configuration", interval)
		}
	}
	for interval, want := range map[string]string{
		"-1":         "is -1; at least 0 is needed",
		`"300"`:      `is the text "300", not a number; write it without quotes`,
		"0.5":        "is 0.5; write a whole number in plain digits",
		"1e9":        "is 1e9; write a whole number in plain digits",
		"1000000000": "is 1000000000; at most 31536000 is allowed",
		"null":       "is empty; give it a value or remove the key",
		"true":       "is true/false, not a number",
	} {
		mustRefuse(t, with(interval), "config.json: periodicUpdateInterval: "+want)
	}
}

func TestR60_WhichRdmaHcaMaxIsTaken(t *testing.T) {
	with := func(n string) string {
		return entry(`"selectors":{"vendors":["15b3"]},"rdmaHcaMax":` + n)
	}
	for _, n := range []int{1, 63, 1000} {
		cfg := mustParse(t, with(strconv.Itoa(n)))
		wantWarning(t, cfg, "")
		if cfg.Resources[0].Max != n {
			t.Errorf("Max is %d, want %d", cfg.Resources[0].Max, n)
		}
	}
	wantWarning(t, mustParse(t, with("0")), "configList[0].rdmaHcaMax: is 0: the resource is switched off")
	for n, want := range map[string]string{
		"-1":                    "is -1; at least 0 is needed",
		"-99999999999999999999": "at least 0 is needed",
		`"63"`:                  `is the text "63", not a number; write it without quotes`,
		"1.5":                   "is 1.5; write a whole number in plain digits",
		"1e30":                  "is 1e30; write a whole number in plain digits",
		"1e3":                   "is 1e3; write a whole number in plain digits",
		"2147483647":            "kubelet reads at most 4194304; at most 153764 slots fit",
		"2147483648":            "is 2147483648; at most 2147483647 is allowed",
		"99999999999999999999":  "at most 2147483647 is allowed",
		"[1]":                   "is a list, not a number",
	} {
		mustRefuse(t, with(n), "configList[0].rdmaHcaMax: ", want)
	}
	mustRefuse(t, entry(`"selectors":{"vendors":["15b3"]}`), "configList[0].rdmaHcaMax: is missing")
	mustRefuse(t, "configList:\n- {resourceName: a, rdmaHcaMax: 1e9, selectors: {vendors: [15b3]}}\n", "rdmaHcaMax: is 1e+09; write a whole number")
	mustParse(t, entry(`"sharing":"exclusive","selectors":{"vendors":["15b3"]}`))
	mustRefuse(t, entry(`"rdmaHcaMax":2,"sharing":"exclusive","selectors":{"vendors":["15b3"]}`), "with sharing: exclusive a device has one slot: remove the key")
}

func TestTheSizeGuardIsExact(t *testing.T) {
	r := &Resource{Sharing: SharingPool, TopologyHints: true, Max: math.MaxInt32}
	r.Max = mostSlots(r)
	worst := &pluginapi.ListAndWatchResponse{}
	for i := range r.Max {
		worst.Devices = append(worst.Devices, &pluginapi.Device{
			ID: strconv.Itoa(i), Health: pluginapi.Unhealthy,
			Topology: &pluginapi.TopologyInfo{Nodes: []*pluginapi.NUMANode{{ID: MaxNUMANode}}},
		})
	}
	size := proto.Size(worst)
	if int64(size) != listBytes(r) || size > MaxListBytes {
		t.Errorf("%d slots are %d bytes, computed %d", r.Max, size, listBytes(r))
	}
	if size += proto.Size(&pluginapi.ListAndWatchResponse{Devices: worst.Devices[r.Max-1:]}); size <= MaxListBytes {
		t.Errorf("one slot more has %d bytes and would fit", size)
	}
	mustRefuse(t, entry(`"rdmaHcaMax":100000,"sharing":"perDevice","selectors":{"vendors":["15b3"]}`), "kubelet reads at most 4194304")
}

func TestTheSizeOfASlotIsThatOfTheEncodedOne(t *testing.T) {
	for _, id := range []int{1, 63, 127, 128} {
		device := &pluginapi.Device{ID: strings.Repeat("0", id), Health: pluginapi.Unhealthy}
		list := &pluginapi.ListAndWatchResponse{Devices: []*pluginapi.Device{device}}
		if got, want := SlotBytes(id, false), int64(proto.Size(list)); got != want {
			t.Errorf("ID of %d bytes: %d, want %d", id, got, want)
		}
		device.Topology = &pluginapi.TopologyInfo{Nodes: []*pluginapi.NUMANode{{ID: MaxNUMANode}}}
		if got, want := SlotBytes(id, true), int64(proto.Size(list)); got != want {
			t.Errorf("ID of %d bytes with a hint: %d, want %d", id, got, want)
		}
	}
}

func TestAddedKeys(t *testing.T) {
	r := mustParse(t, good(`,"sharing":"perDevice","health":"present","recoverAfter":"90s","charDevices":["rdma_cm","uverbs","uverbs"],
		"permissions":"wr","topologyHints":false,"preferredAllocation":"pack","exclude":{"functions":["PF"]}`)).Resources[0]
	if r.Sharing != SharingPerDevice || r.Health != HealthPresent || time.Duration(r.RecoverAfter) != 90*time.Second ||
		!slices.Equal(r.CharDevices, []CharDevice{Uverbs, RDMACM}) || r.Permissions != "rw" || r.TopologyHints ||
		r.Preference != PreferPack || !slices.Equal(r.Exclude.Functions, []string{"pf"}) {
		t.Errorf("%+v", r)
	}
	if !mustParse(t, good(`,"cdi":true`)).Resources[0].CDI {
		t.Error("cdi: true is lost")
	}
	for keys, want := range map[string]string{
		`,"sharing":"shared"`:                  `sharing: "shared" is unknown; allowed are pool, perDevice, exclusive`,
		`,"sharing":"Exclusive"`:               `sharing: "Exclusive" is unknown; did you mean "exclusive"?`,
		`,"health":true`:                       `health: is true/false, not text`,
		`,"recoverAfter":"5"`:                  `recoverAfter: "5" is no duration; write one such as "30s"`,
		`,"recoverAfter":30`:                   `recoverAfter: is the number 30, not text; write it in quotes`,
		`,"recoverAfter":"-1s"`:                `recoverAfter: is -1s; it must lie between 0s and 24h0m0s`,
		`,"charDevices":[]`:                    `charDevices: is empty; a container would get nothing`,
		`,"charDevices":["uverb"]`:             `charDevices[0]: "uverb" is unknown; did you mean "uverbs"?`,
		`,"charDevices":[1]`:                   `charDevices[0]: is a number, not text`,
		`,"permissions":""`:                    `permissions: "" is unknown; write some of r, w and m`,
		`,"permissions":"rwx"`:                 `permissions: "rwx" is unknown`,
		`,"permissions":"rr"`:                  `permissions: "rr" is unknown`,
		`,"topologyHints":"true"`:              `topologyHints: is the text "true", not true/false; write it without quotes`,
		`,"preferredAllocation":"best"`:        `preferredAllocation: "best" is unknown`,
		`,"cdi":true,"permissions":"rw"`:       `permissions: can't stand beside cdi: true`,
		`,"cdi":true,"charDevices":["uverbs"]`: `charDevices: can't stand beside cdi: true`,
		`,"exclude":{"vendor":["15b3"]}`:       `exclude.vendor: unknown key; did you mean "vendors"?`,
		`,"exclude":null`:                      `exclude: is empty; give it a value or remove the key`,
		`,"ifNames":["ib0"]`:                   `ifNames: unknown key here; it belongs into selectors`,
		`,"something":1`:                       `something: unknown key; known are resourceName, resourcePrefix`,
		`,"rdmaHcaMax":11`:                     `rdmaHcaMax: stands twice; keep one`,
	} {
		mustRefuse(t, good(keys), "configList[0]."+want)
	}
	mustRefuse(t, good(`,"`+strings.Repeat("x", 10000)+`":1`), "configList[0]."+strings.Repeat("x", maxQuoted)+"…: unknown key")
}

func TestAKeyThatDiffersOnlyInCaseIsTakenWithAWarning(t *testing.T) {
	cfg := mustParse(t, `{"configlist":[{"resourceName":"a","rdmaHcaMax":1,"selectors":{"ifNames":["ib0"]}}]}`)
	wantWarning(t, cfg, `configList: is written "configlist"; write "configList"`)
	cfg = mustParse(t, `{"configList":[{"resourceName":"a","rdmaHcaMax":1,"selectors":{"ifnames":["ib0"]}}]}`)
	wantWarning(t, cfg, `configList[0].selectors.ifNames: is written "ifnames"`)
	mustRefuse(t, good(`,"RDMAHCAMAX":3`), "configList[0].rdmaHcaMax: stands twice")
}
