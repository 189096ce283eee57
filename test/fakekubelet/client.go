// SPDX-License-Identifier: Apache-2.0

package fakekubelet

// This file holds kubelet's client of one plugin: connect inside Register, run in the background, reap at the end. The steps and their
// order are those of plugin/v1beta1/handler.go and client.go, since it is the gaps between them that plugins fall into.

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// client is what one accepted (or tried) Register has made.
type client struct {
	p        *process
	resource string
	path     string

	// Guarded by k.mu.
	links   []*link               // what disconnect closes; nil before the dial and after the end
	streams map[*session]struct{} // running ListAndWatch calls
}

// connect handles one valid Register: books the client, dials, asks for the options, books the endpoint and starts the stream.
func (p *process) connect(ctx context.Context, resource, path string) error {
	k := p.k
	c := &client{p: p, resource: resource, path: path, streams: map[*session]struct{}{}}
	k.update(func() { p.books.register(c) })
	l, err := c.dialBack(ctx)
	if err != nil {
		// By key, not by identity: an older client with the same key leaves the books as well, and its end is never processed.
		k.update(func() { p.books.deregister(resource, path) })
		return err
	}
	c.start(l)
	return nil
}

// start opens a session and runs it, or books its end where the process has died meanwhile.
func (c *client) start(l *link) *session {
	s := c.open(l)
	if !c.p.spawn(func() { c.run(s) }) {
		s.cancel()
		now := time.Now()
		c.p.k.update(func() {
			delete(c.streams, s)
			s.rec.Ended, s.rec.Reaped, s.rec.Err = now, now, ErrNotRunning
		})
	}
	return s
}

// dialBack makes the connection and the endpoint. When it fails after the dial the connection stays open until the process ends, as
// kubelet's does.
func (c *client) dialBack(ctx context.Context) (*link, error) {
	dial := c.p.dial
	if c.p.k.takeDialFailure() {
		dial = c.p.dialNobody
	}
	l, err := dial(ctx, c.path)
	if err != nil {
		return nil, status.Errorf(codes.Unknown, "failed to dial device plugin: %v", err)
	}
	c.p.k.update(func() { c.links = append(c.links, l) })
	opts, err := l.api.GetDevicePluginOptions(ctx, &pluginapi.Empty{})
	if err != nil {
		return nil, status.Errorf(codes.Unknown, "failed to get device plugin options: %v", err)
	}
	c.p.k.update(func() {
		c.p.k.nodeStatus[c.resource] = struct{}{}
		err = c.p.books.connected(c.resource, &endpoint{path: c.path, api: l.api, opts: opts})
	})
	return l, err
}

// run keeps one stream until it ends and then reaps the client.
func (c *client) run(s *session) {
	s.pump()
	c.after(s)
	c.p.k.update(func() { s.rec.Reaped = time.Now() })
}

// after does what follows the end of a stream: nothing while another stream of the client is being read (see SecondSession).
func (c *client) after(s *session) {
	p, k := c.p, c.p.k
	if k.linger(p.ctx, beforeLookup) != nil {
		return
	}
	var found *client
	k.update(func() {
		delete(c.streams, s)
		for other := range c.streams {
			if other.resume == nil {
				return
			}
		}
		// By key again: it need not be c.
		found = p.books.lookup(c.resource, c.path)
	})
	if found != nil {
		found.reap()
	}
}

// reap is disconnect at the end of a stream, with the gaps that SlowReap widens.
func (c *client) reap() {
	k, ctx := c.p.k, c.p.ctx
	c.deregister()
	if k.linger(ctx, beforeClose) != nil {
		return
	}
	c.close()
	if k.linger(ctx, afterClose) != nil {
		return
	}
	c.stopEndpoint()
}

// disconnect takes the client out of the books, closes its connections and stops the endpoint that the books name then.
func (c *client) disconnect() {
	c.deregister()
	c.close()
	c.stopEndpoint()
}

func (c *client) deregister() {
	c.p.k.update(func() { c.p.books.deregister(c.resource, c.path) })
}

func (c *client) close() {
	c.p.k.mu.Lock()
	links := c.links
	c.links = nil
	c.p.k.mu.Unlock()
	for _, l := range links {
		l.close()
	}
}

func (c *client) stopEndpoint() {
	c.p.k.update(func() { c.p.books.disconnected(c.resource, c.path, time.Now()) })
	c.p.stopped()
}
