// SPDX-License-Identifier: Apache-2.0

package fakekubelet

// This file holds one connection to a plugin, with the handles on its wire that faults need.

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/stats"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// link is a gRPC connection and the sockets below it.
type link struct {
	p    *process
	conn *grpc.ClientConn
	api  pluginapi.DevicePluginClient

	mu     sync.Mutex
	isCut  bool
	frozen chan struct{} // closed to thaw; nil when reading goes on
	gone   chan struct{} // closed by cut and close: this side has ended the link, and no reader stays in the gate
	wires  map[net.Conn]struct{}
}

// dial connects to a plugin and waits until the connection is ready, trying again as gRPC does, until the dial timeout.
func (p *process) dial(ctx context.Context, path string) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, p.k.dialTimeout())
	defer cancel()
	defer context.AfterFunc(p.ctx, cancel)()
	l := &link{p: p, gone: make(chan struct{}), wires: map[net.Conn]struct{}{}}
	conn, err := grpc.NewClient("passthrough:///"+path,
		grpc.WithAuthority("localhost"),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(l.dialWire),
		grpc.WithStatsHandler(l),
	)
	if err != nil {
		return nil, err
	}
	l.conn, l.api = conn, pluginapi.NewDevicePluginClient(conn)
	for {
		s := conn.GetState()
		if s == connectivity.Ready {
			break
		}
		if s == connectivity.Idle {
			conn.Connect()
		}
		if !conn.WaitForStateChange(ctx, s) {
			_ = conn.Close()
			return nil, ctx.Err()
		}
	}
	dead := false
	p.k.update(func() {
		if dead = p.dead; !dead {
			p.links[l] = struct{}{}
		}
	})
	if dead {
		_ = conn.Close()
		return nil, errors.New("kubelet is gone")
	}
	return l, nil
}

// dialNobody is dial when nobody listens.
func (p *process) dialNobody(ctx context.Context, _ string) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, p.k.dialTimeout())
	defer cancel()
	defer context.AfterFunc(p.ctx, cancel)()
	<-ctx.Done()
	return nil, ctx.Err()
}

// close ends the connection as grpc.ClientConn.Close does.
func (l *link) close() {
	l.release()
	_ = l.conn.Close()
	l.p.k.mu.Lock()
	delete(l.p.links, l)
	l.p.k.mu.Unlock()
}

// cut closes the sockets below gRPC and lets it make no new ones, which is what the peer of a killed process sees.
func (l *link) cut() {
	l.release()
	l.mu.Lock()
	l.isCut = true
	wires := make([]net.Conn, 0, len(l.wires))
	for w := range l.wires {
		wires = append(wires, w)
	}
	l.mu.Unlock()
	for _, w := range wires {
		_ = w.Close()
	}
}

// freeze stops all reading from the wire, thaw lets it go on.
func (l *link) freeze() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.frozen == nil {
		l.frozen = make(chan struct{})
	}
}

func (l *link) thaw() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.frozen != nil {
		close(l.frozen)
		l.frozen = nil
	}
}

func (l *link) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.released() {
		close(l.gone)
	}
}

func (l *link) released() bool {
	select {
	case <-l.gone:
		return true
	default:
		return false
	}
}

// gate blocks while the link is frozen.
func (l *link) gate() {
	l.mu.Lock()
	frozen := l.frozen
	l.mu.Unlock()
	if frozen == nil {
		return
	}
	select {
	case <-frozen:
	case <-l.gone:
	}
}

func (l *link) dialWire(ctx context.Context, path string) (net.Conn, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	w := &wire{Conn: c, l: l}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isCut {
		_ = c.Close()
		return nil, net.ErrClosed
	}
	l.wires[w] = struct{}{}
	return w, nil
}

// wire is a socket whose reader can be held back.
type wire struct {
	net.Conn
	l *link
}

// Read reads and then waits while the link is frozen, so that one read that was under way may have emptied one buffer.
func (w *wire) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	w.l.gate()
	if err != nil && !w.l.released() {
		w.l.p.k.pluginHasLeft(w.l)
	}
	return n, err
}

// Close also forgets the socket.
func (w *wire) Close() error {
	w.l.mu.Lock()
	delete(w.l.wires, w)
	w.l.mu.Unlock()
	return w.Conn.Close()
}

// The rest makes link a stats.Handler: trailers are reported as they arrive, so the end of a stream is known even when nobody reads it.

// TagRPC returns the context unchanged: a session's own context carries the session.
func (l *link) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC notes that the plugin has ended a stream.
func (l *link) HandleRPC(ctx context.Context, s stats.RPCStats) {
	if _, ok := s.(*stats.InTrailer); !ok {
		return
	}
	if sess, ok := ctx.Value(sessionKey{}).(*session); ok {
		l.p.k.update(func() { sess.pluginLeft(time.Now()) })
	}
}

// TagConn returns the context unchanged.
func (l *link) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn has nothing to note.
func (l *link) HandleConn(context.Context, stats.ConnStats) {}
