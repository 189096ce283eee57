// The socket, for as long as the daemon lives.
//
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/rdma-relay/rdma-relay/internal/unixsock"
)

// socketCheck is how often the daemon looks whether its socket's file is still there.
const socketCheck = 2 * time.Second

// listenOn makes the socket.
func listenOn(path string) (*unixsock.Listener, error) {
	return unixsock.Listen(path, unixsock.Options{Mode: socketMode})
}

// serveSocket serves until ctx ends or serving fails. When somebody has removed the
// socket's file it is made anew: a stream that is open would live on without it, but
// no peer could come back, whatever it does. What another living process serves there
// is left alone, and looked at again.
func (d *Daemon) serveSocket(ctx context.Context, listener *unixsock.Listener) error {
	check := time.NewTicker(d.socketCheck)
	defer check.Stop()
	served := d.serveOn(listener)
	trouble := ""
	for {
		select {
		case err := <-served:
			// A server that was told to stop before it began does not know its listener.
			d.closeSocket(listener)
			if err != nil && ctx.Err() == nil {
				return fmt.Errorf("serve on %s: %w", d.opts.Socket, err)
			}
			return nil
		case <-check.C:
		}
		if listener.Present() || ctx.Err() != nil {
			continue
		}
		next, err := listenOn(d.opts.Socket)
		if err != nil {
			if err.Error() != trouble {
				trouble = err.Error()
				d.log.Error("the socket's file was removed and can't be made anew; it is tried again", "error", err)
			}
			continue
		}
		trouble = ""
		d.log.Warn("the socket's file was removed; it has been made anew", "socket", d.opts.Socket)
		d.closeSocket(listener)
		if err := <-served; err != nil {
			d.log.Debug("the removed socket is no longer served", "error", err)
		}
		listener, served = next, d.serveOn(next)
	}
}

// serveOn serves on the listener until that is closed or the server stops.
func (d *Daemon) serveOn(listener *unixsock.Listener) <-chan error {
	served := make(chan error, 1)
	go func() { served <- d.server.Serve(listener) }()
	return served
}

func (d *Daemon) closeSocket(listener *unixsock.Listener) {
	if err := listener.Close(); err != nil && !errors.Is(err, fs.ErrClosed) {
		d.log.Warn("socket not removed", "error", err)
	}
}
