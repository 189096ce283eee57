// Hints that come together are one, and a source that fails takes none with it.
//
// SPDX-License-Identifier: Apache-2.0

package notice

import (
	"context"
	"errors"
	"log/slog"
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

// source is a source of one event that ends as told.
type source struct {
	name string
	err  error
}

func (s source) Name() string { return s.name }

func (s source) Run(ctx context.Context, n *Notice) error {
	n.Event()
	if s.err == nil {
		<-ctx.Done()
	}
	return s.err
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

func TestSourceThatFailsIsToldOfOnceAndTheOthersGoOn(t *testing.T) {
	var out text
	n := New()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		n.Run(ctx, slog.New(slog.NewTextHandler(&out, nil)), source{"bad", errors.New("no permission")}, source{"good", nil})
	}()
	for n.Events() < 2 {
		<-n.Due()
	}
	cancel()
	<-done
	if got := out.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "source=bad") || !strings.Contains(got, "no permission") {
		t.Errorf("log is %q", got)
	}
}
