// Package ask gets the newest snapshot from a running daemon.
//
// SPDX-License-Identifier: Apache-2.0
package ask

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

// maxMessage is far above any snapshot within its limits.
const maxMessage = 64 << 20

// Snapshot asks the daemon on the socket and waits at most timeout, which includes
// the daemon's first scan.
func Snapshot(ctx context.Context, socket string, timeout time.Duration) (*discoveryv1.Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	snapshot, err := first(ctx, socket)
	switch {
	case err == nil:
		return snapshot, nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil, fmt.Errorf("ask the daemon on %s: no answer within %v", socket, timeout)
	case status.Code(err) == codes.Unimplemented:
		return nil, fmt.Errorf("ask the daemon on %s: it does not know this version of the protocol", socket)
	}
	return nil, fmt.Errorf("ask the daemon on %s: %w", socket, err)
}

func first(ctx context.Context, socket string) (*discoveryv1.Snapshot, error) {
	// Once by hand, for an error that says what is wrong with the socket.
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, dialError(err)
	}
	client, err := grpc.NewClient("passthrough:///discoveryd",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(once(conn)),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
	)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	defer client.Close()
	stream, err := discoveryv1.NewDiscoveryServiceClient(client).WatchSnapshots(ctx, &discoveryv1.WatchSnapshotsRequest{})
	if err != nil {
		return nil, refusedError(err)
	}
	message, err := stream.Recv()
	if err != nil {
		return nil, refusedError(err)
	}
	if message.GetSnapshot() == nil {
		return nil, errors.New("the first message has no snapshot")
	}
	return message.GetSnapshot(), nil
}

// once hands out the one connection.
func once(conn net.Conn) func(context.Context, string) (net.Conn, error) {
	taken := make(chan net.Conn, 1)
	taken <- conn
	return func(context.Context, string) (net.Conn, error) {
		select {
		case c := <-taken:
			return c, nil
		default:
			return nil, errors.New("the connection was closed")
		}
	}
}

// dialError leaves out what the caller says already.
func dialError(err error) error {
	if e := (*os.SyscallError)(nil); errors.As(err, &e) {
		return e
	}
	return err
}

// refusedError explains a connection that the daemon has closed at once.
func refusedError(err error) error {
	if status.Code(err) == codes.Unavailable {
		return fmt.Errorf("the daemon has closed the connection; does its --allow-uids have %d? (%s)", os.Getuid(), status.Convert(err).Message())
	}
	return err
}
