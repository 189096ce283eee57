// A listener that lets everyone in: who holds most connections loses one of them.
//
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"net"
	"slices"
	"sync"
)

// fairListener bounds the open connections without making anybody wait. When there
// are as many as may be, the oldest connection of the peer that has most of them is
// closed for the newcomer. So neither a peer that holds many connections nor many
// peers that hold one each can keep kubelet's probe out.
type fairListener struct {
	net.Listener
	most int

	mu     sync.Mutex
	byPeer map[string][]*fairConn // by IP address, oldest first
	open   int
	begun  uint64 // connections so far
}

func newFairListener(l net.Listener, most int) *fairListener {
	return &fairListener{Listener: l, most: most, byPeer: map[string][]*fairConn{}}
}

// Accept implements net.Listener.
func (l *fairListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &fairConn{Conn: conn, from: l, peer: peer(conn.RemoteAddr())}
	if victim := l.enter(c); victim != nil {
		_ = victim.Close() // its handler finds out by itself
	}
	return c, nil
}

// enter takes a connection into the books, and returns the one that has to go.
func (l *fairListener) enter(c *fairConn) (victim *fairConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open >= l.most {
		for _, list := range l.byPeer {
			greedier := victim == nil || len(list) > len(l.byPeer[victim.peer])
			if greedier || len(list) == len(l.byPeer[victim.peer]) && list[0].number < victim.number {
				victim = list[0]
			}
		}
		l.leave(victim)
	}
	l.begun++
	c.number = l.begun
	l.byPeer[c.peer] = append(l.byPeer[c.peer], c)
	l.open++
	return victim
}

// leave strikes a connection off the books, once; l.mu is held.
func (l *fairListener) leave(c *fairConn) {
	list := l.byPeer[c.peer]
	i := slices.Index(list, c)
	if i < 0 {
		return
	}
	l.open--
	if list = slices.Delete(list, i, i+1); len(list) == 0 {
		delete(l.byPeer, c.peer)
	} else {
		l.byPeer[c.peer] = list
	}
}

// fairConn is a connection that tells its listener when it is closed.
type fairConn struct {
	net.Conn
	from   *fairListener
	peer   string
	number uint64 // grows with time
}

// Close implements net.Conn.
func (c *fairConn) Close() error {
	c.from.mu.Lock()
	c.from.leave(c)
	c.from.mu.Unlock()
	return c.Conn.Close()
}

// peer is what connections of one host have in common.
func peer(addr net.Addr) string {
	host, _, err := net.SplitHostPort(addr.String())
	if err != nil {
		return addr.String()
	}
	return host
}
