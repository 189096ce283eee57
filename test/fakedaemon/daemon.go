// SPDX-License-Identifier: Apache-2.0

// Package fakedaemon is a discoveryd whose every message a test chooses: good
// snapshots, bad ones, none at all. It speaks the protocol of
// proto/discovery/v1 over a Unix socket and never looks at the host.
package fakedaemon

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

// Stream is the server's side of one WatchSnapshots call.
type Stream = grpc.ServerStreamingServer[discoveryv1.WatchSnapshotsResponse]

// Script answers one call, the first having number 1. The call ends when it
// returns. It must return when the stream's context ends.
type Script func(call int, stream Stream) error

// Daemon is one life of a daemon. Make it with Start, end it with Stop or Kill.
type Daemon struct {
	discoveryv1.UnimplementedDiscoveryServiceServer
	script Script
	calls  atomic.Int64
	socket string
	lis    *listener
	server *grpc.Server
	served sync.WaitGroup
}

// Start listens on the socket, in place of a dead one that may lie there. A nil
// script is a daemon without the service: it answers Unimplemented.
func Start(socket string, script Script) (*Daemon, error) {
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	lis, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("fake daemon: %w", err)
	}
	lis.SetUnlinkOnClose(false)
	d := &Daemon{
		script: script, socket: socket, lis: &listener{UnixListener: lis},
		server: grpc.NewServer(grpc.Creds(insecure.NewCredentials()), grpc.WaitForHandlers(true)),
	}
	if script != nil {
		discoveryv1.RegisterDiscoveryServiceServer(d.server, d)
	}
	d.served.Go(func() { _ = d.server.Serve(d.lis) }) // it ends when the listener is closed
	return d, nil
}

// WatchSnapshots implements the service.
func (d *Daemon) WatchSnapshots(_ *discoveryv1.WatchSnapshotsRequest, stream Stream) error {
	return d.script(int(d.calls.Add(1)), stream)
}

// Calls is the number of calls so far.
func (d *Daemon) Calls() int { return int(d.calls.Load()) }

// Stop ends the daemon as SIGTERM does: streams end with a word, the socket is
// removed.
func (d *Daemon) Stop() {
	_ = os.Remove(d.socket)
	d.server.Stop()
	d.served.Wait()
}

// Kill ends it as SIGKILL does: connections break, the dead socket stays.
func (d *Daemon) Kill() {
	d.lis.cut()
	d.server.Stop()
	d.served.Wait()
}

// listener remembers its connections, so that they can be cut.
type listener struct {
	*net.UnixListener
	mu    sync.Mutex
	conns []net.Conn
}

func (l *listener) Accept() (net.Conn, error) {
	conn, err := l.UnixListener.Accept()
	if err == nil {
		l.mu.Lock()
		l.conns = append(l.conns, conn)
		l.mu.Unlock()
	}
	return conn, err
}

func (l *listener) cut() {
	_ = l.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, conn := range l.conns {
		_ = conn.Close()
	}
}
