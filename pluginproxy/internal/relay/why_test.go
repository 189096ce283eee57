// Why is it zero: each cause is told by the report, in the log once, and in the
// journal.
//
// SPDX-License-Identifier: Apache-2.0

package relay_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/config"
	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/relay"
	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/subscribe"
	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
	"github.com/rdma-relay/rdma-relay/test/fakedaemon"
	"github.com/rdma-relay/rdma-relay/test/fakekubelet"
)

// tell publishes a snapshot with whatever node.
func (n *node) tell(facts *discoveryv1.Node, devices ...*discoveryv1.Device) {
	n.generation++
	snapshot := fakedaemon.Snapshot("a", n.generation, devices...)
	if facts != nil {
		snapshot.Node = facts
	}
	n.discovery.Set(subscribe.State{Snapshot: snapshot, Status: fakedaemon.Fresh(), ScannedAt: time.Now(), Connected: true})
}

func TestReportTellsWhyAResourceIsAtZero(t *testing.T) {
	missing := func(module string) *discoveryv1.Node {
		return &discoveryv1.Node{Modules: []*discoveryv1.Module{{Name: module}}}
	}
	broken := fakedaemon.HCA(0)
	broken.Reasons = []*discoveryv1.Reason{{Code: discoveryv1.ReasonCode_REASON_CODE_NO_UVERBS, Message: "There is no uverbs device."}}
	unbound := &discoveryv1.Device{
		Parent:  &discoveryv1.Parent{Bus: discoveryv1.Bus_BUS_PCI, PciAddress: "0000:3b:00.0", VendorId: "15b3"},
		Reasons: []*discoveryv1.Reason{{Code: discoveryv1.ReasonCode_REASON_CODE_DRIVER_UNBOUND, Message: "No driver is bound."}},
	}
	for name, test := range map[string]struct {
		entry   string
		prepare func(*node)
		why     string // in the resource's sentence
		problem string // in the node's
	}{
		"no daemon yet": {
			entry("hca", 4), func(*node) {},
			"not registered: no snapshot from discoveryd yet", "discoveryd has not been reached",
		},
		"no kubelet": {
			entry("hca", 4), func(n *node) { must(n.t, n.Stop()); n.tell(nil, fakedaemon.HCA(0)) },
			"kubelet shows 0: no session: waiting for", "there is no kubelet.sock",
		},
		"kubelet refuses": {
			entry("hca", 4), func(n *node) { n.RefuseNext(-1, nil); n.tell(nil, fakedaemon.HCA(0)) },
			"kubelet shows 0: no session: kubelet refused the registration", "",
		},
		"R57: an interface that does not exist": {
			`{"resourceName":"hca","rdmaHcaMax":4,"selectors":{"ifNames":["ens99"]}}`, func(n *node) { n.tell(nil, fakedaemon.HCA(0)) },
			"0 devices: selectors.ifNames: this node has no RDMA device with the network device ens99", "",
		},
		"another vendor": {
			`{"resourceName":"hca","rdmaHcaMax":4,"selectors":{"vendors":["8086"]}}`, func(n *node) { n.tell(nil, fakedaemon.HCA(0)) },
			"0 devices: selectors.vendors: no device has 8086; there are 15b3", "",
		},
		"another link type": {
			`{"resourceName":"hca","rdmaHcaMax":4,"selectors":{"linkTypes":["ib"]}}`, func(n *node) { n.tell(nil, fakedaemon.HCA(0)) },
			"0 devices: selectors.linkTypes: no device has infiniband; there are ether", "",
		},
		"no RDMA devices": {
			entry("hca", 4), func(n *node) { n.tell(nil) },
			"0 devices: discoveryd sees no RDMA device on this node", "",
		},
		"no driver": {
			entry("hca", 4), func(n *node) { n.tell(nil, unbound) },
			"0 devices: 1 device selected but unusable: No driver is bound.", "",
		},
		"no uverbs": {
			entry("hca", 4), func(n *node) { n.tell(missing("ib_uverbs"), broken) },
			"0 devices: 1 device selected but unusable: There is no uverbs device.", "the kernel module ib_uverbs does not answer",
		},
		"no rdma_cm": {
			entry("hca", 4), func(n *node) { n.tell(missing("rdma_ucm"), fakedaemon.WithoutCM(fakedaemon.HCA(0))) },
			"0 devices: 1 device selected but unusable: /dev/infiniband/rdma_cm is missing", "run: modprobe rdma_ucm",
		},
		"netns exclusive": {
			entry("hca", 4), func(n *node) {
				n.tell(&discoveryv1.Node{NetnsMode: discoveryv1.NetnsMode_NETNS_MODE_EXCLUSIVE}, fakedaemon.HCA(0))
			},
			"0 devices: 1 device selected but unusable: the RDMA network name space mode is exclusive", "run: rdma system set netns shared",
		},
		"port down": {
			entry("hca", 4, `"health":"active"`), func(n *node) { n.tell(nil, fakedaemon.Down(fakedaemon.HCA(0))) },
			"1 of 1 HCA unhealthy: mlx5_0: no port is ACTIVE (port 1: no carrier)", "",
		},
		"one of two is unusable": {
			entry("hca", 4), func(n *node) { n.tell(nil, fakedaemon.HCA(1), broken) },
			"1 HCA selected but unusable: mlx5_0: There is no uverbs device.", "",
		},
		"switched off": {
			entry("hca", 0), func(n *node) { n.tell(nil, fakedaemon.HCA(0)) },
			"0 devices: rdmaHcaMax is 0: the resource is switched off", "",
		},
		"stale": {
			entry("hca", 4), func(n *node) {
				n.tell(nil, fakedaemon.HCA(0))
				n.eventually(listed(hca, 4, 4))
				s, _ := n.discovery.Value.Get()
				s.Connected, s.Problem, s.ScannedAt = false, "connection refused", s.ScannedAt.Add(-time.Hour)
				n.discovery.Set(s)
			},
			"all 4 devices are unhealthy: the snapshot is stale", "discoveryd is away (connection refused)",
		},
		"all is well": {entry("hca", 4), func(n *node) { n.tell(nil, fakedaemon.HCA(0)) }, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, fakekubelet.ByPath)
			n.configure(test.entry)
			must(t, n.Start())
			n.serve(relay.Options{StaleAfter: 10 * time.Minute})
			test.prepare(n)
			n.until("the sentence "+test.why, func() bool {
				rep := n.relay.Report()
				got := n.report(hca).Why
				if test.why == "" && (got != "" || !rep.Ready) || !strings.Contains(got, test.why) {
					return false
				}
				all := strings.Join(rep.Problems, "\n")
				return strings.Contains(all, test.problem) && (test.problem != "" || all == "")
			})
		})
	}
}

