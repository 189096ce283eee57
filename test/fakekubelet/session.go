// SPDX-License-Identifier: Apache-2.0

package fakekubelet

// This file holds one ListAndWatch call from its opening to its end.

import (
	"context"
	"errors"
	"slices"
	"time"

	"google.golang.org/grpc"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// sessionKey finds the session in the context of its call.
type sessionKey struct{}

// errLinkClosed ends a session that nobody reads when kubelet closes the connection below it.
var errLinkClosed = errors.New("connection closed by kubelet")

// session is one ListAndWatch call.
type session struct {
	c      *client
	l      *link
	ctx    context.Context
	cancel context.CancelFunc

	// Guarded by k.mu.
	rec    Session       // what a State shows of it
	resume chan struct{} // closed to end a Blackhole; nil when the stream is read
}

// open books a session on a connection of the client; pump makes the call.
func (c *client) open(l *link) *session {
	s := &session{c: c, l: l}
	k := c.p.k
	ctx, cancel := context.WithCancel(c.p.ctx)
	s.ctx, s.cancel = context.WithValue(ctx, sessionKey{}, s), cancel
	k.update(func() {
		s.rec = Session{
			Number:   len(k.sessions) + 1,
			Resource: c.resource,
			Endpoint: c.path,
			Boot:     c.p.boot,
			Opened:   time.Now(),
		}
		k.sessions = append(k.sessions, s)
		c.streams[s] = struct{}{}
	})
	k.log.Debug("session opened", "resource", c.resource, "session", s.rec.Number)
	return s
}

// pump calls ListAndWatch and takes its messages until the stream ends.
func (s *session) pump() {
	defer s.cancel()
	k := s.c.p.k
	stream, err := s.l.api.ListAndWatch(s.ctx, &pluginapi.Empty{})
	for err == nil {
		err = s.receive(stream)
	}
	k.update(func() {
		s.rec.Ended = time.Now()
		s.rec.Err = err
	})
	k.log.Debug("session ended", "resource", s.c.resource, "session", s.rec.Number, "error", err)
}

// receive takes one message. In a Blackhole the message, or the end, that the pending Recv returns is kept until Resume.
func (s *session) receive(stream grpc.ServerStreamingClient[pluginapi.ListAndWatchResponse]) error {
	resp, err := stream.Recv()
	if gateErr := s.gate(); gateErr != nil {
		return gateErr
	}
	if err != nil {
		return err
	}
	s.push(resp.GetDevices())
	return nil
}

// gate blocks while the session is a black hole.
func (s *session) gate() error {
	s.c.p.k.mu.Lock()
	resume := s.resume
	s.c.p.k.mu.Unlock()
	if resume == nil {
		return nil
	}
	select {
	case <-resume:
		return nil
	case <-s.ctx.Done():
		return s.ctx.Err()
	case <-s.l.gone:
		return errLinkClosed
	}
}

// push books a list; it replaces the resource's whole list whichever session it comes from (manager.go, genericDeviceUpdateCallback).
func (s *session) push(sent []*pluginapi.Device) {
	devices := devicesOf(sent)
	c, p, k := s.c, s.c.p, s.c.p.k
	k.update(func() {
		if last := k.lastList[c.resource]; slices.EqualFunc(last, devices, Device.equal) {
			devices = last
		}
		k.lastList[c.resource] = devices
		k.responses = append(k.responses, Response{
			Session:  s.rec.Number,
			Resource: c.resource,
			Boot:     p.boot,
			At:       time.Now(),
			Devices:  devices,
		})
		s.rec.Responses++
		p.books.listed(c.resource, devices)
	})
	k.log.Debug("list received", "resource", c.resource, "session", s.rec.Number, "devices", len(devices))
	if err := k.saveCheckpoint(p); err != nil {
		k.log.Debug("checkpoint not written", "error", err)
	}
}

// pluginLeft notes the first sign that the plugin has ended the stream or its connection; the caller holds k.mu.
func (s *session) pluginLeft(at time.Time) {
	if s.rec.PluginEnded.IsZero() {
		s.rec.PluginEnded = at
	}
}

// pluginHasLeft notes that a connection has broken under its sessions.
func (k *Kubelet) pluginHasLeft(l *link) {
	now := time.Now()
	k.update(func() {
		for _, s := range k.sessions {
			if s.l == l && s.rec.Ended.IsZero() {
				s.pluginLeft(now)
			}
		}
	})
}

func devicesOf(sent []*pluginapi.Device) []Device {
	devices := make([]Device, len(sent))
	for i, d := range sent {
		devices[i] = Device{ID: d.GetID(), Health: d.GetHealth()}
		for _, n := range d.GetTopology().GetNodes() {
			devices[i].NUMANodes = append(devices[i].NUMANodes, n.GetID())
		}
	}
	return devices
}
