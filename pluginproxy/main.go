// Command pluginproxy turns discoveryd's snapshots into Kubernetes resources and
// keeps them registered with kubelet. It needs no privilege.
//
// SPDX-License-Identifier: Apache-2.0
package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/rdma-relay/rdma-relay/internal/cli"
)

func main() { os.Exit(cli.Run(rootCommand())) }

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "pluginproxy",
		Short: "Kubernetes RDMA resources that survive every kubelet restart",
	}
	var log cli.LogFlags
	log.Register(root)
	root.AddCommand(serveCommand(&log), checkCommand(), statusCommand(), cli.VersionCommand("pluginproxy"))
	return root
}
