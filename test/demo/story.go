// The story, step by step. Each step makes something happen and waits until it
// has; nothing is printed that was not seen.
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/rdma-relay/rdma-relay/test/fakekubelet"
)

// story is what the steps share.
type story struct {
	*node
	out *screen
}

// tell goes through the steps. Each has to be done within limit.
func tell(ctx context.Context, n *node, limit time.Duration, out *screen) error {
	s := &story{node: n, out: out}
	for _, step := range []struct {
		title string
		tell  func(context.Context) error
	}{
		{"A node with eight RDMA adapters", s.begin},
		{"kubelet dies and comes back, three times", s.restarts},
		{"An adapter is pulled out and put back", s.unplug},
		{"A pod gets what it asked for", s.allocate},
		{"Where to look on a node of your own", s.look},
	} {
		out.step(step.title)
		stepCtx, cancel := context.WithTimeout(ctx, limit)
		err := step.tell(stepCtx)
		late := stepCtx.Err() != nil
		cancel()
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return fmt.Errorf("step %d, %q: %w", out.steps, step.title, context.Cause(ctx))
		case late:
			return fmt.Errorf("step %d, %q: not done within %v: %w%s", out.steps, step.title, limit, err, n.logs())
		default:
			return fmt.Errorf("step %d, %q: %w%s", out.steps, step.title, err, n.logs())
		}
	}
	return nil
}

// full is the state in which kubelet has both resources with all slots.
func full() func(fakekubelet.State) bool {
	return fakekubelet.All(
		fakekubelet.Listed(pool, poolSlots, poolSlots),
		fakekubelet.Listed(storage, storageSlots, storageSlots))
}

func (s *story) begin(ctx context.Context) error {
	s.out.say(
		"The host is a recorded one: eight ConnectX-7 below "+filepath.Join(s.dir, "host")+".",
		"discoveryd reads it, pluginproxy makes two resources of it, and a kubelet that",
		"is a fake, but as forgetful as the real one, takes them.", "")
	if err := s.kubelet.Start(); err != nil {
		return err
	}
	began := time.Now()
	if err := s.startPrograms(); err != nil {
		return err
	}
	if err := s.kubelet.Wait(ctx, full()); err != nil {
		return err
	}
	ready := time.Since(began)
	if err := s.findMetrics(ctx); err != nil {
		return err
	}
	state := s.kubelet.State()
	row := func(resource, meaning string) []string {
		return []string{resource, strconv.Itoa(state.Capacity(resource)), strconv.Itoa(state.Allocatable(resource)), meaning}
	}
	s.out.table(
		[]string{"RESOURCE", "CAPACITY", "ALLOCATABLE", "A POD WITH ONE OF IT GETS"},
		row(pool, "all eight adapters, shared with others"),
		row(storage, "the adapter of "+adapterNet+", and no other"))
	s.out.say("", "From the start of both programs to these lists at kubelet: "+took(ready)+".")
	return nil
}

func (s *story) restarts(ctx context.Context) error {
	s.out.say(
		"A kubelet that starts deletes every plugin's socket and knows no resource: the",
		"node has 0 of everything, and pods that come now fail. It asks nobody; the",
		"plugin has to notice and to register again.", "")
	rows := [][]string{{"KUBELET", pool, storage, "BACK AFTER"}}
	for range 3 {
		if err := s.kubelet.Kill(); err != nil {
			return err
		}
		lost := s.kubelet.State()
		if err := s.kubelet.Start(); err != nil {
			return err
		}
		if err := s.kubelet.Wait(ctx, full()); err != nil {
			return err
		}
		state := s.kubelet.State()
		rows = append(rows, []string{
			"restart " + strconv.Itoa(state.Boot-1),
			fmt.Sprint(lost.Allocatable(pool), " -> ", state.Allocatable(pool)),
			fmt.Sprint(lost.Allocatable(storage), " -> ", state.Allocatable(storage)),
			took(back(state)),
		})
	}
	s.out.table(rows...)
	s.out.say("", "Counted from the moment at which kubelet listens to the last full list.")
	return nil
}

