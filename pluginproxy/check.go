// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/rdma-relay/rdma-relay/internal/cli"
	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/config"
	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/resource"
	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/status"
	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/subscribe"
	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

func checkCommand() *cobra.Command {
	var path, socket string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Validate a configuration file, and show what it would expose",
		Long: `Validate a configuration file and print what is in force with all defaults.

With --discovery-socket also ask discoveryd for the node's devices and show what
each resource would expose and why the other devices are left out. Nothing is
registered.`,
		Example: `  pluginproxy check --config config.json
  pluginproxy check --config config.json --discovery-socket /run/rdma-relay/discovery.sock`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := config.Load(path)
			if err != nil {
				return cli.Usage(err)
			}
			for _, w := range cfg.Warnings {
				cmd.PrintErrln("warning:", w)
			}
			if socket == "" {
				return printConfig(cmd.OutOrStdout(), cfg)
			}
			if err := checkSocket(socket); err != nil {
				return err
			}
			snapshot, err := firstSnapshot(cmd.Context(), socket, timeout)
			if err != nil {
				return err
			}
			return status.WriteResources(cmd.OutOrStdout(), resource.Build(cfg, snapshot, resource.Options{}), colours(cmd.OutOrStdout()))
		},
	}
	cmd.Flags().StringVar(&path, "config", defaultConfig, "configuration file, JSON or YAML")
	cmd.Flags().StringVar(&socket, "discovery-socket", "", "unix socket of discoveryd, such as "+defaultSocket)
	cmd.Flags().DurationVar(&timeout, "timeout", 10*time.Second, "how long to wait for discoveryd's snapshot")
	return cmd
}

// printConfig prints the effective configuration as YAML.
func printConfig(w io.Writer, cfg *config.Config) error {
	text, err := json.Marshal(cfg)
	if err != nil {
		return err
	}
	out, err := yaml.JSONToYAML(text)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "# good; hash %s\n%s", cfg.Hash, out)
	return err
}

// firstSnapshot asks the daemon once.
func firstSnapshot(ctx context.Context, socket string, timeout time.Duration) (*discoveryv1.Snapshot, error) {
	// The client knows no deadline: the reason to tell is why its tries fail, not
	// that the last one was cut short.
	ctx, cancel := context.WithCancel(ctx)
	late := time.NewTimer(timeout)
	defer late.Stop()
	client := subscribe.New(socket, slog.New(slog.DiscardHandler))
	var following sync.WaitGroup
	defer following.Wait()
	defer cancel()
	following.Go(func() { client.Run(ctx) })
	for {
		state, changed := client.Get()
		if state.Snapshot != nil {
			return state.Snapshot, nil
		}
		select {
		case <-changed:
		case <-late.C:
			return nil, fmt.Errorf("no snapshot from discoveryd: %s", state.Problem)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
