// The configuration changes while kubelet has sessions.
//
// SPDX-License-Identifier: Apache-2.0

package relay_test

import (
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/status"
	"github.com/rdma-relay/rdma-relay/test/fakedaemon"
	"github.com/rdma-relay/rdma-relay/test/fakekubelet"
)

// undisturbed checks that a resource has had one registration and one session, which
// lives.
func (n *node) undisturbed(resource string) {
	n.t.Helper()
	s := n.State()
	if r, all := s.RegistrationsOf(resource), s.SessionsOf(resource); len(r) != 1 || len(all) != 1 || !all[0].Live() {
		n.t.Errorf("%s: %d registrations, %d sessions, want one of each and a live one", resource, len(r), len(all))
	}
}

func TestReloadTouchesOnlyWhatItChanges(t *testing.T) {
	bothKubelets(t, func(t *testing.T, b fakekubelet.Bookkeeping) {
		n := running(t, b, entry("keep", 10), entry("resize", 10), entry("drop", 10))
		n.publish(fakedaemon.HCA(0))
		n.eventually(fakekubelet.All(listed("rdma/keep", 10, 10), listed("rdma/resize", 10, 10), listed("rdma/drop", 10, 10)))

		n.configure(entry("added", 5), entry("keep", 10), entry("resize", 20))
		n.eventually(fakekubelet.All(listed("rdma/added", 5, 5), listed("rdma/resize", 20, 20)))
		n.eventually(func(s fakekubelet.State) bool { return len(s.LiveSessions("rdma/drop")) == 0 })
		n.undisturbed("rdma/keep")
		n.undisturbed("rdma/resize") // through the open session
		if got := len(n.State().ResponsesOf("rdma/keep")); got != 1 {
			t.Errorf("%d lists of what has not changed, want 1", got)
		}
		var order []string
		for _, r := range n.relay.Report().Resources {
			order = append(order, r.Name)
		}
		if want := []string{"rdma/added", "rdma/keep", "rdma/resize"}; !slices.Equal(order, want) {
			t.Errorf("report %v, want %v", order, want)
		}
	})
}

func TestR63_RenamedResourceLeavesNothingBehind(t *testing.T) {
	bothKubelets(t, func(t *testing.T, b fakekubelet.Bookkeeping) {
		n := running(t, b, entry("a", 10), entry("other", 10))
		reg := prometheus.NewRegistry()
		must(t, status.Register(reg, n.relay))
		n.publish(fakedaemon.HCA(0))
		n.eventually(fakekubelet.All(listed("rdma/a", 10, 10), listed("rdma/other", 10, 10)))
		old := n.State().Resources["rdma/a"].Endpoint
		if got := series(t, reg, "rdma/a"); got == 0 {
			t.Fatal("no metrics of rdma/a")
		}

		n.configure(entry("b", 10), entry("other", 10))
		n.eventually(listed("rdma/b", 10, 10))
		n.eventually(func(s fakekubelet.State) bool { return !s.SessionsOf("rdma/a")[0].PluginEnded.IsZero() })
		n.until("one socket for each resource", func() bool { return len(n.sockets()) == 2 })
		if _, err := os.Stat(old); !os.IsNotExist(err) {
			t.Errorf("stat %s: %v, want %v", old, err, fs.ErrNotExist)
		}
		if got := series(t, reg, "rdma/a"); got != 0 {
			t.Errorf("%d series of rdma/a are still there", got)
		}
		if got := series(t, reg, "rdma/b"); got == 0 {
			t.Error("no series of rdma/b")
		}
		if s := n.State(); s.Allocatable("rdma/a") != 0 {
			t.Errorf("kubelet has %d of rdma/a to give", s.Allocatable("rdma/a"))
		}
		n.undisturbed("rdma/other")
		if logs := n.logs.String(); strings.Count(logs, `msg="resource removed" resource=rdma/a`) != 1 {
			t.Errorf("the removal is not told once:\n%s", logs)
		}
	})
}

// series counts the metrics of a resource.
func series(t *testing.T, reg prometheus.Gatherer, resource string) (count int) {
	t.Helper()
	families, err := reg.Gather()
	must(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "resource" && l.GetValue() == resource {
					count++
				}
			}
		}
	}
	return count
}

// Kubelet up to 1.36 stops whatever endpoint is current when it reaps the old one,
// and would never say so: the session goes on, and no pod is admitted any more.
func TestResourceTakenOutAndPutBackAtOnce(t *testing.T) {
	bothKubelets(t, func(t *testing.T, b fakekubelet.Bookkeeping) {
		n := running(t, b, entry("a", 10), entry("other", 10))
		n.publish(fakedaemon.HCA(0))
		n.eventually(listed("rdma/a", 10, 10))
		n.SlowReap(0, 100*time.Millisecond, 100*time.Millisecond)
		for i := range 2 {
			n.configure(entry("other", 10))
			n.settled()
			n.configure(entry("a", 10), entry("other", 10))
			n.until("the resource's return", func() bool {
				s := n.State()
				return len(s.SessionsOf("rdma/a")) == i+2 && listed("rdma/a", 10, 10)(s)
			})
			reaped := time.NewTimer(300 * time.Millisecond)
			<-reaped.C
			if _, err := n.Allocate(t.Context(), "rdma/a", "3"); err != nil {
				t.Errorf("Allocate when kubelet has reaped the old session: %v", err)
			}
		}
		n.undisturbed("rdma/other")
	})
}

// Kubelet asks for the options once, when it connects: a pool has no preferences, its
// devices one by one have.
func TestChangedOptionsReachKubelet(t *testing.T) {
	bothKubelets(t, func(t *testing.T, b fakekubelet.Bookkeeping) {
		n := running(t, b, entry("a", 10), entry("other", 10))
		n.publish(fakedaemon.HCAs(2)...)
		n.eventually(fakekubelet.All(listed("rdma/a", 10, 10), listed("rdma/other", 10, 10)))
		n.configure(entry("a", 10, `"sharing":"perDevice"`), entry("other", 10))
		n.eventually(listed("rdma/a", 20, 20))
		available := n.State().Resources["rdma/a"].Healthy
		chosen, err := n.PreferredAllocation(t.Context(), "rdma/a", available, nil, 2)
		if err != nil || len(chosen) != 2 {
			t.Errorf("preferred %v, %v", chosen, err)
		}
		n.undisturbed("rdma/other")
		if got := len(n.sockets()); got != 2 {
			t.Errorf("%d sockets of two resources", got)
		}
	})
}

// Twenty kubelets, twenty daemons and five configurations later there are as many
// sockets as resources.
func TestR20_SocketsDoNotPileUp(t *testing.T) {
	bothKubelets(t, func(t *testing.T, b fakekubelet.Bookkeeping) {
		n := running(t, b, entry("r0", 10), entry("keep", 10))
		n.publish(fakedaemon.HCA(0))
		both := func(name string) func(fakekubelet.State) bool {
			return fakekubelet.All(listed("rdma/"+name, 10, 10), listed("rdma/keep", 10, 10))
		}
		n.eventually(both("r0"))
		files := openFiles(t)
		for range 20 {
			must(t, n.Restart())
			n.eventually(both("r0"))
		}
		for range 20 {
			n.loseDaemon()
			n.publish(fakedaemon.HCA(0))
		}
		for i := range 5 {
			name := fmt.Sprint("r", i+1)
			n.configure(entry(name, 10), entry("keep", 10))
			n.eventually(both(name))
			n.until("one socket for each resource", func() bool { return len(n.sockets()) == 2 })
		}
		n.until("files as before", func() bool { return openFiles(t) <= files+2 })
	})
}
