// One scan: list what is there, read each thing by itself, put it together.
//
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"cmp"
	"context"
	"errors"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

// Scan reads the whole host. The snapshot lacks instance and generation, and is
// not to be changed. An error means that the host's trees could not be read, and
// nothing about the devices; a device that can't be read or does not answer is in
// the snapshot with the reason.
func (s *Scanner) Scan(ctx context.Context) (*discoveryv1.Snapshot, error) {
	return s.scan(ctx, Everything())
}

// scan is Scan, but what is known and not stale stands.
func (s *Scanner) scan(ctx context.Context, stale Stale) (*discoveryv1.Snapshot, error) {
	until := time.Now().Add(s.opts.Deadline)
	v, err := openView(s.opts.Root)
	if err != nil {
		return nil, wrap(err)
	}
	defer v.release()

	l, err := s.list(ctx, v, until)
	if err != nil {
		return nil, wrap(err)
	}
	results := s.readDevices(ctx, v, l, until, s.standing(stale))
	if err := cmp.Or(ctx.Err(), wrapStarved(v)); err != nil {
		return nil, err
	}
	s.forget(results)
	s.remember(l, results)
	return assemble(l, results), nil
}

// host is what listing the host gave.
type host struct {
	*listing
	err error
}

// list is view.list by a reader that may hang.
func (s *Scanner) list(ctx context.Context, v *view, until time.Time) (*listing, error) {
	a := s.hosts.do(ctx, v, "", until, func(host) host {
		l, err := v.list(s.opts.NetnsMode)
		return host{l, err}
	})
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case !a.fresh:
		return nil, ErrNotAnswering
	}
	return a.value.listing, a.value.err
}

// key tells things apart: another one under the same name is at another place, or
// at the same place after it was gone.
func (e entry) key() string {
	if path.Base(e.path) == e.name { // as on a host; a recorded tree may have other links
		return e.path
	}
	return e.name + "\x00" + e.path
}

// readDevices reads the RDMA devices and the functions without, except what stands.
func (s *Scanner) readDevices(ctx context.Context, v *view, l *listing, until time.Time, known *standing) []result {
	entries := slices.Concat(l.rdma, l.bare)
	results := make([]result, len(entries))
	parallel(len(entries), func(i int) {
		e := entries[i]
		if a, stands := known.find(e); stands {
			results[i] = result{entry: e, answer: a}
			return
		}
		results[i] = result{entry: e, answer: s.readOne(ctx, v, l, i, e, until)}
	})
	return results
}

// readOne reads the RDMA device or function that is number i of the listing.
func (s *Scanner) readOne(ctx context.Context, v *view, l *listing, i int, e entry, until time.Time) answer[*facts] {
	return s.devices.do(ctx, v, e.key(), until, func(last *facts) (now *facts) {
		if i < len(l.rdma) {
			now = v.readDevice(l, e)
		} else {
			now = v.readBare(l, e)
		}
		if v.sys.Starved() != nil && last != nil {
			return last
		}
		return now
	})
}

// wrapStarved tells why nothing of what was read is to be believed; nil as a rule. A
// device must not look broken because this process may open no more files.
func wrapStarved(v *view) error {
	if err := v.sys.Starved(); err != nil {
		return wrap(err)
	}
	return nil
}

// forget drops what is remembered of things that are gone.
func (s *Scanner) forget(results []result) {
	wanted := make(map[string]bool, len(results))
	for _, r := range results {
		wanted[r.key()] = true
	}
	s.devices.keep(func(key string) bool { return wanted[key] })
}

// netnsMode asks the kernel by RDMA netlink. Kernels without RDMA answer
// EPROTONOSUPPORT, old ones EINVAL or EOPNOTSUPP; the mode is unknown then.
func netnsMode() (discoveryv1.NetnsMode, error) {
	mode, err := netlink.RdmaSystemGetNetnsMode()
	for errors.Is(err, unix.EINTR) {
		mode, err = netlink.RdmaSystemGetNetnsMode()
	}
	switch {
	case err != nil:
		return discoveryv1.NetnsMode_NETNS_MODE_UNSPECIFIED, err
	case strings.EqualFold(mode, "shared"):
		return discoveryv1.NetnsMode_NETNS_MODE_SHARED, nil
	case strings.EqualFold(mode, "exclusive"):
		return discoveryv1.NetnsMode_NETNS_MODE_EXCLUSIVE, nil
	}
	return discoveryv1.NetnsMode_NETNS_MODE_UNSPECIFIED, nil
}
