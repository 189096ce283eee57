// Package session is one resource's device-plugin server: it answers kubelet's
// calls and keeps at most one ListAndWatch session, the newest.
//
// A Server lives from one registration to the end of its session; the room
// register starts a new one under a fresh socket name whenever that is needed.
// What the server gives out comes from a latest.Value, so whatever was sent to
// older sessions, a new one begins with the whole list of now.
//
// SPDX-License-Identifier: Apache-2.0
package session

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/latest"
)

// Offer is what a resource gives at one moment. It must not change; its methods
// must be safe for concurrent use.
type Offer interface {
	// List is the device list for kubelet, sorted by ID.
	List() []*pluginapi.Device
	// Options are what kubelet asks for before it asks for the list.
	Options() *pluginapi.DevicePluginOptions
	// Allocate answers one container's request; its errors are gRPC statuses.
	Allocate(ids []string) (*pluginapi.ContainerAllocateResponse, error)
	// Preferred picks size of the available IDs, mustInclude among them.
	Preferred(available, mustInclude []string, size int) []string
}

// Stats counts what happened to one resource over all its servers. The zero
// value is ready; all fields are safe for concurrent use.
type Stats struct {
	Sessions           atomic.Uint64 // ListAndWatch sessions begun
	Superseded         atomic.Uint64 // of those, ended by a newer one
	Active             atomic.Int64  // sessions that are open now
	Lists              atomic.Uint64 // lists sent
	AllocationsOK      atomic.Uint64
	AllocationsRefused atomic.Uint64
	// ObserveAllocation, where set, is told how long each Allocate took. Set it
	// before the first use.
	ObserveAllocation func(time.Duration)
}

// Config is what a Server needs. All fields but Interval are musts.
type Config struct {
	Offer *latest.Value[Offer]
	Stats *Stats
	Log   *slog.Logger
	// Interval is the least time between two lists of one session after the
	// first change; kubelet syncs a file for each list. 0 means DefaultInterval.
	Interval time.Duration
}

// DefaultInterval is the least time between two lists of one session.
const DefaultInterval = time.Second

// Server serves the device-plugin API of one resource on one listener. Make it
// with Serve, end it with Stop. All methods may be called concurrently.
type Server struct {
	pluginapi.UnimplementedDevicePluginServer
	cfg  Config
	grpc *grpc.Server
	work sync.WaitGroup // Serve's goroutine and the senders

	started chan struct{} // closed when the first session begins
	over    chan struct{} // closed when no session will ever be served again

	mu      sync.Mutex
	newest  *call
	ended   bool          // no new call is taken
	kubelet chan struct{} // closed when kubelet has hung up; nil until it has called
	closed  sync.Once     // guards over
}

// Service is a further gRPC service on the same socket; the function registers it.
type Service func(grpc.ServiceRegistrar)

// Serve answers on lis at once and until Stop, which closes it.
func Serve(lis net.Listener, cfg Config, more ...Service) *Server {
	if cfg.Interval == 0 {
		cfg.Interval = DefaultInterval
	}
	s := &Server{
		cfg:     cfg,
		started: make(chan struct{}),
		over:    make(chan struct{}),
	}
	s.grpc = grpc.NewServer(
		grpc.StatsHandler(connWatcher{s}),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.ConnectionTimeout(handshakeTimeout),
		grpc.WaitForHandlers(true),
	)
	pluginapi.RegisterDevicePluginServer(s.grpc, s)
	for _, register := range more {
		register(s.grpc)
	}
	s.work.Go(func() {
		// It returns an error when the listener breaks: then nobody can reach
		// this server any more and the session's owner has to make a new one. Where
		// Stop was quicker, that is an error, too.
		if err := s.grpc.Serve(lis); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			cfg.Log.Warn("device-plugin server failed", "error", err)
		}
		s.finish()
	})
	return s
}

