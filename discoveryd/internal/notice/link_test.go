// The kernel's own messages about network devices, in name spaces of the tests'.
//
// SPDX-License-Identifier: Apache-2.0

package notice

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// netns is a network name space with a source in it.
type netns struct {
	*netlink.Handle
	links *Links
	n     *Notice
	log   *text
	sys   string
}

// newNetns makes a name space, and runs a source in it that has listed what is there.
func newNetns(t *testing.T, buffer int, prepare func(ns *netns)) *netns {
	t.Helper()
	others := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, others) })
	ns := &netns{n: New(), log: &text{}, sys: t.TempDir()}
	ns.links = &Links{Sys: ns.sys, Log: slog.New(slog.NewTextHandler(ns.log, nil)), buffer: buffer}
	ctx, cancel := context.WithCancel(context.Background())
	made, prepared, listening := make(chan error), make(chan struct{}), make(chan struct{})
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // for good: the thread is of no use to others
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			ns.Handle, err = netlink.NewHandle(unix.NETLINK_ROUTE)
		}
		made <- err
		<-prepared
		if err == nil {
			err = ns.links.Run(ctx, ns.n, func() { close(listening) })
		}
		done <- err
	}()
	if err := <-made; err != nil {
		cancel()
		close(prepared)
		t.Skip("needs the right to make a network name space: ", err)
	}
	t.Cleanup(func() {
		cancel()
		must(t, <-done)
		ns.Close()
	})
	func() {
		defer close(prepared)
		if prepare != nil {
			prepare(ns)
		}
	}()
	<-listening
	return ns
}

// veth makes a pair of devices.
func (ns *netns) veth(t *testing.T, a, b string) netlink.Link {
	t.Helper()
	must(t, ns.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: a}, PeerName: b}))
	return ns.link(t, a)
}

func (ns *netns) link(t *testing.T, name string) netlink.Link {
	t.Helper()
	l, err := ns.LinkByName(name)
	must(t, err)
	return l
}

// until takes hints until all of the names have come.
func (ns *netns) until(t *testing.T, what string, names ...string) {
	t.Helper()
	for missing := slices.Clone(names); len(missing) > 0; {
		select {
		case <-ns.n.Due():
		case <-time.After(30 * time.Second):
			t.Fatalf("%s: nothing was heard of %v", what, missing)
		}
		h := ns.n.Take()
		if h.All {
			t.Errorf("%s: everything was to be looked at", what)
		}
		missing = slices.DeleteFunc(missing, func(name string) bool { _, heard := h.Links[name]; return heard })
	}
}