// lines counts the log lines of a resource's answer.
func (n *node) lines() int { return strings.Count(n.logs.String(), "msg=resource ") }

func TestOneLogLinePerChangeOfTheAnswerAndNoneInBetween(t *testing.T) {
	n := running(t, fakekubelet.ByPath, entry("hca", 4, `"health":"active"`))
	quiet := func(what string, devices ...*discoveryv1.Device) {
		t.Helper()
		before := n.logs.String()
		for range 5 {
			n.publish(devices...)
			n.settled()
		}
		if got := strings.TrimPrefix(n.logs.String(), before); got != "" {
			t.Errorf("%s is logged:\n%s", what, got)
		}
	}
	changes := func(what string, words string, devices ...*discoveryv1.Device) {
		t.Helper()
		before, old := n.lines(), n.logs.String()
		n.publish(devices...)
		n.settled()
		if got := n.lines() - before; got != 1 || !strings.Contains(strings.TrimPrefix(n.logs.String(), old), words) {
			t.Errorf("%s: %d lines, want one with %q:\n%s", what, got, words, strings.TrimPrefix(n.logs.String(), old))
		}
		quiet(what+", again,", devices...)
	}
	n.publish(fakedaemon.HCA(0))
	n.eventually(listed(hca, 4, 4))

	quiet("the same state", fakedaemon.HCA(0))
	faster := fakedaemon.HCA(0)
	faster.Ports[0].Rate = "200 Gb/sec (4X HDR)"
	quiet("what nobody asks for", faster)
	stranger := fakedaemon.HCA(1)
	stranger.Parent.VendorId = "8086"
	quiet("a device that a selector turns away", fakedaemon.HCA(0), stranger)

	changes("one that is down", `unhealthy="[mlx5_1: no port is ACTIVE`, fakedaemon.HCA(0), fakedaemon.Down(fakedaemon.HCA(1)))
	changes("another one in its place", `unhealthy="[mlx5_2: no port is ACTIVE`, fakedaemon.HCA(0), fakedaemon.Down(fakedaemon.HCA(2)))
	broken := fakedaemon.HCA(3)
	broken.Reasons = []*discoveryv1.Reason{{Code: discoveryv1.ReasonCode_REASON_CODE_NO_UVERBS, Message: "it has no uverbs"}}
	changes("one that can't be used", `unusable="[mlx5_3: it has no uverbs]"`, fakedaemon.HCA(0), broken)
	changes("none", "hints=", stranger)
}

