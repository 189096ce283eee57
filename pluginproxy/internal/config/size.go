// How big the list of a resource can get: kubelet's gRPC client reads messages of
// at most 4 MiB, and a bigger one ends the session for good.
//
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"math"
	"sort"

	"google.golang.org/protobuf/encoding/protowire"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const (
	// MaxListBytes is the biggest ListAndWatchResponse that kubelet reads: gRPC's
	// default for received messages.
	MaxListBytes = 4 << 20
	// MaxIDBytes is the longest device ID that the device plugin API allows.
	MaxIDBytes = 63
	// MaxNUMANode is the highest NUMA node that a hint may name: the kernel's
	// CONFIG_NODES_SHIFT allows no more than 1,024 nodes.
	MaxNUMANode = 1023

	maxInt32 = math.MaxInt32
)

// listBytes is the exact size of the biggest list: all slots unhealthy, the longer
// word, and on the highest NUMA node. The number of devices of a resource that is
// shared per device is not known here: what is counted is one device with the
// longest ID, and resource.Build bounds the rest.
func listBytes(r *Resource) int64 {
	if r.Sharing != SharingPool {
		return int64(r.Max) * SlotBytes(MaxIDBytes, r.TopologyHints)
	}
	var size int64
	// Slots 0…9 have an ID of one byte, 10…99 of two, and so on.
	for digits, first, end := 1, int64(0), int64(10); first < int64(r.Max); digits, first, end = digits+1, end, end*10 {
		size += (min(end, int64(r.Max)) - first) * SlotBytes(digits, r.TopologyHints)
	}
	return size
}

// SlotBytes is the most that one slot with an ID of that length adds to a list: the
// numbers are those of the fields in the device plugin API's api.proto.
func SlotBytes(id int, topology bool) int64 {
	device := field(1, protowire.SizeBytes(id)) + field(2, protowire.SizeBytes(len(pluginapi.Unhealthy)))
	if topology {
		node := field(1, protowire.SizeVarint(MaxNUMANode))
		device += field(3, protowire.SizeBytes(field(1, protowire.SizeBytes(node))))
	}
	return int64(field(1, protowire.SizeBytes(device)))
}

func field(number protowire.Number, value int) int { return protowire.SizeTag(number) + value }

// mostSlots is the highest rdmaHcaMax that fits, everything else as in r.
func mostSlots(r *Resource) int {
	return sort.Search(r.Max, func(n int) bool {
		trial := *r
		trial.Max = n + 1
		return listBytes(&trial) > MaxListBytes
	})
}
