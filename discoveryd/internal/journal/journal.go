// Package journal says in the log what has changed on the host: one line for each
// change, none for a scan that found nothing new.
//
// SPDX-License-Identifier: Apache-2.0
package journal

import (
	"context"
	"log/slog"
	"strings"

	"google.golang.org/protobuf/proto"

	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

// maxLines bounds the lines for the devices of one snapshot.
const maxLines = 32

// Changes logs the difference between two snapshots; before is nil for the first.
func Changes(log *slog.Logger, before, after *discoveryv1.Snapshot) {
	if why := reasonsOf(after.GetNode().GetReasons()); why != reasonsOf(before.GetNode().GetReasons()) {
		if why == "" {
			log.Info("host is well again")
		} else {
			log.Warn("host is limited", "reasons", why)
		}
	}
	was := byName(before)
	lines := 0
	say := func(level slog.Level, message, name string, args ...any) {
		if lines++; lines <= maxLines {
			log.Log(context.Background(), level, message, append([]any{"device", name}, args...)...)
		}
	}
	for _, d := range after.GetDevices() {
		name := nameOf(d)
		old, known := was[name]
		delete(was, name)
		if known && proto.Equal(old, d) {
			continue
		}
		level, message := slog.LevelInfo, "device changed"
		if !known {
			message = "device found"
		}
		args := []any{"ports", portsOf(d)}
		if why := reasonsOf(d.GetReasons()); why != "" && d.GetName() != "" {
			level, args = slog.LevelWarn, append(args, "reasons", why)
		}
		if d.GetName() == "" {
			level, args = slog.LevelDebug, nil
		}
		say(level, message, name, args...)
	}
	for _, d := range before.GetDevices() {
		if name := nameOf(d); was[name] != nil {
			say(slog.LevelInfo, "device gone", name)
		}
	}
	if lines > maxLines {
		log.Info("more devices changed", "more", lines-maxLines)
	}
	log.Info("snapshot published", "generation", after.GetGeneration(), "rdma_devices", rdma(after), "functions_without_rdma", len(after.GetDevices())-rdma(after))
}

func byName(s *discoveryv1.Snapshot) map[string]*discoveryv1.Device {
	devices := map[string]*discoveryv1.Device{}
	for _, d := range s.GetDevices() {
		devices[nameOf(d)] = d
	}
	return devices
}

// nameOf is the RDMA name, or the PCI address where there is none.
func nameOf(d *discoveryv1.Device) string {
	if d.GetName() != "" {
		return d.GetName()
	}
	return d.GetParent().GetPciAddress()
}

func rdma(s *discoveryv1.Snapshot) int {
	n := 0
	for _, d := range s.GetDevices() {
		if d.GetName() != "" {
			n++
		}
	}
	return n
}

func reasonsOf(reasons []*discoveryv1.Reason) string {
	var all []string
	for _, r := range reasons {
		all = append(all, r.GetMessage())
	}
	return strings.Join(all, " ")
}

// portsOf is the ports' states in words: "active,down".
func portsOf(d *discoveryv1.Device) string {
	var all []string
	for _, p := range d.GetPorts() {
		all = append(all, strings.ToLower(strings.TrimPrefix(p.GetState().String(), "PORT_STATE_")))
	}
	return strings.Join(all, ",")
}
