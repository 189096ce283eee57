// A server ends soon, and says nothing of it, whatever its peers do.
//
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"bytes"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/latest"
)

// A kubelet that is stopped in the middle of its dial, or any program that only
// connects: gRPC's Stop waits for the end of the handshake.
func TestStopReturnsThoughAPeerSaysNothing(t *testing.T) {
	s := serve(t, time.Millisecond, 10)
	silent, err := net.Dial("unix", s.path)
	must(t, err)
	defer func() { _ = silent.Close() }()
	_, err = silent.Read(make([]byte, 1)) // the server's settings: it is in the handshake
	must(t, err)
	stopped := make(chan struct{})
	go func() { defer close(stopped); s.Stop() }()
	await(t, stopped)
}

func TestServerThatIsStoppedAtOnceIsNoFault(t *testing.T) {
	dir, err := os.MkdirTemp("", "dp")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	var log bytes.Buffer // each server is gone before the next one begins
	for range 200 {
		lis, err := net.Listen("unix", filepath.Join(dir, "s"))
		must(t, err)
		s := Serve(lis, Config{Offer: latest.New[Offer](slots(1)), Stats: &Stats{}, Log: slog.New(slog.NewTextHandler(&log, nil))})
		s.Stop()
	}
	if log.Len() > 0 {
		t.Errorf("logged: %s", log.String())
	}
}

// brokenListener is one whose Accept fails.
type brokenListener struct{ net.Listener }

func (brokenListener) Accept() (net.Conn, error) { return nil, errors.New("broken") }

func TestR22_ServerWhoseListenerBreaksIsOver(t *testing.T) {
	lis, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	must(t, err)
	s := Serve(brokenListener{lis}, Config{Offer: latest.New[Offer](slots(1)), Stats: &Stats{}, Log: slog.New(slog.DiscardHandler)})
	defer s.Stop()
	await(t, s.Over())
}
