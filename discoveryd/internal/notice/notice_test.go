// Hints that come together are one.
//
// SPDX-License-Identifier: Apache-2.0

package notice

import (
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
	n.Places("devices/virtual")
	n.Devices("mlx5_0")
	<-n.Due()
	if h := inWords(n.Take()); h != "classes device:mlx5_0 link:ens1 link:ens2 place:devices/virtual" || n.Events() != 4 {
		t.Errorf("%s, %d events", h, n.Events())
	}
	n.Event()
	if h := inWords(n.Take()); h != "all" {
		t.Errorf("second time: %s", h)
	}
	if h := inWords(n.Take()); h != "" {
		t.Errorf("third time: %s", h)
	}
}

func TestTooManyNamesAreALookAtEverything(t *testing.T) {
	n := New()
	for i := range 2 * maxNamed {
		n.Links("veth" + strconv.Itoa(i))
	}
	if h := n.Take(); !h.All || len(h.Links) != maxNamed {
		t.Errorf("all %v, and %d names", h.All, len(h.Links))
	}
}
