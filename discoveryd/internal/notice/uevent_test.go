// Which uevents matter, and that the kernel's are heard.
//
// SPDX-License-Identifier: Apache-2.0

package notice

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// message makes one in the kernel's form.
func message(header string, fields ...string) []byte {
	return []byte(header + "\x00" + strings.Join(fields, "\x00") + "\x00")
}

func TestWhereAUeventHintsAt(t *testing.T) {
	const pci = "devices/pci0000:00/0000:00:05.0/0000:03:10.0"
	for _, test := range []struct {
		message []byte
		want    string
	}{
		{message("add@/devices/virtual/infiniband/rxe0", "ACTION=add", "SUBSYSTEM=infiniband", "NAME=rxe0"), "classes place:devices/virtual"},
		{message("remove@/"+pci+"/infiniband_verbs/uverbs2", "SUBSYSTEM=infiniband_verbs"), "classes place:" + pci},
		{message("add@/"+pci+"/infiniband_mad/umad2", "SUBSYSTEM=infiniband_mad"), "classes place:" + pci},
		{message("move@/"+pci+"/infiniband/roce0", "DEVPATH_OLD=/"+pci+"/infiniband/mlx5_0", "SUBSYSTEM=infiniband"), "classes place:" + pci},
		{message("unbind@/"+pci, "SUBSYSTEM=pci"), "classes place:" + pci},
		{message("add@/"+pci+"/mlx5_core.sf.2", "SUBSYSTEM=auxiliary"), "classes place:" + pci + "/mlx5_core.sf.2"},
		{message("add@/"+pci+"/virtio1/net/eth2", "SUBSYSTEM=net"), "classes place:" + pci + "/virtio1"},
		{message("add@/devices/virtual/misc/rdma_cm", "SUBSYSTEM=misc"), "classes"},
		{message("remove@/module/ib_core", "SUBSYSTEM=module"), "classes"},
		{message("move@/devices/virtual/net/d1", "DEVPATH_OLD=/devices/virtual/net/d0", "SUBSYSTEM=net"), "link:d0 link:d1"},
		{message("add@/devices/virtual/net/veth1", "SUBSYSTEM=net"), ""},
		{message("add@/devices/virtual/misc/fuse", "SUBSYSTEM=misc"), ""},
		{message("change@/devices/pci0000:00/0000:00:1f.2/ata1", "SUBSYSTEM=scsi"), ""},
		{message("add@/module/nfs", "SUBSYSTEM=module"), ""},
		{message("add@/" + pci), ""},
		{[]byte("libudev\x00\xfe\xed\xca\xfe"), ""},
		{nil, ""},
	} {
		n := New()
		parseUevent(test.message).tell(n)
		if got := inWords(n.Take()); got != test.want {
			t.Errorf("%q: %s", test.message, got)
		}
	}
}

// inWords writes hints in one line, sorted.
func inWords(h Hints) string {
	var words []string
	for word, is := range map[string]bool{"all": h.All, "classes": h.Classes} {
		if is {
			words = append(words, word)
		}
	}
	for kind, names := range map[string]map[string]struct{}{"place:": h.Places, "device:": h.Devices, "link:": h.Links} {
		for name := range names {
			words = append(words, kind+name)
		}
	}
	slices.Sort(words)
	return strings.Join(words, " ")
}

func FuzzUevent(f *testing.F) {
	f.Add(message("add@/devices/virtual/infiniband/rxe0", "SUBSYSTEM=infiniband"))
	f.Add([]byte("\x00\x00=\x00SUBSYSTEM"))
	f.Add([]byte("@"))
	f.Fuzz(func(t *testing.T, message []byte) {
		n := New()
		parseUevent(message).tell(n)
		if n.Events() > 0 && !strings.Contains(string(message), "SUBSYSTEM=") {
			t.Errorf("%q matters", message)
		}
	})
}

// fire makes the kernel send uevents of the kind whose triggers are at pattern, one
// with each call.
func fire(t *testing.T, pattern string) func() {
	t.Helper()
	triggers, _ := filepath.Glob(pattern)
	if len(triggers) == 0 {
		t.Skip("no device to make an event of: ", pattern)
	}
	again := func() error { return os.WriteFile(triggers[0], []byte("change"), 0o200) }
	if err := again(); err != nil {
		t.Skip("needs root: ", err)
	}
	return func() { must(t, again()) }
}

// hear runs the source until the test has ended, and returns when it listens.
func hear(t *testing.T, source Source) *Notice {
	t.Helper()
	others := goleak.IgnoreCurrent()
	n := New()
	ctx, cancel := context.WithCancel(context.Background())
	listening, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- source.Run(ctx, n, func() { close(listening) }) }()
	t.Cleanup(func() {
		cancel()
		must(t, <-done)
		goleak.VerifyNone(t, others)
	})
	select {
	case <-listening:
	case err := <-done:
		done <- err
		t.Fatalf("ended without having heard anything: %v", err)
	}
	return n
}

func TestKernelsUeventsAreHeard(t *testing.T) {
	event := fire(t, "/sys/bus/pci/devices/*/uevent")
	n := hear(t, Uevents{})
	event()
	due(t, n)
}

func TestUeventsOfOtherThingsAreNoEvents(t *testing.T) {
	other, event := fire(t, "/sys/class/net/lo/uevent"), fire(t, "/sys/bus/pci/devices/*/uevent")
	n := hear(t, Uevents{})
	other()
	event()
	due(t, n)
	if n.Events() > 2 { // some other device of the machine may have had one
		t.Errorf("%d events", n.Events())
	}
}

func TestLostUeventsLeadToALookAtEverythingAndNotToTheEnd(t *testing.T) {
	other, event := fire(t, "/sys/class/net/lo/uevent"), fire(t, "/sys/bus/pci/devices/*/uevent")
	n := hear(t, Uevents{buffer: 1}) // the kernel makes the least of it that it allows
	for i := 0; n.Events() == 0; i++ {
		if i == 100_000 {
			t.Fatal("nothing was lost")
		}
		other() // which matters to nobody
	}
	if !n.Take().All {
		t.Error("not everything is to be looked at")
	}
	for before := n.Events(); n.Events() == before; {
		event()
		select {
		case <-n.Due():
		case <-time.After(10 * time.Millisecond): // it may be among the lost
		}
	}
}
