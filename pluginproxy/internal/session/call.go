// The life of one ListAndWatch call, and of the connection below it.
//
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// call is one ListAndWatch call. Its handler and its sender are two goroutines,
// since Send blocks for as long as kubelet does not read, and only the return
// of the handler ends such a Send.
type call struct {
	superseded chan struct{} // closed when the handler must return
	returned   chan struct{} // closed when the handler has returned
	silent     chan struct{} // closed when this sender and all older ones have returned
}

// ListAndWatch streams the list: at once, and whenever it changes. A newer call
// ends it.
func (s *Server) ListAndWatch(_ *pluginapi.Empty, stream grpc.ServerStreamingServer[pluginapi.ListAndWatchResponse]) error {
	c, older, err := s.begin()
	if err != nil {
		return err
	}
	defer s.end(c)

	failed := make(chan error, 1)
	s.work.Go(func() {
		defer close(c.silent)
		failed <- s.send(stream, c, older)
		if older != nil {
			<-older.silent
		}
	})
	select {
	case err := <-failed:
		return err
	case <-stream.Context().Done():
		return nil
	case <-c.superseded:
		return status.Error(codes.Aborted, "this session was ended: a newer one has begun or the server is being replaced")
	}
}

// begin makes a call the newest and ends the one before, which it returns.
func (s *Server) begin() (c, older *call, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return nil, nil, status.Error(codes.Unavailable, "this server is being replaced")
	}
	c = &call{superseded: make(chan struct{}), returned: make(chan struct{}), silent: make(chan struct{})}
	older, s.newest = s.newest, c
	if older != nil {
		close(older.superseded)
		s.cfg.Stats.Superseded.Add(1)
		s.cfg.Log.Info("a newer session supersedes the one before")
	} else {
		close(s.started)
	}
	s.cfg.Stats.Sessions.Add(1)
	s.cfg.Stats.Active.Add(1)
	return c, older, nil
}

// end is the handler's last act. When the newest call ends the server is over:
// kubelet disconnects and never calls ListAndWatch again.
func (s *Server) end(c *call) {
	s.cfg.Stats.Active.Add(-1)
	close(c.returned)
	s.mu.Lock()
	last := s.newest == c
	if last {
		s.newest, s.ended = nil, true
	}
	s.mu.Unlock()
	if last {
		s.finish()
	}
}

// send sends the list of now, then each one that differs from the one before:
// the first change at once, later ones no more often than the interval allows.
//
// Messages of an older session may still be on their way to kubelet, which takes
// whatever comes last. So the older handler has returned before the first list
// goes out, and once all older senders are silent too the list is sent once more.
func (s *Server) send(stream grpc.ServerStreamingServer[pluginapi.ListAndWatchResponse], c, older *call) error {
	var olderSilent <-chan struct{}
	if older != nil {
		select {
		case <-older.returned:
		case <-stream.Context().Done():
			return nil
		}
		olderSilent = older.silent
	}
	var (
		sent  []*pluginapi.Device
		first = true
		again = false     // send even an equal list
		due   time.Time   // when the next list may go out
		pause = s.pause() // fires at due, when there is something to send
	)
	defer pause.Stop()
	for {
		offer, changed := s.cfg.Offer.Get()
		if list := offer.List(); first || again || !equal(sent, list) {
			if wait := time.Until(due); wait > 0 {
				pause.Reset(wait)
			} else {
				if err := stream.Send(&pluginapi.ListAndWatchResponse{Devices: list}); err != nil {
					return err
				}
				s.cfg.Stats.Lists.Add(1)
				if !first {
					due = time.Now().Add(s.cfg.Interval)
				}
				sent, first, again = list, false, false
			}
		}
		select {
		case <-changed:
		case <-pause.C:
		case <-olderSilent:
			olderSilent, again = nil, true
			due = time.Now().Add(s.cfg.Interval)
		case <-c.superseded:
			return nil
		case <-stream.Context().Done():
			return nil
		}
	}
}

// pause returns a timer that is not running.
func (s *Server) pause() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}

func equal(a, b []*pluginapi.Device) bool {
	return slices.EqualFunc(a, b, func(x, y *pluginapi.Device) bool { return x == y || proto.Equal(x, y) })
}

// connWatcher tells kubelet's connection from those of others: it is the one that
// the first call of this API came through, for nobody else has been told the socket's
// name. Calls of other services may come by other connections.
//
// When a stranger's session supersedes kubelet's, kubelet hangs up and never
// comes back by itself. Then the stranger's session ends, too.
type connWatcher struct{ s *Server }

// connKey finds the channel that is closed when a connection has gone.
type connKey struct{}

// TagConn is called by gRPC when a connection is there.
func (connWatcher) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context {
	return context.WithValue(ctx, connKey{}, make(chan struct{}))
}

// TagRPC is called by gRPC for each call.
func (w connWatcher) TagRPC(ctx context.Context, info *stats.RPCTagInfo) context.Context {
	if !strings.HasPrefix(info.FullMethodName, "/"+pluginapi.DevicePlugin_ServiceDesc.ServiceName+"/") {
		return ctx
	}
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	if w.s.kubelet == nil {
		w.s.kubelet = connection(ctx)
	}
	return ctx
}

// HandleConn is called by gRPC when a connection has begun and when it is gone.
func (w connWatcher) HandleConn(ctx context.Context, event stats.ConnStats) {
	if _, gone := event.(*stats.ConnEnd); !gone {
		return
	}
	conn := connection(ctx)
	close(conn)
	w.s.mu.Lock()
	left := conn == w.s.kubelet && w.s.newest != nil
	w.s.mu.Unlock()
	if left {
		w.s.End()
	}
}

// HandleRPC has nothing to note.
func (connWatcher) HandleRPC(context.Context, stats.RPCStats) {}

func connection(ctx context.Context) chan struct{} {
	conn, _ := ctx.Value(connKey{}).(chan struct{})
	return conn
}
