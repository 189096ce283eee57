// Package register keeps each resource registered with the kubelet that is there
// now. This is the place where kubelet restarts are handled: see Keeper.hold.
//
// It is level-triggered: nothing here remembers what has been said to kubelet.
// Whatever ends a session leads to the same step, which begins from what is true
// then: is there a kubelet.sock, and which.
//
// There are two routes to kubelet, which differ only in how it learns of a socket:
// we call Register (call.go), or it finds the socket and asks (greet.go).
//
// SPDX-License-Identifier: Apache-2.0
package register

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/rdma-relay/rdma-relay/internal/unixsock"
	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/latest"
	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/session"
)

// Timing holds the waits of a Keeper. Tests shorten them; DefaultTiming is what
// the rest should use.
type Timing struct {
	// Register bounds one Register call, or the time from kubelet's question to its
	// verdict. Kubelet dials us back meanwhile, for up to 10 s.
	Register time.Duration
	// Call is how long kubelet may take to find a socket in its plugin registry.
	Call time.Duration
	// Session is how long after Register kubelet may take to open the session.
	Session time.Duration
	// Disconnect bounds the wait for kubelet to close its connection.
	Disconnect time.Duration
	// Grace is how long a change of kubelet may take to become complete before the
	// session is ended from this side: until a replaced kubelet has closed its
	// connection, or until kubelet.sock is wiped like our own socket.
	Grace time.Duration
	// Settle is the pause after the end of the connection. Kubelet up to 1.36 stops
	// whatever endpoint is current when it reaps an older one; a Register must not
	// land before it has.
	Settle time.Duration
	// Stable is how long a session must last for its end to be an event of its
	// own and not one more failure in a row.
	Stable time.Duration
}

// DefaultTiming is the timing for a real kubelet.
var DefaultTiming = Timing{
	Register:   15 * time.Second,
	Call:       time.Minute,
	Session:    5 * time.Second,
	Disconnect: time.Second,
	Grace:      20 * time.Millisecond,
	Settle:     100 * time.Millisecond,
	Stable:     10 * time.Second,
}

// Keeper keeps one resource registered. Fill the fields, then call Run once.
// State and Stats may be read at any time.
type Keeper struct {
	Resource string // prefix/name
	Dir      *Dir
	Sockets  *Names
	Session  session.Config
	Timing   Timing
	Log      *slog.Logger
	Stats    Stats

	state *latest.Value[State]
	retry backoff // Run's own
}

// NewKeeper returns a Keeper for resource.
func NewKeeper(resource string, dir *Dir, sockets *Names, cfg session.Config, timing Timing, log *slog.Logger) *Keeper {
	return &Keeper{
		Resource: resource, Dir: dir, Sockets: sockets, Session: cfg, Timing: timing, Log: log,
		state: latest.New(State{Since: time.Now(), Problem: "starting"}),
	}
}

// Run serves and registers the resource, again and again, until ctx ends. It
// returns when everything it started has ended and its socket is removed.
func (k *Keeper) Run(ctx context.Context) {
	var with Generation
	for {
		kubelet, changed := k.Dir.Kubelet()
		if !kubelet.Present() {
			k.lost(k.Dir.waiting())
			select {
			case <-changed:
				continue
			case <-ctx.Done():
				return
			}
		}
		if kubelet != with {
			with, k.retry = kubelet, backoff{}
			k.update(func(s *State) { s.Problem = k.Dir.pending })
		}
		err := k.hold(ctx)
		if ctx.Err() != nil {
			return
		}
		k.lost(err)
		if !k.pause(ctx, k.retry.after(err), with) {
			return
		}
	}
}

// pause waits for d, or for another kubelet than the given; it reports false when
// ctx has ended.
func (k *Keeper) pause(ctx context.Context, d time.Duration, than Generation) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		now, changed := k.Dir.Kubelet()
		if now != than {
			return ctx.Err() == nil
		}
		select {
		case <-changed:
		case <-timer.C:
			return true
		case <-ctx.Done():
			return false
		}
	}
}

