// Reading again only the devices that an event or a look was about.
//
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

// Stale is what may differ from the last scan. The zero value is nothing.
type Stale struct {
	all     bool
	devices map[string]struct{} // keys of entries
}

// Everything is the whole host.
func Everything() Stale { return Stale{all: true} }

// Any tells whether it is anything at all.
func (s Stale) Any() bool { return s.all || len(s.devices) > 0 }

// All tells whether it is the whole host.
func (s Stale) All() bool { return s.all }

// And is what is in any of the two.
func (s Stale) And(other Stale) Stale {
	both := Stale{all: s.all || other.all, devices: map[string]struct{}{}}
	for _, from := range []Stale{s, other} {
		for key := range from.devices {
			both.devices[key] = struct{}{}
		}
	}
	return both
}

func (s *Stale) add(e entry) {
	if s.devices == nil {
		s.devices = map[string]struct{}{}
	}
	s.devices[e.key()] = struct{}{}
}

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
	if len(unknown) > 0 && s.newOnFunction(unknown) {
		stale.all = true
	}
	return stale
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

// newOnFunction tells whether any of the network devices, which the last scan has
// not seen, is on a PCI function. One that has gone again is not.
func (s *Scanner) newOnFunction(names []string) bool {
	v, err := openView(s.opts.Root)
	if err != nil {
		return true
	}
	defer v.release()
	return slices.ContainsFunc(names, func(name string) bool {
		if !isFileName(name) {
			return false
		}
		p, err := v.netPath(name)
		if errors.Is(err, unix.ENOENT) {
			return false
		}
		return err != nil || locate(v.parentOf(p)).pci != ""
	})
}

// Reread reads what is stale, and returns the snapshot as Scan does: of the host if
// everything is, or if a device turns out to have gone; otherwise of the last scan
// with the stale devices as they are now.
func (s *Scanner) Reread(ctx context.Context, stale Stale) (*discoveryv1.Snapshot, error) {
	if stale.all || s.last.listing == nil {
		return s.Scan(ctx)
	}
	l := s.last.listing
	results := slices.Clone(s.last.results)
	var read []int
	for i, r := range results {
		if _, is := stale.devices[r.key()]; is {
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
		return s.Scan(ctx)
	}
	s.remember(l, results)
	return assemble(l, results), nil
}