// back is the time from the newest kubelet.sock to the moment at which it had
// the full lists of both resources.
func back(state fakekubelet.State) time.Duration {
	bind := state.Binds[len(state.Binds)-1].At
	var last time.Duration
	for resource, slots := range map[string]int{pool: poolSlots, storage: storageSlots} {
		for _, response := range state.ResponsesOf(resource) {
			if response.Boot == state.Boot && response.Healthy() == slots {
				last = max(last, response.At.Sub(bind))
				break
			}
		}
	}
	return last
}

func (s *story) unplug(ctx context.Context) error {
	s.out.say(
		adapter+" is the adapter of "+adapterNet+". The resource that consists of it goes to 0;",
		"the pool goes on with seven adapters and its slots stay.", "")
	before, ok := s.host.HCA(adapter)
	if !ok {
		return fmt.Errorf("the recorded host has no %s", adapter)
	}
	rows := [][]string{{adapter, storage, pool, "ADAPTERS IN THE POOL", "AT KUBELET AFTER"}}
	for _, act := range []struct {
		name     string
		do       func() error
		storage  int
		adapters int
	}{
		{"pulled out", func() error { return s.host.Remove(adapter) }, 0, 7},
		{"put back", func() error { return s.host.Add(before) }, storageSlots, 8},
	} {
		began := time.Now()
		if err := act.do(); err != nil {
			return err
		}
		err := s.kubelet.Wait(ctx, func(state fakekubelet.State) bool {
			return state.Allocatable(storage) == act.storage && state.Allocatable(pool) == poolSlots
		})
		if err != nil {
			return err
		}
		seen := time.Since(began)
		if err := s.waitMetric(ctx, poolAdapters, act.adapters); err != nil {
			return err
		}
		state := s.kubelet.State()
		rows = append(rows, []string{
			act.name,
			strconv.Itoa(state.Allocatable(storage)),
			strconv.Itoa(state.Allocatable(pool)),
			strconv.Itoa(act.adapters),
			took(seen),
		})
	}
	s.out.table(rows...)
	s.out.say("", "A first change goes out at once. After that a resource sends kubelet at most one", "list a second, since kubelet writes a file for each.")
	return nil
}

func (s *story) allocate(ctx context.Context) error {
	s.out.say("kubelet admits a pod that asks for one "+storage+". It is given the files of", "that adapter and of no other, and told its names:", "")
	grants, err := s.kubelet.AllocatePod(ctx, fakekubelet.Pod{
		UID:        "demo",
		Containers: []fakekubelet.Container{{Name: "app", Limits: map[string]int{storage: 1}}},
	})
	if err != nil {
		return err
	}
	if len(grants) != 1 || len(grants[0].Response.GetDevices()) == 0 {
		return fmt.Errorf("the plugin's answer holds no device: %v", grants)
	}
	rows := [][]string{{"slot", strings.Join(grants[0].DeviceIDs, ",")}}
	for _, d := range grants[0].Response.GetDevices() {
		rows = append(rows, []string{"device", d.GetContainerPath() + " (" + d.GetPermissions() + ")"})
	}
	rows = append(rows, environment(grants[0].Response.GetEnvs())...)
	s.out.table(rows...)
	return nil
}

func (s *story) look(ctx context.Context) error {
	status, err := s.ask(ctx, "pluginproxy", "status", "--metrics-address="+s.metrics)
	if err != nil {
		return err
	}
	list, err := s.ask(ctx, "discoveryd", "list", "--socket="+s.socket())
	if err != nil {
		return err
	}
	metrics, err := s.scrape(ctx)
	if err != nil {
		return err
	}
	s.out.say("What follows is what the two programs say of the node above.")
	s.out.command("pluginproxy status", status)
	s.out.command("discoveryd list", list)
	s.out.command("curl -s localhost:9837/metrics", strings.Join(telling(metrics), "\n"))
	return nil
}
