// SPDX-License-Identifier: Apache-2.0

package fakekubelet

// This file holds the faults of live sessions: dropped, not read, doubled, cut.

import (
	"errors"
	"fmt"
)

// ErrNoSession is returned by verbs that need a live session of the resource.
var ErrNoSession = errors.New("no live session")

// DropStream cancels the ListAndWatch calls of a resource and nothing else; kubelet then does what it does at the end of any stream.
// ErrNoSession when there is none.
func (k *Kubelet) DropStream(resource string) error {
	open, err := k.open(resource)
	for _, s := range open {
		s.cancel()
	}
	return err
}

// DropSession is DropStream for one session by its number.
func (k *Kubelet) DropSession(number int) error {
	s, err := k.session(number)
	if err != nil {
		return err
	}
	s.cancel()
	return nil
}

// CutConnection closes the sockets below the resource's sessions without a farewell, as if the kernel had dropped them.
// ErrNoSession when there is none.
func (k *Kubelet) CutConnection(resource string) error {
	open, err := k.open(resource)
	for _, s := range open {
		s.l.cut()
	}
	return err
}

// Blackhole stops reading the resource's streams and keeps them open: Recv is not called again, so HTTP/2 flow control fills up, while
// the connection lives, pings are answered and Allocate works. A Recv that was under way still takes one message off the wire; it is
// neither recorded nor booked before Resume. Kubelet does not notice the plugin ending the stream, State does (Session.PluginEnded).
// ErrNoSession when there is none.
func (k *Kubelet) Blackhole(resource string) error {
	open, err := k.open(resource)
	k.update(func() { blackhole(open) })
	return err
}

// BlackholeSession is Blackhole for one session by its number.
func (k *Kubelet) BlackholeSession(number int) error {
	s, err := k.session(number)
	if err != nil {
		return err
	}
	k.update(func() { blackhole([]*session{s}) })
	return nil
}

func blackhole(sessions []*session) {
	for _, s := range sessions {
		if s.resume == nil {
			s.resume = make(chan struct{})
		}
	}
}

// Resume ends every Blackhole and Freeze of the resource: what was held back is taken in order.
func (k *Kubelet) Resume(resource string) {
	open, _ := k.open(resource)
	k.update(func() {
		for _, s := range open {
			if s.resume != nil {
				close(s.resume)
				s.resume = nil
			}
		}
	})
	for _, s := range open {
		s.l.thaw()
	}
}

// Freeze stops reading the connections below the resource's sessions, as a stopped (SIGSTOP) kubelet does: no window updates, no answers to
// pings, no end of stream seen. What one read call had under way is still taken. ErrNoSession when there is none.
func (k *Kubelet) Freeze(resource string) error {
	open, err := k.open(resource)
	for _, s := range open {
		s.l.freeze()
	}
	return err
}

// SecondSession calls ListAndWatch once more on the connection of the resource's newest session, leaving that one open, and returns the
// new session's number. As long as one of such sessions is read, kubelet does not reap the plugin for the end of another.
func (k *Kubelet) SecondSession(resource string) (number int, err error) {
	open, err := k.open(resource)
	if err != nil {
		return 0, err
	}
	last := open[len(open)-1]
	return last.c.again(last.l), nil
}

// SecondConnection is SecondSession on a new connection to the same endpoint.
func (k *Kubelet) SecondConnection(resource string) (number int, err error) {
	open, err := k.open(resource)
	if err != nil {
		return 0, err
	}
	c := open[len(open)-1].c
	if !c.p.enter() {
		return 0, ErrNotRunning
	}
	defer c.p.wg.Done()
	l, err := c.p.dial(c.p.ctx, c.path)
	if err != nil {
		return 0, fmt.Errorf("dial %s: %w", c.path, err)
	}
	k.update(func() { c.links = append(c.links, l) })
	return c.again(l), nil
}

func (c *client) again(l *link) int { return c.start(l).rec.Number }

// open returns the resource's sessions that kubelet has not seen ending, oldest first.
func (k *Kubelet) open(resource string) ([]*session, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	open := filter(k.sessions, func(s *session) bool { return s.rec.Resource == resource && s.rec.Ended.IsZero() })
	if len(open) == 0 {
		return nil, fmt.Errorf("%s: %w", resource, ErrNoSession)
	}
	return open, nil
}

func (k *Kubelet) session(number int) (*session, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if number < 1 || number > len(k.sessions) || !k.sessions[number-1].rec.Ended.IsZero() {
		return nil, fmt.Errorf("session %d: %w", number, ErrNoSession)
	}
	return k.sessions[number-1], nil
}
