// Reading again only the devices that an event or a look was about.
//
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"cmp"
	"context"
	"slices"
	"time"

	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

// scanned is what the last scan found.
type scanned struct {
	*listing
	results []result
	byLink  map[string][]int // results by names of network devices; made when needed
}

// remember keeps what a scan found for those that look at parts of it.
func (s *Scanner) remember(l *listing, results []result) {
	s.last = scanned{listing: l, results: results}
	s.polled = s.polled[:0]
	for i, r := range results {
		if i < len(l.rdma) && r.answer.known && len(r.answer.value.device.GetPorts()) > 0 {
			s.polled = append(s.polled, toPoll(r.entry, r.answer.value.device.GetPorts()))
		}
	}
}

// Devices tells how many RDMA devices the last scan found.
func (s *Scanner) Devices() int {
	if s.last.listing == nil {
		return 0
	}
	return len(s.last.rdma)
}

// Links returns what may differ if the network devices with these names have
// changed: the RDMA devices and functions that they belong to. The network devices
// of pods belong to none.
func (s *Scanner) Links(names []string) (stale Stale) {
	if len(names) == 0 {
		return stale
	}
	if s.last.listing == nil {
		return Everything()
	}
	if s.last.byLink == nil {
		s.last.byLink = indexLinks(s.last.results)
	}
	var unknown []string
	for _, name := range names {
		of, known := s.last.byLink[name]
		for _, i := range of {
			stale.add(s.last.results[i].entry)
		}
		if !known {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) == 0 {
		return stale
	}
	return stale.And(s.newLinks(unknown))
}

// indexLinks finds the results by the names of their network devices, and of the
// bonds that these are in.
func indexLinks(results []result) map[string][]int {
	index := map[string][]int{}
	for i, r := range results {
		if !r.answer.known {
			continue
		}
		d := r.answer.value.device
		nets := slices.Clone(d.GetOtherNetDevices())
		for _, port := range d.GetPorts() {
			nets = append(nets, port.GetNetDevices()...)
		}
		for _, n := range nets {
			for _, name := range []string{n.GetName(), n.GetMaster()} {
				if of := index[name]; name != "" && (len(of) == 0 || of[len(of)-1] != i) {
					index[name] = append(of, i)
				}
			}
		}
	}
	return index
}

// newLinks returns what may differ by these network devices, which the last scan has
// not seen: what is on their PCI functions. One that has gone again is on none.
func (s *Scanner) newLinks(names []string) Stale {
	v, err := openView(s.opts.Root)
	if err != nil {
		return Everything()
	}
	defer v.release()
	places := set{}
	for _, name := range names {
		if !isFileName(name) {
			continue
		}
		p, err := v.netPath(name)
		if err != nil {
			continue
		}
		if parent := v.parentOf(p); locate(parent).pci != "" {
			places[parent] = struct{}{}
		}
	}
	return Places(places)
}

// Reread reads what is stale, and returns the snapshot as Scan does. It reads the
// classes too if a device turns out to have gone.
func (s *Scanner) Reread(ctx context.Context, stale Stale) (*discoveryv1.Snapshot, error) {
	switch {
	case s.last.listing == nil:
		return s.Scan(ctx)
	case stale.all || stale.classes:
		return s.scan(ctx, stale)
	}
	l := s.last.listing
	results := slices.Clone(s.last.results)
	var read []int
	for i, r := range results {
		if stale.keys.has(r.key()) {
			read = append(read, i)
		}
	}
	v, err := openView(s.opts.Root)
	if err != nil {
		return nil, wrap(err)
	}
	defer v.release()
	until := time.Now().Add(s.opts.Deadline)
	parallel(len(read), func(n int) {
		i := read[n]
		results[i].answer = s.readOne(ctx, v, l, i, results[i].entry, until)
	})
	if err := cmp.Or(ctx.Err(), wrapStarved(v)); err != nil {
		return nil, err
	}
	if slices.ContainsFunc(read, func(i int) bool { return results[i].answer.known && results[i].answer.value.gone }) {
		return s.scan(ctx, stale.And(Classes()))
	}
	s.remember(l, results)
	return assemble(l, results), nil
}