func TestEveryChangeOfANetworkDeviceIsHeard(t *testing.T) {
	ns := newNetns(t, 0, nil)
	a := ns.veth(t, "a", "b")
	ns.until(t, "new", "a", "b")
	b := ns.link(t, "b")
	must(t, ns.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br"}}))
	ns.until(t, "new bridge", "br")
	for _, step := range []struct {
		what   string
		change func() error
		names  []string
	}{
		{"up", func() error { return ns.LinkSetUp(a) }, []string{"a"}},
		{"carrier", func() error { return ns.LinkSetUp(b) }, []string{"a", "b"}},
		{"MTU", func() error { return ns.LinkSetMTU(a, 1400) }, []string{"a"}},
		{"master", func() error { return ns.LinkSetMaster(a, ns.link(t, "br")) }, []string{"a"}},
		{"no master", func() error { return ns.LinkSetNoMaster(a) }, []string{"a"}},
		{"no carrier", func() error { return ns.LinkSetDown(b) }, []string{"a", "b"}},
		{"down", func() error { return ns.LinkSetDown(a) }, []string{"a"}},
		{"name", func() error { return ns.LinkSetName(a, "c") }, []string{"a", "c"}},
		{"stacked", func() error {
			return ns.LinkAdd(&netlink.Macvlan{LinkAttrs: netlink.LinkAttrs{Name: "upper", ParentIndex: a.Attrs().Index}})
		}, []string{"c", "upper"}},
		{"gone", func() error { return ns.LinkDel(a) }, []string{"c", "b", "upper"}},
	} {
		must(t, step.change())
		ns.until(t, step.what, step.names...)
	}
}

func TestMessagesThatSayNothingNewAreNoEvents(t *testing.T) {
	ns := newNetns(t, 0, nil)
	a := ns.veth(t, "a", "b")
	ns.until(t, "new", "a", "b")
	must(t, ns.LinkSetMTU(a, 1400)) // the last of the messages about new ones are in
	ns.until(t, "MTU", "a")
	before := ns.n.Events()
	for i := range 20 {
		must(t, ns.LinkSetTxQLen(a, 100+i))
		must(t, ns.LinkSetAlias(a, "port "+strconv.Itoa(i)))
	}
	must(t, ns.LinkSetMTU(a, 1300))
	ns.until(t, "MTU again", "a")
	if n := ns.n.Events() - before; n != 1 {
		t.Errorf("%d events", n)
	}
}

func TestLostMessagesOfLinksLeadToALookAtEverythingAndNotToTheEnd(t *testing.T) {
	ns := newNetns(t, 1, nil) // the kernel makes the least of it that it allows
	for i, all := 0, false; !all; i++ {
		if i == 500 {
			t.Fatal("nothing was lost")
		}
		name := fmt.Sprintf("a%d", i)
		ns.veth(t, name, name+"p")
		all = ns.n.Take().All
	}
	// What is heard now is new, whatever was known.
	l := ns.link(t, "a0")
	must(t, ns.LinkSetMTU(l, 1400))
	for heard := false; !heard; {
		select {
		case <-ns.n.Due():
			h := ns.n.Take()
			_, heard = h.Links["a0"]
			heard = heard || h.All
		case <-time.After(30 * time.Second):
			t.Fatal("nothing was heard")
		}
	}
}

// show makes the name space's devices those that the host's sysfs shows.
func (ns *netns) show(t *testing.T, change func(name, attribute, text string) string) {
	t.Helper()
	must(t, os.RemoveAll(filepath.Join(ns.sys, "class")))
	list, err := ns.LinkList()
	must(t, err)
	for _, l := range list {
		a := l.Attrs()
		dir := filepath.Join(ns.sys, "class/net", a.Name)
		must(t, os.MkdirAll(dir, 0o755))
		iflink := a.ParentIndex
		if iflink == 0 {
			iflink = a.Index
		}
		for attribute, text := range map[string]string{
			"ifindex": strconv.Itoa(a.Index), "iflink": strconv.Itoa(iflink), "address": a.HardwareAddr.String(),
		} {
			must(t, os.WriteFile(filepath.Join(dir, attribute), []byte(change(a.Name, attribute, text)+"\n"), 0o600))
		}
	}
}

func TestNameSpaceOfTheHostIsToldFromAnother(t *testing.T) {
	as := func(_, _, text string) string { return text }
	other := func(of string) func(string, string, string) string {
		return func(name, attribute, text string) string {
			if attribute == of && name != "lo" {
				return strings.NewReplacer("1", "2", "2", "3", "3", "1", "a", "b", "b", "a").Replace(text) + "0"
			}
			return text
		}
	}
	for _, test := range []struct {
		name   string
		change func(name, attribute, text string) string
		heard  bool
	}{
		{"the same", as, true},
		{"other address", other("address"), false},
		{"other number", other("ifindex"), false},
		{"stacked on another", other("iflink"), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			ns := newNetns(t, 0, func(ns *netns) {
				ns.veth(t, "a", "b")
				ns.show(t, test.change)
			})
			if got := ns.links.Heard(); got != test.heard {
				t.Errorf("heard: %v", got)
			}
			ns.links.Heard()
			lines := 1
			if test.heard {
				lines = 0
			}
			if n := strings.Count(ns.log.String(), "carriers are read every second"); n != lines {
				t.Errorf("log is %q", ns.log.String())
			}
		})
	}
}

func TestNameSpaceIsFoundOutWhenThereIsSomethingToCompare(t *testing.T) {
	ns := newNetns(t, 0, func(ns *netns) { ns.show(t, func(_, _, text string) string { return text }) })
	if ns.links.Heard() || ns.log.String() != "" { // lo is everywhere
		t.Errorf("heard, or log is %q", ns.log.String())
	}
	ns.veth(t, "a", "b")
	ns.show(t, func(_, _, text string) string { return text })
	ns.until(t, "new", "a", "b")
	if !ns.links.Heard() {
		t.Error("not heard")
	}
	must(t, os.RemoveAll(filepath.Join(ns.sys, "class")))
	if !ns.links.Heard() {
		t.Error("a name space does not become another one")
	}
}

func TestNothingIsHeardByASourceThatDoesNotRun(t *testing.T) {
	if (&Links{Sys: "/sys", Log: slog.New(slog.DiscardHandler)}).Heard() {
		t.Error("heard")
	}
}
