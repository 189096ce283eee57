// SPDX-License-Identifier: Apache-2.0

package fakekubelet_test

// This file holds the least device plugin that the tests need, and their helpers.

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/stats"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/rdma-relay/rdma-relay/test/fakekubelet"
)

const widget = "test.example/widget"

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// plugin serves one list to any number of ListAndWatch calls.
type plugin struct {
	pluginapi.UnimplementedDevicePluginServer
	path string
	srv  *grpc.Server
	wg   sync.WaitGroup
	opts *pluginapi.DevicePluginOptions

	registration registerapi.RegistrationServer // nil: the plugin does not know the watcher route

	mu        sync.Mutex
	devices   []*pluginapi.Device
	changed   chan struct{}
	endAll    chan struct{} // closed to make every ListAndWatch handler return
	allocated [][]string
	preferred []*pluginapi.ContainerPreferredAllocationRequest
	prefer    func(*pluginapi.ContainerPreferredAllocationRequest) ([]string, error)
	sent      int
	times     int // how often a list is sent in a row; 0 is 1

	connClosed chan struct{} // gets a value for each connection that ends
}

// The plugin watches its connections end, since kubelet's closing is the sign that a stream's end is dealt with.
func (p *plugin) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (p *plugin) HandleRPC(context.Context, stats.RPCStats)                         {}
func (p *plugin) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (p *plugin) HandleConn(_ context.Context, s stats.ConnStats) {
	if _, ok := s.(*stats.ConnEnd); ok {
		p.connClosed <- struct{}{}
	}
}

// serve starts a plugin with n healthy devices called <id>0... on dir/name.
func serve(t *testing.T, dir, name, id string, n int) *plugin {
	t.Helper()
	p := newPlugin(dir, name, id, n)
	p.listen(t)
	t.Cleanup(p.stop)
	return p
}

func newPlugin(dir, name, id string, n int) *plugin {
	return &plugin{
		path:    filepath.Join(dir, name),
		opts:    &pluginapi.DevicePluginOptions{},
		changed: make(chan struct{}),
		endAll:  make(chan struct{}),

		devices: devices(id, n),

		connClosed: make(chan struct{}, 100),
	}
}

func (p *plugin) listen(t *testing.T) {
	t.Helper()
	l, err := net.Listen("unix", p.path)
	if err != nil {
		t.Fatal(err)
	}
	p.srv = grpc.NewServer(grpc.WaitForHandlers(true), grpc.StatsHandler(p))
	pluginapi.RegisterDevicePluginServer(p.srv, p)
	if p.registration != nil {
		registerapi.RegisterRegistrationServer(p.srv, p.registration)
	}
	srv := p.srv
	p.wg.Go(func() { _ = srv.Serve(l) })
}

func (p *plugin) stop() {
	p.srv.Stop()
	p.wg.Wait()
}

func devices(id string, n int) []*pluginapi.Device {
	var ds []*pluginapi.Device
	for i := range n {
		ds = append(ds, &pluginapi.Device{ID: fmt.Sprintf("%s%d", id, i), Health: pluginapi.Healthy})
	}
	return ds
}

// list replaces the list and sends it to every stream.
func (p *plugin) list(ds []*pluginapi.Device) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.devices = ds
	close(p.changed)
	p.changed = make(chan struct{})
}

// flood sends a list a number of times in a row to every stream.
func (p *plugin) flood(times int, ds []*pluginapi.Device) {
	p.mu.Lock()
	p.times = times
	p.mu.Unlock()
	p.list(ds)
}

// endStreams makes every ListAndWatch handler return while the server goes on.
func (p *plugin) endStreams() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.endAll)
	p.endAll = make(chan struct{})
}

func (p *plugin) GetDevicePluginOptions(context.Context, *pluginapi.Empty) (*pluginapi.DevicePluginOptions, error) {
	if p.opts == nil {
		return nil, fmt.Errorf("no options today")
	}
	return p.opts, nil
}

