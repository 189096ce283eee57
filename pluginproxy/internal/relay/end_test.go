// SIGTERM, and the next life.
//
// SPDX-License-Identifier: Apache-2.0

package relay_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/relay"
	"github.com/rdma-relay/rdma-relay/test/fakedaemon"
	"github.com/rdma-relay/rdma-relay/test/fakekubelet"
)

// The choice that docs/architecture.md tells: no empty list at the end, and the same IDs
// in the next life.
func TestR16_EndSendsNoEmptyListAndTheNextLifeHasTheSameIDs(t *testing.T) {
	bothKubelets(t, func(t *testing.T, b fakekubelet.Bookkeeping) {
		n := newNode(t, b)
		n.configure(entry("hca", 10), entry("each", 5, `"sharing":"perDevice"`))
		must(t, n.Start())
		stop := n.serve(relay.Options{})
		n.publish(fakedaemon.HCAs(3)...)
		all := fakekubelet.All(listed(hca, 10, 10), listed("rdma/each", 15, 15))
		n.eventually(all)
		before := n.State()

		stop()
		signal := time.Now()
		// Kubelet keeps the capacity for five minutes and gives nothing out of it.
		n.eventually(fakekubelet.All(fakekubelet.Listed(hca, 10, 0), fakekubelet.Listed("rdma/each", 15, 0)))
		s := n.State()
		if got, want := len(s.Responses), len(before.Responses); got != want {
			t.Errorf("%d lists were sent at the end: %v", got-want, s.Responses[want:])
		}
		if got := n.sockets(); len(got) != 0 {
			t.Errorf("sockets stay: %v", got)
		}

		n.serve(relay.Options{})
		n.eventually(all)
		after := n.State()
		for _, resource := range []string{hca, "rdma/each"} {
			if x, y := before.Resources[resource].Healthy, after.Resources[resource].Healthy; !slices.Equal(x, y) {
				t.Errorf("%s: IDs %v, then %v", resource, x, y)
			}
		}
		for _, r := range after.Registrations[len(before.Registrations):] {
			if r.At.Before(signal) {
				t.Errorf("a registration %v before the end was over", signal.Sub(r.At))
			}
		}
	})
}

func TestEndComesSoonFromAnyState(t *testing.T) {
	for name, reach := range map[string]func(n *node){
		"no snapshot": func(*node) {},
		"no kubelet":  func(n *node) { n.publish(fakedaemon.HCA(0)); n.settled() },
		"no directory": func(n *node) {
			must(n.t, n.RemoveDirectory())
			n.publish(fakedaemon.HCA(0))
			n.settled()
		},
		"kubelet hangs in Register": func(n *node) {
			n.SlowRegister(time.Hour)
			must(n.t, n.Start())
			n.publish(fakedaemon.HCA(0))
			n.eventually(func(s fakekubelet.State) bool { return len(s.Registrations) == 1 })
		},
		"kubelet refuses": func(n *node) {
			n.RefuseNext(-1, nil)
			must(n.t, n.Start())
			n.publish(fakedaemon.HCA(0))
			n.eventually(func(s fakekubelet.State) bool { return len(s.Registrations) >= 2 })
		},
		"kubelet reads no more": func(n *node) {
			must(n.t, n.Start())
			n.publish(fakedaemon.HCA(0))
			n.eventually(listed(hca, 20_000, 20_000))
			must(n.t, n.Freeze(hca))
			n.publish()
			n.publish(fakedaemon.HCA(0))
			n.publish(fakedaemon.Down(fakedaemon.HCA(0)))
		},
		"session": func(n *node) {
			must(n.t, n.Start())
			n.publish(fakedaemon.HCA(0))
			n.eventually(listed(hca, 20_000, 20_000))
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, fakekubelet.ByPath)
			n.configure(entry("hca", 20_000, `"health":"active"`))
			stop := n.serve(relay.Options{})
			reach(n)
			begin := time.Now()
			stop() // fails after 5 s
			t.Logf("ended after %v", time.Since(begin))
			if name != "no directory" && len(n.sockets()) > 0 {
				t.Errorf("sockets stay: %v", n.sockets())
			}
			n.SlowRegister(0)
			n.Resume(hca)
			registrations := len(n.State().Registrations)
			_ = n.Stop()
			must(t, n.Start())
			if got := len(n.State().Registrations); got != registrations {
				t.Errorf("%d registrations after the end", got-registrations)
			}
		})
	}
}

// A second Run is of no use, and a Relay whose context has ended does nothing.
func TestRunWithAnEndedContextServesNothing(t *testing.T) {
	n := newNode(t, fakekubelet.ByPath)
	n.configure(entry("hca", 10))
	n.publish(fakedaemon.HCA(0))
	must(t, n.Start())
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	n.relay = relay.New(relay.Sources{Config: n.config, Discovery: n.discovery, Kubelet: n.dir}, relay.Options{}, n.log())
	n.relay.Run(ctx)
	if got := n.State().Registrations; len(got) != 0 || len(n.sockets()) != 0 {
		t.Errorf("registrations %v, sockets %v", got, n.sockets())
	}
	if strings.Contains(n.logs.String(), "level=ERROR") {
		t.Errorf("log:\n%s", n.logs)
	}
}
