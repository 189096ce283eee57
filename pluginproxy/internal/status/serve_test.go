// Peers that are many, slow or silent.
//
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"testing"
	"time"
)

// served runs the real server with the sample's handler.
func served(t *testing.T) (address string) {
	t.Helper()
	address = freeAddress(t)
	r := sample()
	handler := Handler(r, register(t, r), slog.New(slog.DiscardHandler))
	run(t, func(ctx context.Context) { Serve(ctx, address, "", handler, slog.New(slog.DiscardHandler)) })
	until(t, "an answer", func() bool { code, _ := fetch(t.Context(), "http://"+address+"/healthz"); return code == http.StatusOK })
	return address
}

// hold opens connections from one loopback address, and says what is given on each.
func hold(t *testing.T, address, from string, many int, words string) []net.Conn {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	conns := make([]net.Conn, many)
	for i := range conns {
		conn, err := dialer.DialContext(t.Context(), "tcp", address)
		must(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		_, err = io.WriteString(conn, words)
		must(t, err)
		conns[i] = conn
	}
	return conns
}

// closedWithin tells whether the other side has closed the connection within d.
func closedWithin(t *testing.T, conn net.Conn, d time.Duration) bool {
	t.Helper()
	must(t, conn.SetReadDeadline(time.Now().Add(d)))
	_, err := io.Copy(io.Discard, conn)
	return !errors.Is(err, os.ErrDeadlineExceeded)
}

// A flood of connections can't take this process's file descriptors, and kubelet's
// probe is answered while the flood lasts, be it from kubelet's own address or from
// many.
func TestFloodOfConnectionsKeepsNobodyOut(t *testing.T) {
	const many = 3 * maxConns
	for name, from := range map[string]func(i int) string{
		"one address":    func(int) string { return "127.0.0.1" },
		"another one":    func(int) string { return "127.0.0.2" },
		"many addresses": func(i int) string { return fmt.Sprintf("127.0.1.%d", i+1) },
	} {
		t.Run(name, func(t *testing.T) {
			address := served(t)
			before := openFiles(t)
			for i := range many {
				hold(t, address, from(i), 1, "GET /healthz HTTP/1.1\r\n") // and no more
			}
			for range 10 {
				begin := time.Now()
				if code, body := fetch(t.Context(), "http://"+address+"/healthz"); code != http.StatusOK || time.Since(begin) > time.Second {
					t.Fatalf("the probe is answered with %d %q after %v", code, body, time.Since(begin))
				}
			}
			until(t, "no more connections than may be", func() bool { return openFiles(t)-before-many <= maxConns })
		})
	}
}

// Who holds many connections loses them, not those who hold one.
func TestGreedyPeerLosesItsOwnConnections(t *testing.T) {
	address := served(t)
	const unfinished = "GET /healthz HTTP/1.1\r\nHost: a\r\n"
	modest := hold(t, address, "127.0.0.3", 1, unfinished)[0]
	greedy := hold(t, address, "127.0.0.2", 2*maxConns, unfinished)
	if !closedWithin(t, greedy[0], within) {
		t.Error("the oldest connection of the flood is still there")
	}
	_, err := io.WriteString(modest, "Connection: close\r\n\r\n")
	must(t, err)
	must(t, modest.SetReadDeadline(time.Now().Add(within)))
	answer, err := io.ReadAll(modest)
	if err != nil || len(answer) == 0 {
		t.Errorf("the connection that was there first is answered %q, %v", answer, err)
	}
}

func TestHeldConnectionEndsInSeconds(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for the server's limits")
	}
	address := served(t)
	for name, words := range map[string]string{
		"says nothing":     "",
		"half a header":    "GET /healthz HTTP/1.1\r\nHost: a\r\n",
		"asked and stays":  "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n",
		"half a body":      "POST /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nx",
		"header too large": "GET /healthz HTTP/1.1\r\nHost: a\r\nX: " + fmt.Sprintf("%0*d", 64<<10, 0),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if !closedWithin(t, hold(t, address, "127.0.0.1", 1, words)[0], 20*time.Second) {
				t.Error("it is still held")
			}
		})
	}
}

func TestPeerIsTheAddressWithoutItsPort(t *testing.T) {
	for addr, want := range map[net.Addr]string{
		&net.TCPAddr{IP: net.ParseIP("10.1.2.3"), Port: 4}:      "10.1.2.3",
		&net.TCPAddr{IP: net.ParseIP("fd00::1"), Port: 65535}:   "fd00::1",
		&net.UnixAddr{Name: "/run/somewhere.sock", Net: "unix"}: "/run/somewhere.sock",
	} {
		if got := peer(addr); got != want {
			t.Errorf("%v is of %q, want %q", addr, got, want)
		}
	}
}