// texts are the journal's lines, oldest first.
func (n *node) texts() (list []string) {
	all := n.relay.Report().Changes
	for i := range all {
		c := all[len(all)-1-i]
		list = append(list, strings.Join(strings.Fields(c.Kind+" "+c.Resource+" "+c.Text), " "))
	}
	return list
}

func TestJournalTellsTheStory(t *testing.T) {
	n := running(t, fakekubelet.ByPath, entry("hca", 4))
	n.publish(fakedaemon.HCA(0))
	n.eventually(listed(hca, 4, 4))
	n.publish(fakedaemon.Down(fakedaemon.HCA(0)), fakedaemon.HCA(1))
	n.settled()
	s, _ := n.config.Get()
	s.Problem = "config.json: bad\nconfig.json: and worse"
	n.config.Set(s)
	n.settled()
	n.loseDaemon()
	n.settled()
	must(t, n.Restart())
	n.eventually(listed(hca, 4, 4))
	n.configure(entry("other", 1))
	n.settled()

	var got string
	for _, want := range []string{
		"config loaded: hash ", "discovery connected", "resource rdma/hca 4 of 4 devices healthy, 1 of 1 HCA", "snapshot generation 1: 1 RDMA device",
		"session rdma/hca began", "registration rdma/hca kubelet accepted the registration",
		"snapshot generation 2: mlx5_0 port 1 is DOWN, was ACTIVE, mlx5_1 appeared",
		"config refused: config.json: bad (and 1 line more)", "discovery not connected: discoveryd ended the stream",
		"session rdma/hca ended: ", "resource rdma/hca removed from the configuration",
	} {
		n.until(want, func() bool {
			got = strings.Join(n.texts(), "\n")
			return strings.Contains(got, want)
		})
	}
	if strings.Contains(got, "not registered yet") || strings.Contains(got, "no daemon yet") {
		t.Errorf("it tells what is no news:\n%s", got)
	}
	if started, ended := strings.Count(got, "session rdma/hca began"), strings.Count(got, "session rdma/hca ended: "); started != 2 || ended != 1 {
		t.Errorf("%d sessions began and %d ended:\n%s", started, ended, got)
	}
}

func TestJournalIsBoundedAndFlappingDoesNotFillIt(t *testing.T) {
	n := running(t, fakekubelet.ByPath, entry("hca", 4))
	n.publish(fakedaemon.HCA(0))
	n.eventually(listed(hca, 4, 4))
	for i := range 200 {
		d := fakedaemon.HCA(0)
		if i%2 == 0 {
			fakedaemon.Down(d)
		}
		n.publish(d)
		n.settled()
	}
	got := n.texts()
	if len(got) != 50 {
		t.Errorf("%d changes", len(got))
	}
	all := strings.Join(got, "\n")
	for _, want := range []string{"session rdma/hca began", "config loaded", "generation 201:"} {
		if !strings.Contains(all, want) {
			t.Errorf("%q was pushed out:\n%s", want, all)
		}
	}
	n.config.Set(config.State{Config: &config.Config{}, Problem: strings.Repeat("é\xffé", 5000)})
	n.settled()
	for _, c := range n.relay.Report().Changes {
		if len(c.Text) > 310 || !utf8.ValidString(c.Text) {
			t.Errorf("a change of %d bytes", len(c.Text))
		}
	}
}
