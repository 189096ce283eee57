// Who is at the other end of a Unix socket, as gRPC transport credentials: a
// peer with the wrong user ID is turned away before anything is read from it.
//
// SPDX-License-Identifier: Apache-2.0

package unixsock

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/credentials"
)

// PeerInfo is what the kernel says of the process that connected (SO_PEERCRED,
// unix(7)), at the time it did. It is the AuthInfo of a connection.
type PeerInfo struct {
	credentials.CommonAuthInfo
	UID, GID uint32
	// PID is 0 when the peer is in a PID name space that can't be seen from here.
	PID int32
}

// AuthType implements credentials.AuthInfo.
func (PeerInfo) AuthType() string { return "peercred" }

// peerCredentials implements credentials.TransportCredentials. It has no state,
// so that one value serves all connections.
type peerCredentials struct {
	allow   []uint32
	refused func(uid uint32)
}

// PeerCredentials are server-side credentials that let in the user IDs of allow
// only. For each peer turned away onRefused is called with its user ID, from the
// goroutine of the connection. Clients connect in plain text; the kernel keeps
// others from reading along.
func PeerCredentials(allow []uint32, onRefused func(uid uint32)) credentials.TransportCredentials {
	return peerCredentials{allow: slices.Clone(allow), refused: onRefused}
}

// ServerHandshake implements credentials.TransportCredentials.
func (c peerCredentials) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	peer, err := peerOf(conn)
	if err != nil {
		return nil, nil, fmt.Errorf("identify peer: %w", err)
	}
	if !slices.Contains(c.allow, peer.UID) {
		if c.refused != nil {
			c.refused(peer.UID)
		}
		return nil, nil, fmt.Errorf("peer with user ID %d is not allowed", peer.UID)
	}
	return conn, peer, nil
}

func peerOf(conn net.Conn) (PeerInfo, error) {
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return PeerInfo{}, fmt.Errorf("not a Unix socket but %T", conn)
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return PeerInfo{}, err
	}
	var cred *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return PeerInfo{}, err
	}
	if credErr != nil {
		return PeerInfo{}, credErr
	}
	return PeerInfo{
		// Nobody but the kernel stands between the two ends.
		CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity},
		UID:            cred.Uid, GID: cred.Gid, PID: cred.Pid,
	}, nil
}

// ClientHandshake implements credentials.TransportCredentials.
func (peerCredentials) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("peer credentials are for servers; clients use insecure credentials")
}

// Info implements credentials.TransportCredentials.
func (peerCredentials) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "peercred"}
}

// Clone implements credentials.TransportCredentials.
func (c peerCredentials) Clone() credentials.TransportCredentials { return c }

// OverrideServerName implements credentials.TransportCredentials.
//
// Deprecated: as in the interface; Unix sockets have no server name.
func (peerCredentials) OverrideServerName(string) error { return nil }
