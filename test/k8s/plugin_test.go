// A device plugin of a few lines that a test drives step by step: it shows what kubelet
// does, without any rule of ours in between.
//
// SPDX-License-Identifier: Apache-2.0

package k8s

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	dp "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// plugin serves one resource on one socket.
type plugin struct {
	dp.UnimplementedDevicePluginServer
	t        testing.TB
	dir      string
	endpoint string
	devices  int
	server   *grpc.Server

	streams     chan *pluginStream // each call of ListAndWatch
	allocations atomic.Int32
	conns       connCounter
}

// pluginStream is one call of ListAndWatch.
type pluginStream struct {
	push   chan int   // list so many devices
	finish chan error // leave the handler
	ended  chan time.Time
}

// servePlugin lists so many devices to whoever calls.
func servePlugin(t testing.TB, dir, endpoint string, devices int) *plugin {
	t.Helper()
	p := &plugin{t: t, dir: dir, endpoint: endpoint, devices: devices, streams: make(chan *pluginStream, 64)}
	l, err := net.Listen("unix", filepath.Join(dir, endpoint))
	if err != nil {
		t.Fatal(err)
	}
	p.conns.Listener = l
	p.conns.closed = make(chan time.Time, 1024)
	p.server = grpc.NewServer()
	dp.RegisterDevicePluginServer(p.server, p)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = p.server.Serve(&p.conns) // ends with Stop
	}()
	t.Cleanup(func() { p.server.Stop(); <-done })
	return p
}

func (p *plugin) GetDevicePluginOptions(context.Context, *dp.Empty) (*dp.DevicePluginOptions, error) {
	return &dp.DevicePluginOptions{}, nil
}

func (p *plugin) ListAndWatch(_ *dp.Empty, stream grpc.ServerStreamingServer[dp.ListAndWatchResponse]) error {
	s := &pluginStream{push: make(chan int), finish: make(chan error), ended: make(chan time.Time, 1)}
	p.streams <- s
	devices := p.devices
	for {
		if err := stream.Send(listOf(devices)); err != nil {
			return err
		}
		select {
		case devices = <-s.push:
		case err := <-s.finish:
			return err
		case <-stream.Context().Done():
			s.ended <- time.Now()
			return nil
		}
	}
}

func (p *plugin) Allocate(context.Context, *dp.AllocateRequest) (*dp.AllocateResponse, error) {
	p.allocations.Add(1)
	return &dp.AllocateResponse{ContainerResponses: []*dp.ContainerAllocateResponse{{}}}, nil
}

// register asks kubelet to call back on this socket.
func (p *plugin) register(resource string) error {
	p.t.Helper()
	conn, err := grpc.NewClient("unix://"+filepath.Join(p.dir, "kubelet.sock"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		p.t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	_, err = dp.NewRegistrationClient(conn).Register(ctx, &dp.RegisterRequest{Version: dp.Version, Endpoint: p.endpoint, ResourceName: resource})
	return err
}

func (p *plugin) mustRegister(resource string) {
	p.t.Helper()
	if err := p.register(resource); err != nil {
		p.t.Fatal(err)
	}
}

// stream returns the next call of ListAndWatch.
func (p *plugin) stream() *pluginStream {
	p.t.Helper()
	return receive(p.t, "ListAndWatch on "+p.endpoint, p.streams)
}

func listOf(devices int) *dp.ListAndWatchResponse {
	list := &dp.ListAndWatchResponse{}
	for i := range devices {
		list.Devices = append(list.Devices, &dp.Device{ID: fmt.Sprint(i), Health: dp.Healthy})
	}
	return list
}

// connCounter is a listener that knows what became of its connections.
type connCounter struct {
	net.Listener
	open   atomic.Int32
	closed chan time.Time // when the peer closed one, as seen on the wire
}

func (l *connCounter) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.open.Add(1)
	return &countedConn{Conn: c, counter: l}, nil
}

type countedConn struct {
	net.Conn
	counter *connCounter
	gone    atomic.Bool
}

func (c *countedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil && c.gone.CompareAndSwap(false, true) {
		c.counter.open.Add(-1)
		c.counter.closed <- time.Now()
	}
	return n, err
}
