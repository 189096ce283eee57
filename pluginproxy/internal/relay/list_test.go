// From a snapshot to the list at kubelet.
//
// SPDX-License-Identifier: Apache-2.0

package relay_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/relay"
	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/subscribe"
	"github.com/rdma-relay/rdma-relay/test/fakedaemon"
	"github.com/rdma-relay/rdma-relay/test/fakekubelet"
)

const hca = "rdma/hca"

func TestNothingIsRegisteredBeforeTheFirstSnapshot(t *testing.T) {
	bothKubelets(t, func(t *testing.T, b fakekubelet.Bookkeeping) {
		n := running(t, b, entry("hca", 10))
		// Whatever else happens: the daemon changes its mind, the file changes,
		// kubelet is restarted.
		for i := range 10 {
			n.discovery.Set(subscribe.State{Problem: fmt.Sprint("try ", i)})
			n.configure(entry("hca", 10+i))
			must(t, n.Restart())
			n.settled()
		}
		if got := n.State().Registrations; len(got) > 0 || len(n.sockets()) > 0 {
			t.Fatalf("registrations %v, sockets %v before the first snapshot", got, n.sockets())
		}
		rep := n.relay.Report()
		if rep.Ready || len(rep.Missing) != 1 || !strings.Contains(rep.Missing[0], "no snapshot from discoveryd yet: try 9") {
			t.Errorf("ready %t, missing %q", rep.Ready, rep.Missing)
		}
		begin := time.Now()
		n.publish(fakedaemon.HCA(0))
		n.eventually(listed(hca, 19, 19))
		if at := n.State().Registrations[0].At; at.Before(begin) {
			t.Errorf("registered %v before the snapshot", begin.Sub(at))
		}
		n.until("ready", func() bool { return n.relay.Report().Ready })
	})
}

func TestEmptySnapshotIsAStatementOfZeroDevices(t *testing.T) {
	bothKubelets(t, func(t *testing.T, b fakekubelet.Bookkeeping) {
		n := running(t, b, entry("hca", 10))
		n.publish()
		n.eventually(listed(hca, 0, 0))
		n.until("ready", func() bool { return n.relay.Report().Ready })
		n.publish(fakedaemon.HCA(0))
		n.eventually(listed(hca, 10, 10))
		if got := len(n.State().Registrations); got != 1 {
			t.Errorf("%d registrations, want 1", got)
		}
	})
}

func TestSnapshotsGoThroughTheOpenSession(t *testing.T) {
	n := running(t, fakekubelet.ByPath, entry("hca", 4, `"topologyHints":false`), entry("each", 2, `"sharing":"perDevice"`))
	n.publish()
	n.eventually(listed(hca, 0, 0))
	for _, count := range []int{1, 3, 0, 2} {
		n.publish(fakedaemon.HCAs(count)...)
		n.eventually(listed(hca, 4*min(count, 1), 4*min(count, 1)))
		n.eventually(listed("rdma/each", 2*count, 2*count))
	}
	s := n.State()
	if len(s.Registrations) != 2 || len(s.Sessions) != 2 {
		t.Errorf("%d registrations and %d sessions of two resources", len(s.Registrations), len(s.Sessions))
	}
	// 0, 1, 3 and 2 HCAs are one and the same to a pool, but for 0.
	var sizes []int
	for _, r := range s.ResponsesOf(hca) {
		sizes = append(sizes, len(r.Devices))
	}
	if got := fmt.Sprint(sizes); got != "[0 4 0 4]" {
		t.Errorf("lists of %v devices, want [0 4 0 4]", got)
	}
}

func TestStatusAloneMakesNoList(t *testing.T) {
	n := running(t, fakekubelet.ByPath, entry("hca", 4))
	n.publish(fakedaemon.HCA(0))
	n.eventually(listed(hca, 4, 4))
	for range 20 {
		s, _ := n.discovery.Value.Get()
		s.Status, s.ScannedAt = fakedaemon.Fresh(), time.Now()
		n.discovery.Set(s)
		n.settled()
	}
	n.publish(fakedaemon.HCA(0)) // another generation with equal content
	n.settled()
	n.publish()
	n.eventually(listed(hca, 0, 0))
	if got := len(n.State().Responses); got != 2 {
		t.Errorf("%d lists, want 2", got)
	}
}

func TestStaleSnapshotMakesDevicesUnhealthyAndBack(t *testing.T) {
	n := newNode(t, fakekubelet.ByPath)
	n.configure(entry("hca", 10))
	must(t, n.Start())
	const limit = 150 * time.Millisecond
	n.serve(relay.Options{StaleAfter: limit})
	begin := time.Now()
	n.publish(fakedaemon.HCA(0))
	n.loseDaemon()
	n.eventually(listed(hca, 10, 10))
	n.eventually(listed(hca, 10, 0)) // nothing but time passes
	if took := time.Since(begin); took < limit {
		t.Errorf("stale after %v, sooner than %v", took, limit)
	}
	if rep := n.relay.Report(); !rep.Discovery.Stale || rep.Discovery.AgeSeconds < limit.Seconds() {
		t.Errorf("stale %t, age %v s", rep.Discovery.Stale, rep.Discovery.AgeSeconds)
	}
	if got := n.report(hca).HCAs[0].Reason; !strings.Contains(got, "stale") {
		t.Errorf("reason %q", got)
	}
	s, _ := n.discovery.Value.Get()
	s.Status, s.ScannedAt, s.Connected = fakedaemon.Fresh(), time.Now(), true // no new snapshot: nothing has changed
	n.discovery.Set(s)
	n.eventually(listed(hca, 10, 10))
	n.eventually(listed(hca, 10, 0)) // and again
	st := n.State()
	if len(st.Registrations) != 1 || len(st.Sessions) != 1 {
		t.Errorf("%d registrations, %d sessions, want 1 of each", len(st.Registrations), len(st.Sessions))
	}
}

