// Package capture records what a scan reads of a host into a small archive that
// its owner can attach to a bug report: unpacked, it is a host root that
// 'discoveryd list' and 'serve' replay. What tells one host from another is
// replaced on the way (scrub.go).
//
// Which files are recorded is named in walk.go, one list for each kind of thing. That
// a scan reads no others is tested (drift_test.go), so the two can't grow apart. A
// recording of the scan's own reads would be no replacement: a scan reads once what
// several devices have in common, and a scan of the replay may take another of them.
//
// SPDX-License-Identifier: Apache-2.0
package capture

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/rdma-relay/rdma-relay/discoveryd/internal/inventory"
	"github.com/rdma-relay/rdma-relay/discoveryd/internal/show"
	"github.com/rdma-relay/rdma-relay/discoveryd/internal/sysfs"
	"github.com/rdma-relay/rdma-relay/internal/version"
	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

// Options are what Take needs to know.
type Options struct {
	// Root is the directory with sys and dev below it; / on the host itself.
	Root string
	// Deadline is how long the host has to answer the scan, and half of how long it has
	// to be recorded; 0 stands for inventory.DefaultDeadline. What has not answered by
	// then is left out, and a note says so.
	Deadline time.Duration

	// read reads one text; tests make it hang.
	read func(root *sysfs.Root, path string) (string, error)
}

// Recording is a host as recorded, scrubbed already.
type Recording struct {
	// Devices is how many RDMA devices the host has.
	Devices int
	// Files is how many texts, links and device files of it are recorded.
	Files int
	// Replaced counts the different values that were replaced.
	Replaced Replaced
	// Notes say what could not be recorded as it is, sorted.
	Notes []string

	members []member
}

// Take scans the host and records it. The error is inventory.ErrNoHost where there
// is no host, or that of ctx; a host that can't be scanned is recorded all the same.
//
// Where a driver hangs, a goroutine goes on waiting for it when Take has returned.
func Take(ctx context.Context, opts Options) (*Recording, error) {
	if opts.Deadline == 0 {
		opts.Deadline = inventory.DefaultDeadline
	}
	if opts.read == nil {
		opts.read = (*sysfs.Root).Text
	}
	scanner, err := inventory.New(inventory.Options{Root: opts.Root, Deadline: opts.Deadline})
	if err != nil {
		return nil, err
	}
	snapshot, scanErr := scanner.Scan(ctx)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	t := newTree()
	if release := snapshot.GetNode().GetKernelRelease(); release != "" {
		t.file("proc/sys/kernel/osrelease", release)
	}
	if err := walkHost(ctx, opts, t); err != nil {
		return nil, err
	}
	r := &Recording{}
	for _, d := range snapshot.GetDevices() {
		if d.GetName() != "" {
			r.Devices++
		}
	}
	members := t.whole()
	for _, m := range members {
		if m.kind != aDir {
			r.Files++
		}
	}
	var s scrubber
	r.members = s.members(members)
	r.Notes = s.texts(t.notes)
	r.members = append(r.members, member{path: "capture.txt", kind: aFile, text: s.text(about(snapshot, scanErr)) + notes(r.Notes)})
	r.Replaced = s.replaced()
	return r, nil
}

// about is what this version sees of the host: what can't be replayed is at least
// told, such as a driver that hangs.
func about(snapshot *discoveryv1.Snapshot, err error) string {
	text := "Recorded by discoveryd " + version.String() + ". Identifiers are replaced.\n\n"
	if err != nil {
		return text + fmt.Sprintf("The host could not be scanned: %v\n", err)
	}
	if mode := snapshot.GetNode().GetNetnsMode(); mode != discoveryv1.NetnsMode_NETNS_MODE_UNSPECIFIED {
		text += "RDMA network name spaces: " + strings.ToLower(strings.TrimPrefix(mode.String(), "NETNS_MODE_")) + "\n\n"
	}
	var table bytes.Buffer
	wide, err := show.Format("wide")
	if err == nil {
		err = wide(&table, snapshot)
	}
	if err != nil { // neither can fail
		return text + err.Error() + "\n"
	}
	return text + table.String()
}

func notes(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return "\nNot recorded as it is:\n  " + strings.Join(list, "\n  ") + "\n"
}
