// Peers are told apart by the kernel.
//
// SPDX-License-Identifier: Apache-2.0

package unixsock

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// serveUnimplemented serves gRPC without any method; info gets what is known of
// the peers that get as far as a call.
func serveUnimplemented(t *testing.T, path string, allow []uint32, refused func(uint32), info chan<- PeerInfo) {
	t.Helper()
	l := listenOn(t, path)
	s := grpc.NewServer(grpc.Creds(PeerCredentials(allow, refused)), grpc.UnknownServiceHandler(
		func(_ any, stream grpc.ServerStream) error {
			if p, ok := peer.FromContext(stream.Context()); ok {
				info <- p.AuthInfo.(PeerInfo)
			}
			return status.Error(codes.Unimplemented, "no such call")
		}))
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop()
		must(t, <-done)
	})
}

func TestAllowedPeerIsLetInAndKnown(t *testing.T) {
	path := filepath.Join(shortDir(t), "s.sock")
	uid := uint32(os.Getuid())
	info := make(chan PeerInfo, 1)
	serveUnimplemented(t, path, []uint32{uid + 1, uid}, func(uint32) { t.Error("refused") }, info)
	client, err := grpc.NewClient("unix:"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(t, err)
	defer client.Close()
	stream, err := client.NewStream(t.Context(), &grpc.StreamDesc{}, "/a/b")
	must(t, err)
	if err := stream.RecvMsg(nil); status.Code(err) != codes.Unimplemented {
		t.Errorf("got %v", err)
	}
	if p := <-info; p.UID != uid || int(p.PID) != os.Getpid() || int(p.GID) != os.Getgid() || p.AuthType() != "peercred" {
		t.Errorf("peer is %+v", p)
	}
}

func TestOtherPeerIsTurnedAwayBeforeAByteIsRead(t *testing.T) {
	path := filepath.Join(shortDir(t), "s.sock")
	uid := uint32(os.Getuid())
	refused := make(chan uint32, 1)
	serveUnimplemented(t, path, []uint32{uid + 1}, func(uid uint32) { refused <- uid }, nil)
	conn, err := net.Dial("unix", path)
	must(t, err)
	defer conn.Close()
	// Nothing is sent, and still the answer comes.
	if got := <-refused; got != uid {
		t.Errorf("refused user %d, not %d", got, uid)
	}
	if n, err := conn.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("read %d bytes, %v", n, err)
	}
}