func (p *plugin) ListAndWatch(_ *pluginapi.Empty, s grpc.ServerStreamingServer[pluginapi.ListAndWatchResponse]) error {
	p.mu.Lock()
	endAll := p.endAll
	p.mu.Unlock()
	for {
		p.mu.Lock()
		ds, changed, times := p.devices, p.changed, max(1, p.times)
		p.mu.Unlock()
		for range times {
			if err := s.Send(&pluginapi.ListAndWatchResponse{Devices: ds}); err != nil {
				return err
			}
			p.mu.Lock()
			p.sent++
			p.mu.Unlock()
		}
		select {
		case <-changed:
		case <-endAll:
			return nil
		case <-s.Context().Done():
			return nil
		}
	}
}

func (p *plugin) Allocate(_ context.Context, req *pluginapi.AllocateRequest) (*pluginapi.AllocateResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	resp := &pluginapi.AllocateResponse{}
	for _, c := range req.ContainerRequests {
		p.allocated = append(p.allocated, c.DevicesIds)
		resp.ContainerResponses = append(resp.ContainerResponses, &pluginapi.ContainerAllocateResponse{Envs: map[string]string{"SOCKET": p.path}})
	}
	return resp, nil
}

func (p *plugin) GetPreferredAllocation(_ context.Context, req *pluginapi.PreferredAllocationRequest) (*pluginapi.PreferredAllocationResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := req.ContainerRequests[0]
	p.preferred = append(p.preferred, c)
	ids, err := p.prefer(c)
	if err != nil {
		return nil, err
	}
	return &pluginapi.PreferredAllocationResponse{ContainerResponses: []*pluginapi.ContainerPreferredAllocationResponse{{DeviceIDs: ids}}}, nil
}

// shortDir is a directory whose name leaves room for sockets.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "fk")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "k")
}

// start runs a kubelet in a fresh directory.
func start(t *testing.T, opts fakekubelet.Options) *fakekubelet.Kubelet {
	t.Helper()
	k := fakekubelet.New(shortDir(t), opts)
	t.Cleanup(func() { check(t, k.Close()) })
	check(t, k.Start())
	return k
}

func register(t *testing.T, k *fakekubelet.Kubelet, endpoint string) error {
	t.Helper()
	return registerWith(deadline(t), k, endpoint)
}

func registerAs(t *testing.T, k *fakekubelet.Kubelet, req *pluginapi.RegisterRequest) error {
	t.Helper()
	return call(deadline(t), k, req)
}

func registerWith(ctx context.Context, k *fakekubelet.Kubelet, endpoint string) error {
	return call(ctx, k, &pluginapi.RegisterRequest{Version: pluginapi.Version, Endpoint: endpoint, ResourceName: widget})
}

func call(ctx context.Context, k *fakekubelet.Kubelet, req *pluginapi.RegisterRequest) error {
	conn, err := grpc.NewClient("unix://"+k.SocketPath(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	_, err = pluginapi.NewRegistrationClient(conn).Register(ctx, req)
	return err
}

// deadline bounds a wait generously: it is reached only when something is broken.
func deadline(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func wait(t *testing.T, k *fakekubelet.Kubelet, cond func(fakekubelet.State) bool) {
	t.Helper()
	check(t, k.Wait(deadline(t), cond))
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ended is a condition: kubelet has seen n sessions of the resource ending.
func ended(n int) func(fakekubelet.State) bool {
	return having(n, func(x fakekubelet.Session) bool { return !x.Ended.IsZero() })
}

// reaped is a condition: kubelet is done with n sessions of the resource.
func reaped(n int) func(fakekubelet.State) bool {
	return having(n, func(x fakekubelet.Session) bool { return !x.Reaped.IsZero() })
}

func having(n int, what func(fakekubelet.Session) bool) func(fakekubelet.State) bool {
	return func(s fakekubelet.State) bool {
		got := 0
		for _, x := range s.SessionsOf(widget) {
			if what(x) {
				got++
			}
		}
		return got == n
	}
}
