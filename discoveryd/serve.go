// The command serve.
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"math"
	"time"

	"github.com/spf13/cobra"

	"github.com/rdma-relay/rdma-relay/discoveryd/internal/inventory"
	"github.com/rdma-relay/rdma-relay/discoveryd/internal/serve"
	"github.com/rdma-relay/rdma-relay/internal/cli"
	"github.com/rdma-relay/rdma-relay/internal/unixsock"
)

func serveCommand(logs *cli.LogFlags) *cobra.Command {
	var opts serve.Options
	var uids []int64
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Watch the host and serve snapshots on the socket, until SIGTERM",
		Args:  cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := logs.Logger(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			if opts.AllowUIDs, err = userIDs(uids); err != nil {
				return err
			}
			if opts.ResyncInterval < time.Second {
				return cli.Usagef("--resync-interval=%v: must be 1s or more", opts.ResyncInterval)
			}
			daemon, err := serve.New(opts, log)
			if err != nil {
				return settingsError(err)
			}
			return daemon.Run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&opts.Socket, "socket", defaultSocket, "Unix socket to serve on")
	flags.StringVar(&opts.HostRoot, "host-root", "/", "directory with the host's sys and dev, live or recorded")
	flags.DurationVar(&opts.ResyncInterval, "resync-interval", time.Minute, "longest time between two full scans")
	flags.StringVar(&opts.CDIDir, "cdi-dir", "", "directory to keep the CDI spec in, such as /var/run/cdi (default: none is kept)")
	flags.Int64SliceVar(&uids, "allow-uids", []int64{0}, "user IDs that may connect")
	return cmd
}

// userIDs checks --allow-uids.
func userIDs(values []int64) ([]uint32, error) {
	if len(values) == 0 {
		return nil, cli.Usagef("--allow-uids: empty, so that nobody could connect")
	}
	var uids []uint32
	for _, v := range values {
		// The highest is the kernel's "no user".
		if v < 0 || v >= math.MaxUint32 {
			return nil, cli.Usagef("--allow-uids: %d is no user ID", v)
		}
		uids = append(uids, uint32(v))
	}
	return uids, nil
}

// settingsError marks errors that can't go away while the flags stay the same.
func settingsError(err error) error {
	if errors.Is(err, unixsock.ErrPathTooLong) || errors.Is(err, inventory.ErrNoHost) {
		return cli.Usage(err)
	}
	return err
}
