// What kubelet must show, told from the host and the configuration alone.
//
// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rdma-relay/rdma-relay/test/fakekubelet"
)

// hca is an adapter as the host has it.
type hca struct {
	name            string // of the RDMA device now
	present, active bool
}

// model is what is true of the node.
type model struct {
	hcas   []hca
	config settings
}

// counts are a resource's numbers at kubelet.
type counts struct{ capacity, allocatable int }

// resources tells what kubelet must show. A resource that was taken out of the
// configuration keeps its capacity for some minutes, and has nothing to give.
func (m model) resources() map[string]counts {
	present, active := 0, 0
	for _, h := range m.hcas {
		if h.present {
			present++
			if h.active {
				active++
			}
		}
	}
	var pool counts
	if present > 0 {
		pool = counts{m.config.Pool, m.config.Pool}
	}
	want := map[string]counts{
		"rdma/pool": pool,
		"rdma/each": {present * m.config.Each, active * m.config.Each},
	}
	if m.config.Third {
		want["rdma/third"] = counts{present, present}
	}
	return want
}

// wrong says what of the state is not as it must be; it is empty when all is.
func (m model) wrong(s fakekubelet.State) string {
	var all []string
	want := m.resources()
	for name, w := range want {
		if got := (counts{s.Capacity(name), s.Allocatable(name)}); got != w {
			all = append(all, fmt.Sprintf("%s: capacity and allocatable %v, want %v", name, got, w))
		}
		if live := len(s.LiveSessions(name)); live != 1 {
			all = append(all, fmt.Sprintf("%s: %d live sessions", name, live))
		}
	}
	if _, wanted := want["rdma/third"]; !wanted && s.Allocatable("rdma/third") > 0 {
		all = append(all, "rdma/third: allocatable though it is in no configuration")
	}
	return strings.Join(all, "; ")
}

// settle waits until kubelet shows what it must, and tells how long that took.
func (n *node) settle(bound time.Duration) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(n.t.Context(), bound)
	defer cancel()
	begin := time.Now()
	if err := n.kubelet.Wait(ctx, func(s fakekubelet.State) bool { return s.Running && n.want.wrong(s) == "" }); err != nil {
		return 0, fmt.Errorf("not right within %v: %s (%w)", bound, n.want.wrong(n.kubelet.State()), err)
	}
	took := time.Since(begin)
	for _, p := range []*process{n.discoveryd, n.proxy} {
		if !p.running() {
			return 0, fmt.Errorf("%s has ended by itself: %v", p.name(), p.cmd.ProcessState)
		}
	}
	return took, nil
}

// owners tells of each listed slot which hardware it gives, and checks against what
// earlier calls found: an ID never changes its owner.
type owners map[string]string

func (o owners) check(n *node) error {
	s := n.kubelet.State()
	for _, resource := range []string{"rdma/each", "rdma/third"} {
		for _, id := range s.Resources[resource].Healthy {
			answer, err := n.kubelet.Allocate(n.t.Context(), resource, id)
			if err != nil {
				// A fault's echo may have taken the slot in between; the next look at
				// the state will tell.
				continue
			}
			owner := answer.GetEnvs()["PCIDEVICE_RDMA_"+strings.ToUpper(strings.TrimPrefix(resource, "rdma/"))]
			key := resource + " " + id
			if before, known := o[key]; known && before != owner {
				return fmt.Errorf("%s was %s and is %s", key, before, owner)
			}
			if owner == "" || strings.Contains(owner, ",") {
				return errors.New(key + " gives the hardware " + owner)
			}
			o[key] = owner
		}
	}
	return nil
}

// listed checks that no list named more than the host and the configuration ever
// allowed in this step.
func listed(s fakekubelet.State, since int) error {
	for _, r := range s.Responses[since:] {
		ids := map[string]bool{}
		for _, d := range r.Devices {
			if ids[d.ID] {
				return fmt.Errorf("%s: a list names %q twice", r.Resource, d.ID)
			}
			ids[d.ID] = true
		}
	}
	return nil
}
