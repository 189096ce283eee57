// Package subscribe follows discoveryd's stream and keeps the last good
// snapshot, whatever becomes of the daemon.
//
// SPDX-License-Identifier: Apache-2.0
package subscribe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/latest"
	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

// State is what is known through the stream. It is immutable.
type State struct {
	// Snapshot is the last good one; nil until the first has come.
	Snapshot *discoveryv1.Snapshot
	// Status came with the last message; nil until the first has come.
	Status *discoveryv1.Status
	// ScannedAt is when the daemon's last completed scan ended, by this process's
	// monotonic clock. Zero until the first message.
	ScannedAt time.Time
	// Connected: the stream is open and its last message was good.
	Connected bool
	// Problem is why it is not, in one sentence.
	Problem string
	// Rejected counts snapshots that broke the contract.
	Rejected uint64
}

// Age is the time since the last completed scan; 0 before the first message.
func (s State) Age() time.Duration {
	if s.ScannedAt.IsZero() {
		return 0
	}
	return max(0, time.Since(s.ScannedAt))
}

// Client follows one daemon. Make it with New, then call Run once. Get may be
// called concurrently.
type Client struct {
	socket string
	log    *slog.Logger
	state  *latest.Value[State]
}

// New returns a Client for the daemon that listens on the unix socket.
func New(socket string, log *slog.Logger) *Client {
	return &Client{socket: socket, log: log, state: latest.New(State{Problem: "connecting"})}
}

// Get returns the state of now and a channel that is closed when it changes.
func (c *Client) Get() (State, <-chan struct{}) { return c.state.Get() }

const (
	// Bounds of the pause between two tries. The daemon is on this node, so a try
	// costs next to nothing.
	firstPause, maxPause = 20 * time.Millisecond, time.Second
	// maxMessage bounds a message in bytes; a snapshot of the most devices that the
	// daemon lists is well below it.
	maxMessage = 16 << 20
)

// Run follows the daemon until ctx ends; it comes back after whatever fault. It
// returns an error only where the socket's path can't be used at all.
func (c *Client) Run(ctx context.Context) error {
	conn, err := grpc.NewClient("unix:"+c.socket,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.WaitForReady(false)),
		grpc.WithIdleTimeout(0),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: firstPause, Multiplier: 2, Jitter: 0.2, MaxDelay: maxPause},
			MinConnectTimeout: maxPause,
		}))
	if err != nil {
		return fmt.Errorf("discovery socket %s: %w", c.socket, err)
	}
	defer func() { _ = conn.Close() }()
	client := discoveryv1.NewDiscoveryServiceClient(conn)
	pause := firstPause
	for {
		received, err := c.follow(ctx, client)
		if ctx.Err() != nil {
			return nil
		}
		c.disconnected(err)
		if received {
			pause = firstPause
		}
		timer := time.NewTimer(pause - time.Duration(rand.Int64N(int64(pause)/4)))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
		pause = min(2*pause, maxPause)
	}
}

// follow reads one stream to its end. It reports whether a good message came.
func (c *Client) follow(ctx context.Context, client discoveryv1.DiscoveryServiceClient) (received bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends a stream that is left because of a bad message
	stream, err := client.WatchSnapshots(ctx, &discoveryv1.WatchSnapshotsRequest{})
	if err != nil {
		return false, err
	}
	for {
		msg, err := stream.Recv()
		if err != nil {
			return received, err
		}
		if err := c.take(msg, !received); err != nil {
			return received, err
		}
		received = true
	}
}

// take makes a message the newest state.
func (c *Client) take(msg *discoveryv1.WatchSnapshotsResponse, first bool) error {
	state, _ := c.state.Get()
	switch snapshot := msg.GetSnapshot(); {
	case snapshot != nil:
		if err := Check(snapshot); err != nil {
			state.Rejected++
			c.state.Set(state)
			return badMessage{err}
		}
		if old := state.Snapshot; old.GetInstanceId() == snapshot.GetInstanceId() && old.GetGeneration() > snapshot.GetGeneration() {
			return badMessage{fmt.Errorf("generation %d after %d", snapshot.GetGeneration(), old.GetGeneration())}
		}
		state.Snapshot = snapshot
	case first:
		return badMessage{errors.New("the first message holds no snapshot")}
	}
	if msg.GetStatus() != nil || state.Status == nil {
		state.Status = msg.GetStatus()
	}
	state.ScannedAt = time.Now().Add(-max(0, msg.GetStatus().GetScanAge().AsDuration()))
	if !state.Connected {
		c.log.Info("connected to discoveryd", "socket", c.socket, "version", state.Status.GetDaemonVersion(),
			"generation", state.Snapshot.GetGeneration(), "devices", len(state.Snapshot.GetDevices()))
	}
	state.Connected, state.Problem = true, ""
	c.state.Set(state)
	return nil
}

// disconnected notes why there is no stream; what is known stays.
func (c *Client) disconnected(err error) {
	state, _ := c.state.Get()
	problem := c.explain(err)
	if !state.Connected && state.Problem == problem {
		return
	}
	state.Connected, state.Problem = false, problem
	c.state.Set(state)
	c.log.Warn("not connected to discoveryd; the last snapshot stands", "socket", c.socket, "reason", problem)
}

// explain says in a sentence what went wrong.
func (c *Client) explain(err error) string {
	if bad := (badMessage{}); errors.As(err, &bad) {
		return "discoveryd sent what breaks the protocol: " + bad.Error()
	}
	if errors.Is(err, io.EOF) {
		return "discoveryd ended the stream"
	}
	s := status.Convert(err)
	switch s.Code() {
	case codes.Unimplemented:
		return fmt.Sprintf("the program behind %s does not offer %s; run discoveryd and pluginproxy of adjacent versions",
			c.socket, discoveryv1.DiscoveryService_ServiceDesc.ServiceName)
	case codes.Canceled:
		return "discoveryd ended the stream"
	case codes.ResourceExhausted:
		return fmt.Sprintf("discoveryd sent a message above %d bytes", maxMessage)
	}
	return s.Message()
}

// badMessage is a message that breaks the contract.
type badMessage struct{ error }

func (e badMessage) Unwrap() error { return e.error }
