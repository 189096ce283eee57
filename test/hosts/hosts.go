// Package hosts has host trees as users have them: trees built from what they
// published of their machines, and archives that 'discoveryd capture' recorded on real
// kernels. The tests show what both programs make of each: testdata/NAME.txt has the
// facts that discoveryd finds, and what a pod gets with typical configurations.
//
// SPDX-License-Identifier: Apache-2.0
package hosts

import (
	"fmt"

	"github.com/rdma-relay/rdma-relay/test/fakehost"
)

// Host is a host after public facts.
type Host struct {
	// Name is short and stable.
	Name string
	// About says what it is, and which reports (R-numbers) it is about.
	About string
	// Facts are where names, addresses, IDs and files were published. What they leave
	// open is as the kernel's drivers do it.
	Facts []string

	hcas []fakehost.HCA
	nets []fakehost.Net
	// kind is the host of test/fakehost that has the facts already.
	kind string
}

// Make builds the host in dir.
func (h Host) Make(dir string) (*fakehost.Host, error) {
	if h.kind != "" {
		return fakehost.MakeKind(dir, h.kind, fakehost.PlainFiles())
	}
	tree, err := fakehost.New(dir, fakehost.PlainFiles(), fakehost.KernelRelease("6.8.0-45-generic"))
	if err != nil {
		return nil, err
	}
	for _, hca := range h.hcas {
		hca.Complete = true
		if err := tree.Add(hca); err != nil {
			return nil, fmt.Errorf("%s: %w", h.Name, err)
		}
	}
	for _, n := range h.nets {
		if err := tree.AddNet(n); err != nil {
			return nil, fmt.Errorf("%s: %w", h.Name, err)
		}
	}
	return tree, nil
}

// Rates as the kernel prints them.
const (
	ndr400 = "400 Gb/sec (4X NDR)"
	hdr200 = "200 Gb/sec (4X HDR)"
	edr100 = "100 Gb/sec (4X EDR)"
	fdr56  = "56 Gb/sec (4X FDR)"
	edr25  = "25 Gb/sec (1X EDR)"
)

func ib(rate string) fakehost.Port   { return fakehost.Port{LinkLayer: fakehost.InfiniBand, Rate: rate} }
func roce(rate string) fakehost.Port { return fakehost.Port{LinkLayer: fakehost.Ethernet, Rate: rate} }

// down is a port without a link.
func down(p fakehost.Port) fakehost.Port {
	p.State, p.PhysState = fakehost.StateDown, "3: Disabled"
	return p
}

// All are all hosts.
func All() []Host {
	return append(nvidia(), others()...)
}
