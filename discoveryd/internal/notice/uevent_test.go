// Which uevents matter, and that the kernel's are heard.
//
// SPDX-License-Identifier: Apache-2.0

package notice

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// uevent makes a message in the kernel's form.
func uevent(header string, fields ...string) []byte {
	return []byte(header + "\x00" + strings.Join(fields, "\x00") + "\x00")
}

func TestWhichUeventsMatter(t *testing.T) {
	const pci = "/devices/pci0000:00/0000:00:05.0/0000:03:10.0"
	for _, test := range []struct {
		message []byte
		want    bool
	}{
		{uevent("add@/devices/virtual/infiniband/rxe0", "ACTION=add", "SUBSYSTEM=infiniband", "NAME=rxe0"), true},
		{uevent("remove@"+pci+"/infiniband_verbs/uverbs2", "SUBSYSTEM=infiniband_verbs"), true},
		{uevent("add@"+pci+"/infiniband_mad/umad2", "SUBSYSTEM=infiniband_mad"), true},
		{uevent("unbind@"+pci, "SUBSYSTEM=pci"), true},
		{uevent("add@"+pci+"/mlx5_core.sf.2", "SUBSYSTEM=auxiliary"), true},
		{uevent("add@"+pci+"/net/eth2", "SUBSYSTEM=net"), true},
		{uevent("add@/devices/virtual/misc/rdma_cm", "SUBSYSTEM=misc"), true},
		{uevent("add@/devices/virtual/net/veth1", "SUBSYSTEM=net"), false},
		{uevent("move@/devices/virtual/net/d1", "SUBSYSTEM=net"), true},
		{uevent("add@/devices/virtual/misc/fuse", "SUBSYSTEM=misc"), false},
		{uevent("change@/devices/pci0000:00/0000:00:1f.2/ata1", "SUBSYSTEM=scsi"), false},
		{uevent("add@/module/ib_core", "SUBSYSTEM=module"), false},
		{uevent("add@" + pci), false},
		{[]byte("libudev\x00\xfe\xed\xca\xfe"), false},
		{nil, false},
	} {
		if got := matters(test.message); got != test.want {
			t.Errorf("%q: %v", test.message, got)
		}
	}
}

func FuzzUevent(f *testing.F) {
	f.Add(uevent("add@/devices/virtual/infiniband/rxe0", "SUBSYSTEM=infiniband"))
	f.Add([]byte("\x00\x00=\x00SUBSYSTEM"))
	f.Add([]byte("@"))
	f.Fuzz(func(t *testing.T, message []byte) {
		if matters(message) && !strings.Contains(string(message), "SUBSYSTEM=") {
			t.Errorf("%q matters", message)
		}
	})
}

func TestKernelsUeventsAreHeard(t *testing.T) {
	triggers, _ := filepath.Glob("/sys/bus/pci/devices/*/uevent")
	if len(triggers) == 0 {
		t.Skip("no PCI device to make an event of")
	}
	if err := os.WriteFile(triggers[0], []byte("change"), 0o200); err != nil {
		t.Skip("needs root: ", err)
	}
	n := New()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	done := make(chan error, 1)
	go func() { done <- Uevents{}.Run(ctx, n, func() {}) }()
	// The socket may not be open yet at the first try.
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for heard := false; !heard; {
		select {
		case <-n.Due():
			heard = true
		case <-again.C:
			must(t, os.WriteFile(triggers[0], []byte("change"), 0o200))
		case err := <-done:
			t.Fatalf("ended without having heard anything: %v", err)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("after cancel: %v", err)
	}
}
