// Package serve is the daemon: it scans the host when something says that a scan
// is due, and serves the newest snapshot on its socket until it is told to end.
//
// SPDX-License-Identifier: Apache-2.0
package serve

import (
	"context"
	"io/fs"
	"log/slog"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/rdma-relay/rdma-relay/discoveryd/internal/cdi"
	"github.com/rdma-relay/rdma-relay/discoveryd/internal/inventory"
	"github.com/rdma-relay/rdma-relay/discoveryd/internal/notice"
	"github.com/rdma-relay/rdma-relay/discoveryd/internal/publish"
	"github.com/rdma-relay/rdma-relay/internal/unixsock"
	"github.com/rdma-relay/rdma-relay/internal/version"
	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

const (
	// socketMode lets the owner and the group connect; who of them may is decided
	// by user ID.
	socketMode = fs.FileMode(0o660)
	// maxStreams and maxRequest bound what one peer can make the daemon hold. A
	// request has no fields; tools and the proxy need one stream each.
	maxStreams = 16
	maxRequest = 4 << 10
	// handshake bounds how long a connection may take to become one of HTTP/2, and
	// with it how long a peer that says nothing can put off the daemon's end.
	handshake = 2 * time.Second
	// goodbye bounds how long open streams get to learn that the daemon ends.
	goodbye = time.Second
)

// Options are the daemon's settings.
type Options struct {
	// Socket is where the stream is served.
	Socket string
	// HostRoot has the host's sys and dev.
	HostRoot string
	// ResyncInterval is the longest time between two scans.
	ResyncInterval time.Duration
	// AllowUIDs are the user IDs that may connect.
	AllowUIDs []uint32
	// CDIDir is where the CDI spec is kept; empty stands for none.
	CDIDir string
}

// Daemon is a daemon that has its socket and has not begun to scan.
type Daemon struct {
	opts    Options
	log     *slog.Logger
	live    bool
	scanner *inventory.Scanner
	notice  *notice.Notice
	agenda  *agenda
	sources []notice.Source
	// heard tells whether a source tells of all changes of network devices, and
	// present is told whether there are RDMA devices to hear of.
	heard     func() bool
	present   func(bool)
	specs     *cdi.Specs // nil where none are to be kept
	publisher *publish.Publisher
	listener  *unixsock.Listener // the first one; Run's own
	server    *grpc.Server

	socketCheck time.Duration
}

// New looks for the host and makes the socket. After an error nothing is left.
func New(opts Options, log *slog.Logger) (*Daemon, error) {
	d := &Daemon{opts: opts, log: log, notice: notice.New(), agenda: newAgenda(opts.ResyncInterval), socketCheck: socketCheck}
	var err error
	d.scanner, err = inventory.New(inventory.Options{Root: opts.HostRoot, Due: d.notice.Hint})
	if err != nil {
		return nil, err
	}
	if d.live, err = d.scanner.Live(); err != nil {
		return nil, err
	}
	d.listen()
	if opts.CDIDir != "" {
		d.specs = cdi.New(opts.CDIDir, log)
		d.sources = append(d.sources, d.specs)
	}
	d.listener, err = listenOn(opts.Socket)
	if err != nil {
		return nil, err
	}
	d.publisher = publish.New(publish.Options{
		Version: version.String(), ResyncInterval: opts.ResyncInterval, Events: d.notice.Events,
	})
	d.server = grpc.NewServer(
		grpc.Creds(unixsock.PeerCredentials(opts.AllowUIDs, d.refused())),
		grpc.MaxRecvMsgSize(maxRequest),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.ConnectionTimeout(handshake),
	)
	discoveryv1.RegisterDiscoveryServiceServer(d.server, d.publisher)
	return d, nil
}

// refused counts peers that were turned away, and logs each user ID once.
func (d *Daemon) refused() func(uid uint32) {
	seen := newSet(64)
	return func(uid uint32) {
		d.publisher.Refused()
		if seen.add(uid) {
			d.log.Warn("peer refused; further ones of this user ID are only counted", "uid", uid)
		}
	}
}

// Run scans and serves until ctx ends, then ends the streams and removes the
// socket and the CDI spec. It returns nil then, and an error if serving fails. It is to be called
// once.
func (d *Daemon) Run(ctx context.Context) error {
	d.log.Info("serving", "socket", d.opts.Socket, "host_root", d.opts.HostRoot, "live", d.live, "version", version.String())
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return d.serveSocket(ctx, d.listener) })
	group.Go(func() error {
		d.notice.Run(ctx, d.log, d.sources...)
		return nil
	})
	group.Go(func() error {
		d.scan(ctx)
		return nil
	})
	group.Go(func() error {
		<-ctx.Done()
		d.stop()
		return nil
	})
	err := group.Wait()
	d.specs.Remove()
	d.log.Info("ended", "error", err)
	return err
}

// listen picks what tells of changes. A recorded tree is another host's, or this
// one's at another time: the kernel's events are not about it.
func (d *Daemon) listen() {
	if !d.live {
		d.sources = []notice.Source{&notice.Tree{Root: d.opts.HostRoot, Dirs: []string{"sys", "dev/infiniband"}, Log: d.log}}
		return
	}
	links, rdma := &notice.Links{Sys: filepath.Join(d.opts.HostRoot, "sys"), Log: d.log}, notice.NewRDMA()
	d.sources = []notice.Source{notice.Uevents{}, links, rdma}
	d.heard, d.present = links.Heard, rdma.Present
}

// stop ends the streams and the server; serveSocket returns then.
func (d *Daemon) stop() {
	d.publisher.Close()
	hard := time.AfterFunc(goodbye, d.server.Stop)
	defer hard.Stop()
	d.server.GracefulStop()
}