func TestWithoutALimitNothingIsEverStale(t *testing.T) {
	n := running(t, fakekubelet.ByPath, entry("hca", 10))
	n.publish(fakedaemon.HCA(0))
	s, _ := n.discovery.Value.Get()
	s.ScannedAt, s.Connected = time.Now().Add(-1000*time.Hour), false
	n.discovery.Set(s)
	n.settled()
	n.eventually(listed(hca, 10, 10))
	if n.relay.Report().Discovery.Stale {
		t.Error("stale")
	}
}

func TestRecoverAfterEndsByItself(t *testing.T) {
	const wait = 200 * time.Millisecond
	n := running(t, fakekubelet.ByPath, entry("hca", 3, `"health":"active"`, `"recoverAfter":"200ms"`))
	n.publish(fakedaemon.HCA(0))
	n.eventually(listed(hca, 3, 3))
	n.publish(fakedaemon.Down(fakedaemon.HCA(0)))
	n.eventually(listed(hca, 3, 0))
	begin := time.Now()
	n.publish(fakedaemon.HCA(0))
	n.until("the word that it recovers", func() bool { return strings.Contains(n.report(hca).HCAs[0].Reason, "not yet") })
	n.eventually(listed(hca, 3, 3)) // nothing but time passes
	if took := time.Since(begin); took < wait {
		t.Errorf("healthy after %v, sooner than %v", took, wait)
	}
}

// The module rdma_ucm is missing at first: 0 devices, with the cause said, and all
// of them as soon as the file is there, without any restart.
func TestR24_RDMACMMissingIsSaidAndMended(t *testing.T) {
	n := running(t, fakekubelet.ByPath, entry("hca", 10))
	n.publish()
	n.eventually(listed(hca, 0, 0))
	n.publish(fakedaemon.WithoutCM(fakedaemon.HCA(0))) // the number is the same, its cause another
	n.settled()
	n.eventually(listed(hca, 0, 0))
	r := n.report(hca)
	if len(r.LeftOut) != 1 || !strings.Contains(r.LeftOut[0].Rule, "rdma_cm") || !strings.Contains(r.LeftOut[0].Rule, "rdma_ucm") {
		t.Errorf("left out: %+v", r.LeftOut)
	}
	if hints := strings.Join(r.Hints, "\n"); !strings.Contains(hints, "/dev/infiniband/rdma_cm") || !strings.Contains(hints, "rdma_ucm") {
		t.Errorf("hints %q", r.Hints)
	}
	if logs := n.logs.String(); strings.Count(logs, "load the kernel module rdma_ucm") != 1 {
		t.Errorf("the cause is not told once in the log:\n%s", logs)
	}
	n.publish(fakedaemon.HCA(0))
	n.eventually(listed(hca, 10, 10))
	if got := len(n.State().Registrations); got != 1 {
		t.Errorf("%d registrations, want 1", got)
	}
}

func TestR43_PortStateCountsByThePolicy(t *testing.T) {
	n := running(t, fakekubelet.ByPath,
		entry("active", 10, `"health":"active"`), entry("present", 10, `"health":"present"`))
	steps := []struct {
		name            string
		firstUp, second bool
		active, hcas    int
	}{
		{"both up", true, true, 10, 2},
		{"one down", false, true, 10, 1},
		{"both down", false, false, 0, 0},
		{"one up again", true, false, 10, 1},
	}
	for _, step := range steps {
		devices := fakedaemon.HCAs(2)
		if !step.firstUp {
			fakedaemon.Down(devices[0])
		}
		if !step.second {
			fakedaemon.Down(devices[1])
		}
		n.publish(devices...)
		n.eventually(listed("rdma/active", 10, step.active))
		n.eventually(listed("rdma/present", 10, 10))
		n.until(step.name, func() bool { return n.report("rdma/active").HealthyHCAs == step.hcas })
		if got := n.report("rdma/present").HealthyHCAs; got != 2 {
			t.Errorf("%s: %d healthy HCAs by presence, want 2", step.name, got)
		}
	}
}

func TestR44_SlotsAndHCAsAreCountedApart(t *testing.T) {
	n := running(t, fakekubelet.ByPath, entry("hca", 8))
	for _, step := range []struct{ hcas, devices int }{{0, 0}, {1, 8}, {8, 8}} {
		n.publish(fakedaemon.HCAs(step.hcas)...)
		n.eventually(listed(hca, step.devices, step.devices))
		n.until("the report", func() bool { return len(n.report(hca).HCAs) == step.hcas })
		r := n.report(hca)
		if r.Devices != step.devices || r.Healthy != step.devices || r.HealthyHCAs != step.hcas {
			t.Errorf("%d HCAs: report says %d devices, %d healthy, %d healthy HCAs", step.hcas, r.Devices, r.Healthy, r.HealthyHCAs)
		}
		if want := fmt.Sprintf("devices=%d healthy=%d hcas=%d healthy_hcas=%d", step.devices, step.devices, step.hcas, step.hcas); !strings.Contains(n.logs.String(), want) {
			t.Errorf("log lacks %q:\n%s", want, n.logs)
		}
	}
}
