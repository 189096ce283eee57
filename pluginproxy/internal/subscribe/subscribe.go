// Package subscribe follows discoveryd's stream and keeps the last good
// snapshot, whatever becomes of the daemon.
//
// SPDX-License-Identifier: Apache-2.0
package subscribe

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

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
	// Rejected counts messages that broke the contract, each with a whole snapshot
	// in it or without.
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
	socket   string
	log      *slog.Logger
	state    *latest.Value[State]
	patience time.Duration // see stream.go; a seam for tests
}

// New returns a Client for the daemon that listens on the unix socket.
func New(socket string, log *slog.Logger) *Client {
	return &Client{socket: socket, log: log, state: latest.New(State{Problem: "connecting"}), patience: patience}
}

// Get returns the state of now and a channel that is closed when it changes.
func (c *Client) Get() (State, <-chan struct{}) { return c.state.Get() }

const (
	// Bounds of the pause between two tries. The daemon is on this node, so a try
	// costs next to nothing.
	firstPause, maxPause = 20 * time.Millisecond, time.Second
	// steady is how long a stream must have lasted for its end to be an event of
	// its own and not one more failure in a row.
	steady = 10 * time.Second
)

// Run follows the daemon until ctx ends; it comes back after whatever fault.
func (c *Client) Run(ctx context.Context) {
	pause := firstPause
	for {
		begin := time.Now()
		problem := c.follow(ctx)
		if ctx.Err() != nil {
			return
		}
		c.disconnected(problem)
		if time.Since(begin) >= steady {
			pause = firstPause
		}
		timer := time.NewTimer(pause - time.Duration(rand.Int64N(int64(pause)/4)))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		pause = min(2*pause, maxPause)
	}
}

// connected makes a good message the newest state.
func (c *Client) connected(msg *discoveryv1.WatchSnapshotsResponse) {
	state, _ := c.state.Get()
	if msg.GetSnapshot() != nil {
		state.Snapshot = msg.GetSnapshot()
	}
	if msg.GetStatus() != nil {
		state.Status = msg.GetStatus()
	}
	switch age := msg.GetStatus().GetScanAge(); {
	case age != nil:
		state.ScannedAt = time.Now().Add(-max(0, age.AsDuration()))
	case state.ScannedAt.IsZero():
		state.ScannedAt = time.Now() // it is not older than the first message
	}
	if !state.Connected {
		c.log.Info("connected to discoveryd", "socket", c.socket, "version", state.Status.GetDaemonVersion(),
			"generation", state.Snapshot.GetGeneration(), "devices", len(state.Snapshot.GetDevices()))
	}
	state.Connected, state.Problem = true, ""
	c.state.Set(state)
}

// rejected counts a message that broke the contract.
func (c *Client) rejected() {
	state, _ := c.state.Get()
	state.Rejected++
	c.state.Set(state)
}

// disconnected notes why there is no stream; what is known stays.
func (c *Client) disconnected(problem string) {
	state, _ := c.state.Get()
	if !state.Connected && state.Problem == problem {
		return
	}
	state.Connected, state.Problem = false, problem
	c.state.Set(state)
	if state.Snapshot == nil {
		c.log.Warn("not connected to discoveryd; there is no snapshot yet", "socket", c.socket, "reason", problem)
	} else {
		c.log.Warn("not connected to discoveryd; the last snapshot stands", "socket", c.socket, "reason", problem,
			"generation", state.Snapshot.GetGeneration())
	}
}
