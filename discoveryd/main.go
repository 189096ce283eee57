// Command discoveryd sees the host: it finds the RDMA devices of this node and
// tells local programs about them on a Unix socket. It knows nothing of Kubernetes.
//
// SPDX-License-Identifier: Apache-2.0
package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/rdma-relay/rdma-relay/internal/cli"
)

// defaultSocket is where the daemon serves and its tools ask.
const defaultSocket = "/run/rdma-relay/discovery.sock"

func main() { os.Exit(cli.Run(newCommand())) }

// newCommand makes the command line.
func newCommand() *cobra.Command {
	var logs cli.LogFlags
	root := &cobra.Command{
		Use:   "discoveryd",
		Short: "Find this node's RDMA devices and tell local programs about them",
		CompletionOptions: cobra.CompletionOptions{
			HiddenDefaultCmd: true,
		},
	}
	logs.Register(root)
	root.AddCommand(serveCommand(&logs), listCommand(), probeCommand(), captureCommand(), cli.VersionCommand("discoveryd"))
	return root
}