// hold serves the resource under a fresh socket name, registers it with the
// kubelet of now, and stays for as long as the session is worth keeping. It
// returns why it is not, after kubelet has had the time to notice.
func (k *Keeper) hold(ctx context.Context) error {
	intro, kubelet, err := k.introduction(ctx)
	if err != nil {
		k.Stats.Unreachable.Add(1)
		return err
	}
	defer intro.close()

	name := k.Sockets.Next(k.Resource)
	listener, err := unixsock.Listen(filepath.Join(k.Dir.Path(), name), unixsock.Options{Mode: 0o600})
	if err != nil {
		return unreachable{fmt.Errorf("serve as uid %d: %s", os.Geteuid(), without(name, err.Error()))}
	}
	socketGone, release := k.Dir.Guard(name, listener.ID())
	defer release()
	server := session.Serve(listener, k.Session, intro.services()...)
	defer server.Stop()

	call, cancel := context.WithCancel(ctx)
	var calling sync.WaitGroup
	registered := make(chan error, 1)
	calling.Go(func() { registered <- intro.introduce(call, name) })

	why := k.watch(ctx, kubelet, server, registered, socketGone)
	// A call that is given up ends before the pauses below: kubelet up to 1.36 then
	// forgets whatever plugin has the resource's name.
	cancel()
	calling.Wait()
	if s, _ := k.State(); s.Session && time.Since(s.Since) >= k.Timing.Stable {
		k.retry = backoff{}
	}
	if ctx.Err() == nil {
		k.lost(why)
		k.settle(ctx, kubelet, server, why)
	}
	return why
}

// watch waits until the session that is to come, or has come, is lost or of no
// more use, and returns why.
func (k *Keeper) watch(ctx context.Context, kubelet Generation, server *session.Server, registered <-chan error, socketGone <-chan struct{}) error {
	started := server.Started()
	var tooLate <-chan time.Time
	var hungUp <-chan struct{} // set between Register's answer and the session
	for {
		now, changed := k.Dir.Kubelet()
		if now.Present() && now != kubelet {
			return fmt.Errorf("%s is another one: %w", k.Dir.sign, errReplaced)
		}
		gone := socketGone
		if !now.Present() {
			gone = nil // the session needs no file, and nobody could take us back
		}
		select {
		case err := <-registered:
			registered = nil
			// An error while there is a session: kubelet has registered us and its
			// answer was lost.
			if err != nil && !closed(server.Started()) {
				if isUnreachable(err) {
					k.Stats.Unreachable.Add(1)
				} else {
					k.Stats.Refused.Add(1)
				}
				return err
			}
			k.Stats.OK.Add(1)
			k.update(func(s *State) { s.Registered = true })
			if started != nil {
				timer := time.NewTimer(k.Timing.Session)
				defer timer.Stop()
				tooLate, hungUp = timer.C, server.HungUp()
			}
		case <-started:
			started, tooLate, hungUp = nil, nil, nil
			k.update(func(s *State) { s.Session, s.Problem = true, "" })
			k.Log.Info("kubelet has opened a session")
		case <-tooLate:
			return fmt.Errorf("kubelet accepted the registration but opened no session within %v", k.Timing.Session)
		case <-hungUp:
			return errHungUp
		case <-server.Over():
			return errSessionLost
		case <-gone:
			// Whoever wipes the directory may not have come to kubelet.sock yet.
			k.pause(ctx, k.Timing.Grace, kubelet)
			if now, _ := k.Dir.Kubelet(); now == kubelet {
				return errSocketGone
			}
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// settle gives kubelet the time to notice the end of a session, so that the next
// Register is not taken back when it does.
func (k *Keeper) settle(ctx context.Context, kubelet Generation, server *session.Server, why error) {
	if errors.Is(why, errReplaced) {
		// The old kubelet is dead as a rule, and its connections with it.
		grace, cancel := context.WithTimeout(ctx, k.Timing.Grace)
		defer cancel()
		if server.Disconnected(grace) {
			return
		}
	}
	server.End()
	bound, cancel := context.WithTimeout(ctx, k.Timing.Disconnect)
	defer cancel()
	server.Disconnected(bound)
	// On the watcher route kubelet up to 1.36 forgets whatever plugin has the resource's
	// name when a socket is removed: the old one goes before the next one comes.
	server.Stop()
	if !errors.Is(why, errReplaced) {
		k.pause(ctx, k.Timing.Settle, kubelet)
		return
	}
	timer := time.NewTimer(k.Timing.Settle)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
