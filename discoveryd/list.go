// The commands list and probe.
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/rdma-relay/rdma-relay/discoveryd/internal/ask"
	"github.com/rdma-relay/rdma-relay/discoveryd/internal/inventory"
	"github.com/rdma-relay/rdma-relay/discoveryd/internal/show"
	"github.com/rdma-relay/rdma-relay/internal/cli"
	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

func listCommand() *cobra.Command {
	var output, socket, hostRoot string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the RDMA devices, by one scan of the host or as the daemon sees them",
		Long: `List the RDMA devices of this node, and what limits them.

Without --socket the host is scanned once. With --socket the daemon is asked.

The table has one line for each device. Where the ports of a device differ, their
values have slashes between them, in the order of PORTS; *4 stands for four alike.
GB/S is the port's speed in Gb/s. A device with nothing under REASONS is well; what
the reasons mean, and what to do, stands below the table.

-o json and -o yaml give the message Snapshot of proto/discovery/v1 with the field
names of the .proto file. Lists are there when empty, and 64-bit numbers are strings.`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			write, err := show.Format(output)
			if err != nil {
				return cli.Usagef("-o %s: %w", output, err)
			}
			if cmd.Flags().Changed("socket") && cmd.Flags().Changed("host-root") {
				return cli.Usagef("--socket asks the daemon, which has a --host-root of its own: give one of the two")
			}
			var snapshot *discoveryv1.Snapshot
			if cmd.Flags().Changed("socket") {
				snapshot, err = ask.Snapshot(cmd.Context(), socket, timeout)
			} else {
				snapshot, err = scanOnce(cmd.Context(), hostRoot)
			}
			if err != nil {
				return err
			}
			return write(cmd.OutOrStdout(), snapshot)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&output, "output", "o", "table", "table, wide, json or yaml")
	flags.StringVar(&socket, "socket", defaultSocket, "ask the daemon on this Unix socket")
	flags.StringVar(&hostRoot, "host-root", "/", "scan this directory with a host's sys and dev")
	flags.DurationVar(&timeout, "timeout", 10*time.Second, "how long the daemon has to answer")
	return cmd
}

// scanOnce is a scan without the daemon.
func scanOnce(ctx context.Context, hostRoot string) (*discoveryv1.Snapshot, error) {
	scanner, err := inventory.New(inventory.Options{Root: hostRoot})
	if err != nil {
		return nil, settingsError(err)
	}
	return scanner.Scan(ctx)
}

func probeCommand() *cobra.Command {
	var socket string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "probe",
		Short: "Exit with 0 if the daemon answers with a snapshot",
		Args:  cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := ask.Snapshot(cmd.Context(), socket, timeout)
			return err
		},
	}
	cmd.Flags().StringVar(&socket, "socket", defaultSocket, "Unix socket of the daemon")
	cmd.Flags().DurationVar(&timeout, "timeout", 5*time.Second, "how long the daemon has to answer")
	return cmd
}