const (
	// Kubelet opens one connection with one long call and short ones beside it.
	maxStreams = 128
	// Stop may have to wait for as long: gRPC does not abort the handshake of a
	// peer that has connected and says nothing. Kubelet begins at once, and would
	// dial again.
	handshakeTimeout = time.Second
)

// Started is closed when kubelet has opened a session.
func (s *Server) Started() <-chan struct{} { return s.started }

// Over is closed when the session has ended, by kubelet, by End or since the
// server failed. Kubelet never opens another one by itself.
func (s *Server) Over() <-chan struct{} { return s.over }

// End ends the session and takes no other. The connections stay, so that
// kubelet sees the stream's end first and closes them itself.
func (s *Server) End() {
	s.mu.Lock()
	s.ended = true
	if s.newest != nil {
		close(s.newest.superseded)
		s.newest = nil
	}
	s.mu.Unlock()
	s.finish()
}

// Stop ends everything, removes the socket, and waits until all calls and
// goroutines of the server have returned.
func (s *Server) Stop() {
	s.End()
	s.grpc.Stop()
	s.work.Wait()
}

// HungUp is closed when kubelet has closed its connection; nil as long as nobody
// has called.
func (s *Server) HungUp() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kubelet
}

// Disconnected waits until kubelet has closed its connection, or until ctx ends;
// it reports which. A server that never was called is disconnected.
func (s *Server) Disconnected(ctx context.Context) bool {
	gone := s.HungUp()
	if gone == nil {
		return true
	}
	select {
	case <-gone:
		return true
	case <-ctx.Done():
		return false
	}
}

func (s *Server) finish() { s.closed.Do(func() { close(s.over) }) }

// GetDevicePluginOptions is kubelet's first call on a new connection.
func (s *Server) GetDevicePluginOptions(context.Context, *pluginapi.Empty) (*pluginapi.DevicePluginOptions, error) {
	offer, _ := s.cfg.Offer.Get()
	return offer.Options(), nil
}

// Allocate answers for each container from the offer of now.
func (s *Server) Allocate(_ context.Context, req *pluginapi.AllocateRequest) (*pluginapi.AllocateResponse, error) {
	begin := time.Now()
	offer, _ := s.cfg.Offer.Get()
	resp := &pluginapi.AllocateResponse{}
	for _, c := range req.GetContainerRequests() {
		answer, err := offer.Allocate(c.GetDevicesIds())
		if err != nil {
			s.cfg.Stats.AllocationsRefused.Add(1)
			s.cfg.Log.Warn("allocation refused", "ids", len(c.GetDevicesIds()), "error", err)
			return nil, err
		}
		resp.ContainerResponses = append(resp.ContainerResponses, answer)
	}
	if len(resp.ContainerResponses) == 0 {
		s.cfg.Stats.AllocationsRefused.Add(1)
		return nil, status.Error(codes.InvalidArgument, "the request names no container")
	}
	s.cfg.Stats.AllocationsOK.Add(1)
	if s.cfg.Stats.ObserveAllocation != nil {
		s.cfg.Stats.ObserveAllocation(time.Since(begin))
	}
	return resp, nil
}

// GetPreferredAllocation is asked when Options announced it. An error would fail
// the pod's admission, so there is none.
func (s *Server) GetPreferredAllocation(_ context.Context, req *pluginapi.PreferredAllocationRequest) (*pluginapi.PreferredAllocationResponse, error) {
	offer, _ := s.cfg.Offer.Get()
	resp := &pluginapi.PreferredAllocationResponse{}
	for _, c := range req.GetContainerRequests() {
		ids := offer.Preferred(c.GetAvailableDeviceIDs(), c.GetMustIncludeDeviceIDs(), int(c.GetAllocationSize()))
		resp.ContainerResponses = append(resp.ContainerResponses, &pluginapi.ContainerPreferredAllocationResponse{DeviceIDs: ids})
	}
	return resp, nil
}
