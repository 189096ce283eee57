// Package config turns the operator's file into a checked, immutable Config.
// It is the only room that knows the file's shape: the keys of the RDMA shared
// device plugin plus those that rdma-relay adds (docs/config.md). Everything that
// can be said of a file is said at once, each fault with the path of its key.
//
// SPDX-License-Identifier: Apache-2.0
package config

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"
)

// Config is one file's content with all defaults filled in. Nothing in it changes
// after Load or Parse, so it may be shared between goroutines.
type Config struct {
	// Resources in the order of the file; their names differ.
	Resources []Resource
	// Warnings are faults that the file's author should know of and that harm
	// nothing, each with the path of its key.
	Warnings []string
	// Hash names the effective content: 16 hex digits that are equal for two files
	// that ask for the same, whatever their spelling.
	Hash string
}

// Sharing says how the devices of a resource become the slots that kubelet counts.
type Sharing string

const (
	// SharingPool gives Max slots, each with every device of the pool.
	SharingPool Sharing = "pool"
	// SharingPerDevice gives Max slots on each device, each with that device.
	SharingPerDevice Sharing = "perDevice"
	// SharingExclusive gives one slot per device.
	SharingExclusive Sharing = "exclusive"
)

// Health says when a device counts as healthy.
type Health string

const (
	// HealthPresent asks only that the device's files exist.
	HealthPresent Health = "present"
	// HealthActive asks for a port in the state ACTIVE.
	HealthActive Health = "active"
)

// CharDevice is a kind of file below /dev/infiniband.
type CharDevice string

// The kinds of files that a container can be given.
const (
	Uverbs CharDevice = "uverbs"
	RDMACM CharDevice = "rdma_cm"
	Umad   CharDevice = "umad"
	Issm   CharDevice = "issm"
)

// Preference says how several slots for one container are spread over devices.
type Preference string

const (
	// PreferSpread takes as many different devices as there are.
	PreferSpread Preference = "spread"
	// PreferPack takes as few different devices as will do.
	PreferPack Preference = "pack"
)

// Resource is one entry of configList. Its JSON form is the effective
// configuration: read as an entry of configList it gives the same Resource.
type Resource struct {
	// Prefix and ShortName are the two halves of Name.
	Prefix    string `json:"resourcePrefix"`
	ShortName string `json:"resourceName"`
	// Max is the number of slots (SharingPool) or of slots on each device
	// (SharingPerDevice). 0 switches the resource off; always 1 with SharingExclusive.
	Max       int       `json:"rdmaHcaMax"`
	Sharing   Sharing   `json:"sharing"`
	Selectors Selectors `json:"selectors"`
	// Exclude takes out what it matches; the zero value takes out nothing.
	Exclude Selectors `json:"exclude,omitzero"`
	Health  Health    `json:"health"`
	// RecoverAfter is how long a device that was unhealthy must be well before it
	// counts as healthy again.
	RecoverAfter Duration `json:"recoverAfter"`
	// CharDevices are the kinds of files that a container gets, in the order uverbs,
	// rdma_cm, umad, issm; never empty.
	CharDevices []CharDevice `json:"charDevices,omitempty"`
	// Permissions are the device cgroup's: some of r, w, m.
	Permissions string `json:"permissions,omitempty"`
	// TopologyHints tells kubelet the NUMA node of each slot.
	TopologyHints bool       `json:"topologyHints"`
	Preference    Preference `json:"preferredAllocation"`
	// CDI answers with CDI device names instead of device nodes.
	CDI bool `json:"cdi"`
}

// Name is the name that kubelet and pods use: prefix/name.
func (r *Resource) Name() string { return r.Prefix + "/" + r.ShortName }

// Wants tells whether containers of the resource get files of this kind.
func (r *Resource) Wants(kind CharDevice) bool {
	for _, k := range r.CharDevices {
		if k == kind {
			return true
		}
	}
	return false
}

// Duration is a time.Duration whose JSON form is a text such as "30s".
type Duration time.Duration

// MarshalText writes the duration as time.ParseDuration reads it.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// MarshalJSON gives the effective configuration in the shape of a config file.
func (c *Config) MarshalJSON() ([]byte, error) {
	list := make([]effective, len(c.Resources))
	for i, r := range c.Resources {
		list[i] = effective(r)
		if r.CDI { // these keys are refused beside cdi
			list[i].CharDevices, list[i].Permissions = nil, ""
		}
	}
	return json.Marshal(struct {
		ConfigList []effective `json:"configList"`
	}{list})
}

// effective is a Resource without its methods.
type effective Resource

// hash names the effective content of the resources.
func (c *Config) hash() (string, error) {
	text, err := c.MarshalJSON()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8]), nil
}
