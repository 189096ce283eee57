// One connection to the daemon and its stream, from the dial to the sentence that
// says why it has ended.
//
// SPDX-License-Identifier: Apache-2.0

package subscribe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

const (
	// maxMessage bounds a message in bytes. The daemon's snapshots have at most about
	// 16 MiB (MaxBytes in discoveryd's inventory); half as much again is on the safe
	// side.
	maxMessage = 24 << 20
	// handshake is how long the other side may take to answer a new connection. The
	// kernel accepts for a daemon that is stopped.
	handshake = 3 * time.Second
	// patience is how long the first message may take, for which the daemon needs
	// one full scan, and how late a later one may be. A stream that is silent for
	// longer is left: the daemon has promised a message per resync interval.
	patience = 30 * time.Second
	// longestResync is the longest interval that is believed.
	longestResync = 24 * time.Hour
)

// errSilent is why a stream is left that brings nothing.
var errSilent = errors.New("discoveryd is silent: no message came for too long")

// follow opens one stream, reads it to its end, and says in a sentence why that
// came. The sentence is the same for each try that ends for the same reason.
func (c *Client) follow(ctx context.Context) (problem string) {
	// Each try has one connection of its own, so that nothing but Run decides when
	// to try again, and the path is taken as it is.
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", c.socket)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = conn.Close() }() // a second Close, after gRPC's, is harmless
	client, err := grpc.NewClient("passthrough:///discoveryd",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.ForceCodecV2(newBoundedCodec())),
		grpc.WithIdleTimeout(0),
		grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: handshake}),
		grpc.WithContextDialer(once(conn)))
	if err != nil {
		return err.Error()
	}
	defer func() { _ = client.Close() }()
	received, err := c.read(ctx, discoveryv1.NewDiscoveryServiceClient(client))
	if bad := (badMessage{}); errors.As(err, &bad) {
		c.rejected()
	}
	c.log.Debug("the stream from discoveryd has ended", "error", err)
	return c.explain(err, received)
}

// once gives out conn and no second one.
func once(conn net.Conn) func(context.Context, string) (net.Conn, error) {
	var first sync.Once
	return func(context.Context, string) (net.Conn, error) {
		err := errors.New("the connection has ended")
		first.Do(func() { err = nil })
		return conn, err
	}
}

// read takes the messages of one stream. It reports whether a good one came, and
// why no more will.
func (c *Client) read(ctx context.Context, client discoveryv1.DiscoveryServiceClient) (received bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil) // ends a stream that is left because of a bad message
	silence := time.AfterFunc(c.patience, func() { cancel(errSilent) })
	defer silence.Stop()
	stream, err := client.WatchSnapshots(ctx, &discoveryv1.WatchSnapshotsRequest{})
	if err != nil {
		return false, err
	}
	for {
		msg, err := stream.Recv()
		switch {
		case err == nil:
			err = c.take(msg, !received)
		case errors.Is(context.Cause(ctx), errSilent):
			err = errSilent
		case status.Code(err) == codes.Internal, status.Code(err) == codes.ResourceExhausted:
			// It can't be decoded, or is too big.
			err = badMessage{errors.New(status.Convert(err).Message())}
		}
		if err != nil {
			return received, err
		}
		received = true
		if resync := msg.GetStatus().GetResyncInterval().AsDuration(); resync > 0 {
			silence.Reset(min(resync, longestResync) + c.patience)
		} else {
			silence.Stop() // nothing is promised
		}
	}
}

// take makes a message the newest state if it is good.
func (c *Client) take(msg *discoveryv1.WatchSnapshotsResponse, first bool) error {
	switch snapshot := msg.GetSnapshot(); {
	case snapshot != nil:
		if err := Check(snapshot); err != nil {
			return badMessage{err}
		}
		state, _ := c.state.Get()
		if old := state.Snapshot; old.GetInstanceId() == snapshot.GetInstanceId() && old.GetGeneration() > snapshot.GetGeneration() {
			return badMessage{fmt.Errorf("generation %d after %d", snapshot.GetGeneration(), old.GetGeneration())}
		}
	case first:
		return badMessage{errors.New("the first message holds no snapshot")}
	}
	c.connected(msg)
	return nil
}

// explain says in a sentence what went wrong.
func (c *Client) explain(err error, received bool) string {
	if bad := (badMessage{}); errors.As(err, &bad) {
		return "discoveryd sent what breaks the protocol: " + bad.Error()
	}
	if errors.Is(err, errSilent) {
		return err.Error()
	}
	s := status.Convert(err)
	switch {
	case s.Code() == codes.Unimplemented:
		return fmt.Sprintf("the program behind %s does not offer %s; run discoveryd and pluginproxy of adjacent versions",
			c.socket, discoveryv1.DiscoveryService_ServiceDesc.ServiceName)
	case received:
		return "discoveryd ended the stream"
	case s.Code() == codes.Unavailable:
		// Which system call meets the closed connection first is chance, so gRPC's
		// text is another each time.
		return fmt.Sprintf("the program behind %s closes the connection, or does not answer; discoveryd does so when its --allow-uids lacks user ID %d",
			c.socket, os.Geteuid())
	}
	return "discoveryd refused the stream: " + s.Message()
}

// badMessage is a message that breaks the contract.
type badMessage struct{ error }

func (e badMessage) Unwrap() error { return e.error }
