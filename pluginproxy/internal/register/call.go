// The route by which we call kubelet: Register on kubelet.sock. Also the errors of
// both routes, and how long to wait after each.
//
// SPDX-License-Identifier: Apache-2.0

package register

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/session"
)

var (
	errReplaced    = errors.New("kubelet was restarted or its directory made anew")
	errSocketGone  = errors.New("our own socket was removed")
	errHungUp      = errors.New("kubelet accepted the registration and closed its connection before it opened a session")
	errSessionLost = errors.New("the session has ended") // with kubelet.sock unchanged
)

// unreachable is a kubelet that could not be asked or did not answer; a refusal is
// its answer.
type unreachable struct{ error }

func (e unreachable) Unwrap() error { return e.error }

func isUnreachable(err error) bool { return errors.As(err, &unreachable{}) }

// caller introduces a server by a call of Register.
type caller struct {
	conn    net.Conn
	request *pluginapi.RegisterRequest // without the endpoint
	limit   time.Duration
}

func (c *caller) services() []session.Service { return nil }

func (c *caller) introduce(ctx context.Context, endpoint string) error {
	ctx, cancel := context.WithTimeout(ctx, c.limit)
	defer cancel()
	c.request.Endpoint = endpoint
	return register(ctx, c.conn, c.request)
}

func (c *caller) close() { _ = c.conn.Close() } // a second Close, after gRPC's, is harmless

// dialKubelet connects to kubelet.sock and tells which one that was: the path led
// to the same socket before and after. The directory then knows of no older one.
func dialKubelet(ctx context.Context, dir *Dir) (net.Conn, Generation, error) {
	for {
		before := dir.lookForKubelet()
		conn, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "unix", dir.sign)
		if err != nil {
			return nil, before, unreachable{fmt.Errorf("as uid %d: %w", os.Geteuid(), err)}
		}
		if before.Present() && dir.lookForKubelet() == before {
			return conn, before, nil
		}
		_ = conn.Close()
		if ctx.Err() != nil {
			return nil, before, unreachable{ctx.Err()}
		}
	}
}

// A local connect succeeds, fails or finds the listener's queue full, all at once.
const dialTimeout = time.Second

// register makes the call on conn, and closes it.
func register(ctx context.Context, conn net.Conn, request *pluginapi.RegisterRequest) error {
	var once sync.Once
	client, err := grpc.NewClient("passthrough:///kubelet",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
			err := errors.New("kubelet has closed the connection")
			once.Do(func() { err = nil })
			return conn, err
		}))
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	_, err = pluginapi.NewRegistrationClient(client).Register(ctx, request)
	if err == nil {
		return nil
	}
	s := status.Convert(err)
	text := without(request.Endpoint, s.Message())
	switch s.Code() {
	case codes.Unavailable, codes.Canceled, codes.DeadlineExceeded: // made by gRPC
		return unreachable{fmt.Errorf("kubelet has not answered Register: %s", text)}
	}
	return fmt.Errorf("kubelet refused the registration: %s (%s)", text, s.Code())
}

// without takes our socket's name, which is another at each try, out of a text: the
// rest tells whether this is a new problem.
func without(name, text string) string { return strings.ReplaceAll(text, name, "SOCKET") }

// backoff counts failures in a row with one kubelet. The zero value is ready.
type backoff struct{ next time.Duration }

const (
	// A kubelet that can't be reached is between bind and listen, or dead, or we
	// can't listen; trying costs it nothing.
	unreachableFirst, unreachableCap = 2 * time.Millisecond, 2 * time.Second
	// Each refused registration costs kubelet a connection that it does not close
	// (grpc client of a failed dial-back), so not too often.
	refusedFirst, refusedCap = 100 * time.Millisecond, 10 * time.Second
)

// after returns how long to wait after a failure: nothing after the first one,
// then longer each time, with some jitter so that a node's resources don't move
// in step.
func (b *backoff) after(err error) time.Duration {
	if errors.Is(err, errReplaced) {
		return 0
	}
	first, limit := refusedFirst, refusedCap
	if isUnreachable(err) {
		first, limit = unreachableFirst, unreachableCap
	}
	d := min(b.next, limit)
	b.next = max(2*d, first)
	return d - time.Duration(rand.Int64N(int64(d)/4+1))
}
