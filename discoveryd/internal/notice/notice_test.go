// Hints that come together are one.
//
// SPDX-License-Identifier: Apache-2.0

package notice

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestManyEventsMakeOneScan(t *testing.T) {
	n := New()
	for range 10 {
		n.Event()
	}
	n.Hint()
	<-n.Due()
	select {
	case <-n.Due():
		t.Error("a second scan is due")
	default:
	}
	if n.Events() != 10 {
		t.Errorf("%d events", n.Events())
	}
}

// text collects a log.
type text struct {
	mu sync.Mutex
	strings.Builder
}

func (w *text) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.Builder.Write(b)
}

func (w *text) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.Builder.String()
}

func TestHintsAreTakenTogetherAndOnce(t *testing.T) {
	n := New()
	n.Links("ens1", "ens2")
	n.Links("ens1")
	<-n.Due()
	h := n.Take()
	slices.Sort(h.Links)
	if h.All || strings.Join(h.Links, " ") != "ens1 ens2" || n.Events() != 2 {
		t.Errorf("%v, %d events", h, n.Events())
	}
	n.Event()
	if h := n.Take(); !h.All || len(h.Links) > 0 {
		t.Errorf("second time: %v", h)
	}
	if h := n.Take(); h.All || len(h.Links) > 0 {
		t.Errorf("third time: %v", h)
	}
}

func TestTooManyNamesAreALookAtEverything(t *testing.T) {
	n := New()
	for i := range 2 * maxLinks {
		n.Links("veth" + strconv.Itoa(i))
	}
	if h := n.Take(); !h.All || len(h.Links) != maxLinks {
		t.Errorf("all %v, and %d names", h.All, len(h.Links))
	}
}
