// A cheap look at the ports. Their state changes without any event of the kernel:
// no uevent at all, and a netlink message only where there is a network device
// and in its name space.
//
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"context"
	"sync/atomic"
	"time"

	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

// Polls tells whether the last scan has found ports, so that Poll has something to
// look at.
func (s *Scanner) Polls() bool { return len(s.polled) > 0 }

// Poll reads the states of the ports that the last scan found, and no more, and
// tells whether a scan would find something else than that one did. A device that
// hangs is passed over.
func (s *Scanner) Poll(ctx context.Context) (changed bool) {
	if !s.Polls() {
		return false
	}
	v, err := openView(s.opts.Root)
	if err != nil {
		return true
	}
	defer v.release()
	var differ atomic.Bool
	parallel(len(s.polled), func(i int) {
		e := s.polled[i]
		s.devices.do(ctx, v, e.key(), time.Time{}, func(last *facts) *facts {
			if last != nil && v.portsDiffer(e, last.device.GetPorts()) {
				differ.Store(true)
			}
			return last
		})
	})
	return differ.Load()
}

func (v *view) portsDiffer(e entry, last []*discoveryv1.Port) bool {
	dir, err := v.sys.OpenDir(e.path)
	if err != nil {
		return true
	}
	defer dir.Close()
	for _, port := range last {
		// A text that can't be read is no state, as it was in the scan.
		text, _ := dir.Text(portPrefix(port.GetNumber()) + "state")
		if state, _ := portState(text); state != port.GetState() {
			return true
		}
	}
	return false
}
