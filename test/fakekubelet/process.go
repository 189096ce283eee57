// SPDX-License-Identifier: Apache-2.0

package fakekubelet

// This file holds one life of a kubelet process: its listeners, its connections, its goroutines and how they end.

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// maxSocketPath is the room for a path in sockaddr_un, less its final zero byte.
const maxSocketPath = 107

// process is one kubelet from its start to its end.
type process struct {
	k     *Kubelet
	boot  int
	books *books

	ctx     context.Context // ends when the process does
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	unwatch func()        // ends the watcher route; nil without one, guarded by k.verbs
	expiry  chan struct{} // a kick for sweep: an endpoint has stopped

	// Guarded by k.mu.
	dead     bool
	listener *net.UnixListener
	servers  []*grpc.Server // one for each bind; those of earlier binds serve what had connected to them
	links    map[*link]struct{}
}

func newProcess(k *Kubelet, registered []string) *process {
	ctx, cancel := context.WithCancel(context.Background())
	p := &process{
		k:      k,
		books:  newBooks(k.opts.Bookkeeping, registered, time.Now()),
		ctx:    ctx,
		cancel: cancel,
		expiry: make(chan struct{}, 1),
		links:  map[*link]struct{}{},
	}
	k.update(func() {
		k.boots++
		p.boot = k.boots
		for _, name := range registered {
			k.nodeStatus[name] = struct{}{}
		}
	})
	return p
}

// spawn runs f in a goroutine that kill waits for; it reports false, and does not, when the process is dead.
func (p *process) spawn(f func()) bool {
	if !p.enter() {
		return false
	}
	go func() {
		defer p.wg.Done()
		f()
	}()
	return true
}

// enter counts the caller among what kill waits for, until it calls wg.Done; false when the process is dead.
func (p *process) enter() bool {
	p.k.mu.Lock()
	defer p.k.mu.Unlock()
	if p.dead {
		return false
	}
	p.wg.Add(1)
	return true
}

// bind listens on kubelet.sock with a server of default options, as kubelet's own has (4 MiB).
func (p *process) bind() error {
	path := p.k.SocketPath()
	if len(path) > maxSocketPath {
		return fmt.Errorf("listen on %s: path has %d bytes, a unix socket takes %d", path, len(path), maxSocketPath)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return fmt.Errorf("listen on kubelet.sock: %w", err)
	}
	l.SetUnlinkOnClose(false) // a killed process unlinks nothing
	srv := grpc.NewServer()
	reg := &registry{p: p}
	p.k.update(func() {
		reg.bind = len(p.k.binds) + 1
		p.k.binds = append(p.k.binds, Bind{Number: reg.bind, Boot: p.boot, At: time.Now()})
		p.k.current = p
		p.listener = l
		p.servers = append(p.servers, srv)
	})
	pluginapi.RegisterRegistrationServer(srv, reg)
	p.spawn(func() {
		// Serve ends with an error when the listener is closed under it, which is how every bind ends.
		_ = srv.Serve(l)
	})
	return nil
}

func (p *process) closeListener() {
	p.k.mu.Lock()
	l := p.listener
	p.listener = nil
	p.k.mu.Unlock()
	if l != nil {
		_ = l.Close()
	}
}

// stop is devicemanager's Stop followed by the end of the process.
func (p *process) stop() error {
	p.k.mu.Lock()
	clients := p.books.all()
	p.k.mu.Unlock()
	for _, c := range clients {
		c.disconnect()
	}
	err := removeIfThere(p.k.SocketPath())
	p.kill()
	return err
}

// kill cuts every connection without a farewell and waits until no goroutine of the process is left.
func (p *process) kill() {
	var links []*link
	var servers []*grpc.Server
	p.k.update(func() {
		p.dead = true
		if p.k.current == p {
			p.k.current = nil
		}
		for l := range p.links {
			links = append(links, l)
		}
		servers = p.servers
	})
	p.closeListener()
	for _, l := range links {
		l.cut()
	}
	p.cancel()
	for _, s := range servers {
		s.Stop()
	}
	for _, l := range links {
		l.close()
	}
	p.wg.Wait()
}

// sweep lets the capacity of resources run out whose endpoint has been stopped for longer than the grace time.
func (p *process) sweep() {
	for {
		var next time.Time
		p.k.update(func() { next = p.books.expire(time.Now(), p.k.opts.StopGrace) })
		var timer <-chan time.Time
		var t *time.Timer
		if !next.IsZero() {
			t = time.NewTimer(time.Until(next))
			timer = t.C
		}
		select {
		case <-timer:
		case <-p.expiry:
		case <-p.ctx.Done():
		}
		if t != nil {
			t.Stop()
		}
		if p.ctx.Err() != nil {
			return
		}
	}
}

// stopped tells sweep that an endpoint has been stopped.
func (p *process) stopped() {
	select {
	case p.expiry <- struct{}{}:
	default: // a kick is waiting already
	}
}

// removeIfThere removes a file that may have gone already.
func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
