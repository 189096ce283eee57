// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/latest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const within = 5 * time.Second

// served is a server under test with a client of it.
type served struct {
	*Server
	t       *testing.T
	offer   *latest.Value[Offer]
	stats   *Stats
	path    string
	conn    *grpc.ClientConn
	kubelet pluginapi.DevicePluginClient
}

func serve(t *testing.T, interval time.Duration, devices int) *served {
	t.Helper()
	dir, err := os.MkdirTemp("", "dp")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s := &served{t: t, offer: latest.New[Offer](slots(devices)), stats: &Stats{}, path: filepath.Join(dir, "s")}
	lis, err := net.Listen("unix", s.path)
	must(t, err)
	s.Server = Serve(lis, Config{Offer: s.offer, Stats: s.stats, Log: slog.New(slog.DiscardHandler), Interval: interval})
	t.Cleanup(s.Stop)
	s.conn, s.kubelet = s.dial()
	return s
}

// dial opens a connection of its own.
func (s *served) dial() (*grpc.ClientConn, pluginapi.DevicePluginClient) {
	s.t.Helper()
	conn, err := grpc.NewClient("unix:"+s.path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(s.t, err)
	s.t.Cleanup(func() { _ = conn.Close() })
	return conn, pluginapi.NewDevicePluginClient(conn)
}

type stream struct {
	grpc.ServerStreamingClient[pluginapi.ListAndWatchResponse]
	t *testing.T
}

func watch(t *testing.T, c pluginapi.DevicePluginClient) stream {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	t.Cleanup(cancel)
	s, err := c.ListAndWatch(ctx, &pluginapi.Empty{})
	must(t, err)
	return stream{s, t}
}

// expect reads one list and checks its length.
func (s stream) expect(want int) {
	s.t.Helper()
	resp, err := s.Recv()
	if err != nil {
		s.t.Fatalf("no list: %v", err)
	}
	if got := len(resp.Devices); got != want {
		s.t.Fatalf("a list of %d devices, want %d", got, want)
	}
}

// expectEnd reads until the end of the stream.
func (s stream) expectEnd(want codes.Code) {
	s.t.Helper()
	for {
		if _, err := s.Recv(); err != nil {
			if status.Code(err) != want {
				s.t.Fatalf("the stream ended with %v, want %v", err, want)
			}
			return
		}
	}
}

func TestSessionBeginsWithTheWholeListAndFollowsIt(t *testing.T) {
	s := serve(t, time.Millisecond, 10)
	w := watch(t, s.kubelet)
	w.expect(10)
	for _, n := range []int{0, 10, 3} {
		s.offer.Set(slots(n))
		w.expect(n)
	}
	await(t, s.Started())
}

func TestEqualListIsNotSentAgain(t *testing.T) {
	s := serve(t, time.Millisecond, 10)
	w := watch(t, s.kubelet)
	w.expect(10)
	for range 20 {
		s.offer.Set(slots(10)) // other values, equal content
	}
	s.offer.Set(slots(4))
	w.expect(4)
	waitFor(t, func() bool { return s.stats.Lists.Load() >= 2 })
	if got := s.stats.Lists.Load(); got != 2 {
		t.Errorf("%d lists sent, want 2", got)
	}
}

func TestFirstChangeGoesOutAtOnceAndAFloodIsDamped(t *testing.T) {
	const interval = 300 * time.Millisecond
	s := serve(t, interval, 10)
	w := watch(t, s.kubelet)
	w.expect(10)
	begin := time.Now()
	s.offer.Set(slots(1))
	w.expect(1)
	if d := time.Since(begin); d >= interval {
		t.Errorf("the first change took %v", d)
	}
	for i := range 100 {
		s.offer.Set(slots(i % 9))
	}
	s.offer.Set(slots(9))
	w.expect(9) // the newest, none of those between
	if d := time.Since(begin); d < interval {
		t.Errorf("a second list came after %v, sooner than the interval allows", d)
	}
	waitFor(t, func() bool { return s.stats.Lists.Load() >= 3 }) // it counts what has been sent
	if got := s.stats.Lists.Load(); got != 3 {
		t.Errorf("%d lists sent, want 3", got)
	}
}

func TestR1_NewSessionEndsTheOldOneThatReadsNoMore(t *testing.T) {
	const interval = 50 * time.Millisecond
	for name, sameConnection := range map[string]bool{"on one connection": true, "on two": false} {
		t.Run(name, func(t *testing.T) {
			// A list far above the flow-control window, so that Send blocks.
			s := serve(t, interval, 20_000)
			first := watch(t, s.kubelet)
			first.expect(20_000)
			s.offer.Set(slots(20_001))
			s.offer.Set(slots(20_002)) // never read: the sender hangs
			s.offer.Set(slots(10))
			client := s.kubelet
			if !sameConnection {
				_, client = s.dial()
			}
			second := watch(t, client)
			second.expect(10)
			// The session is alive, and the first one is gone.
			s.offer.Set(slots(0))
			for {
				resp, err := second.Recv()
				must(t, err)
				if len(resp.Devices) == 0 {
					break
				}
				if len(resp.Devices) != 10 { // the one repetition after the takeover
					t.Fatalf("a list of %d devices", len(resp.Devices))
				}
			}
			s.offer.Set(slots(10))
			second.expect(10)
			waitFor(t, func() bool { return s.stats.Active.Load() == 1 })
			if got := s.stats.Superseded.Load(); got != 1 {
				t.Errorf("%d sessions superseded, want 1", got)
			}
			first.expectEnd(codes.Aborted)
		})
	}
}

func TestListIsSentOnceMoreAfterATakeover(t *testing.T) {
	s := serve(t, 20*time.Millisecond, 10)
	first := watch(t, s.kubelet)
	first.expect(10)
	second := watch(t, s.kubelet)
	second.expect(10)
	second.expect(10)
	first.expectEnd(codes.Aborted)
}

func TestEndOfTheSessionEndsTheServer(t *testing.T) {
	s := serve(t, time.Millisecond, 10)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	w, err := s.kubelet.ListAndWatch(ctx, &pluginapi.Empty{})
	must(t, err)
	_, err = w.Recv()
	must(t, err)
	cancel()
	await(t, s.Over())
	// Whoever calls now is told to look for the next server.
	watch(t, s.kubelet).expectEnd(codes.Unavailable)

	bound, done := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer done()
	if s.Disconnected(bound) {
		t.Error("kubelet is said to be disconnected though its connection is open")
	}
	must(t, s.conn.Close())
	bound2, done2 := context.WithTimeout(context.Background(), within)
	defer done2()
	if !s.Disconnected(bound2) {
		t.Error("kubelet's connection is closed and the server does not know")
	}
}

func TestStopReturnsThoughKubeletReadsNothing(t *testing.T) {
	s := serve(t, time.Millisecond, 20_000)
	w := watch(t, s.kubelet)
	w.expect(20_000)
	for i := range 5 {
		s.offer.Set(slots(20_000 - i))
	}
	stopped := make(chan struct{})
	go func() { defer close(stopped); s.Stop() }()
	await(t, stopped)
	if _, err := os.Lstat(s.path); !os.IsNotExist(err) {
		t.Errorf("the socket is still there: %v", err)
	}
}

func TestAllocateAnswersEachContainerFromTheOfferOfNow(t *testing.T) {
	s := serve(t, time.Millisecond, 10)
	ctx := t.Context()
	req := func(ids ...string) *pluginapi.AllocateRequest {
		r := &pluginapi.AllocateRequest{}
		for _, id := range ids {
			r.ContainerRequests = append(r.ContainerRequests, &pluginapi.ContainerAllocateRequest{DevicesIds: []string{id}})
		}
		return r
	}
	resp, err := s.kubelet.Allocate(ctx, req("1", "2"))
	must(t, err)
	if len(resp.ContainerResponses) != 2 || resp.ContainerResponses[1].Envs["ID"] != "2" {
		t.Errorf("answer %v", resp)
	}
	s.offer.Set(slots(0))
	for _, r := range []*pluginapi.AllocateRequest{req("1"), req()} {
		if _, err := s.kubelet.Allocate(ctx, r); err == nil {
			t.Errorf("Allocate(%v) succeeded", r)
		}
	}
	if ok, bad := s.stats.AllocationsOK.Load(), s.stats.AllocationsRefused.Load(); ok != 1 || bad != 2 {
		t.Errorf("counted %d good and %d refused, want 1 and 2", ok, bad)
	}
	pref, err := s.kubelet.GetPreferredAllocation(ctx, &pluginapi.PreferredAllocationRequest{
		ContainerRequests: []*pluginapi.ContainerPreferredAllocationRequest{{AvailableDeviceIDs: []string{"a", "b"}, AllocationSize: 1}}})
	must(t, err)
	if got := pref.ContainerResponses[0].DeviceIDs; len(got) != 1 {
		t.Errorf("preferred %v", got)
	}
}

// slots is an offer of so many devices.
type slots int

func (n slots) List() (list []*pluginapi.Device) {
	for i := range int(n) {
		list = append(list, &pluginapi.Device{ID: fmt.Sprint(i), Health: pluginapi.Healthy})
	}
	return list
}
func (slots) Options() *pluginapi.DevicePluginOptions { return &pluginapi.DevicePluginOptions{} }
func (n slots) Allocate(ids []string) (*pluginapi.ContainerAllocateResponse, error) {
	if n == 0 {
		return nil, status.Error(codes.Unavailable, "nothing there")
	}
	return &pluginapi.ContainerAllocateResponse{Envs: map[string]string{"ID": ids[0]}}, nil
}
func (slots) Preferred(available, _ []string, size int) []string { return available[:size] }

func await(t *testing.T, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(within):
		t.Fatal("it has not happened within 5 s")
	}
}

func waitFor(t *testing.T, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	deadline := time.After(within)
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("it has not happened within 5 s")
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
