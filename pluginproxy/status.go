// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/rdma-relay/rdma-relay/internal/cli"
	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/relay"
	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/status"
)

func statusCommand() *cobra.Command {
	var address, output string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Ask a running pluginproxy what it serves and why",
		Long: `Ask a running pluginproxy what it serves and why.

Exit code 0 when it answers, whatever it says; 1 when it does not. Colours are
used on a terminal only, and not with NO_COLOR set.

Where pluginproxy serves with --web-config-file, ask its --probe-address: over
loopback it answers without TLS and password.`,
		Example: `  pluginproxy status
  kubectl -n rdma-relay exec POD -c pluginproxy -- pluginproxy status -o json`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != "table" && output != "json" {
				return cli.Usagef("--output=%s: must be table or json", output)
			}
			body, err := fetch(cmd.Context(), address)
			if err != nil {
				return err
			}
			if output == "json" {
				_, err = cmd.OutOrStdout().Write(body)
				return err
			}
			var rep relay.Report
			if err := json.Unmarshal(body, &rep); err != nil {
				return fmt.Errorf("read the answer of %s: %w", address, err)
			}
			return status.WriteText(cmd.OutOrStdout(), &rep, time.Now(), colours(cmd.OutOrStdout()))
		},
	}
	cmd.Flags().StringVar(&address, "metrics-address", defaultMetrics, "the --metrics-address of the running pluginproxy, or its --probe-address")
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table or json")
	return cmd
}

// maxAnswer bounds what is read of an answer, in bytes.
const maxAnswer = 64 << 20

func fetch(ctx context.Context, address string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, cli.Usagef("--metrics-address=%s: must be HOST:PORT or :PORT", address)
	}
	if host == "" {
		host = "localhost"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, port)+"/statusz", nil)
	if err != nil {
		return nil, cli.Usage(err)
	}
	req.Header.Set("Accept", "application/json")
	// A transport of its own: no proxy stands between here and this node.
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return nil, fmt.Errorf("no pluginproxy answers; if it has ended, its log says why: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	if protected(resp) {
		return nil, fmt.Errorf("%s answered %s: it is protected by --web-config-file; ask pluginproxy's --probe-address instead, from inside its pod (--metrics-address=:%d with the chart)",
			address, resp.Status, chartProbePort)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answered %s", address, resp.Status)
	}
	return body, err
}

// chartProbePort is the chart's metrics.webConfig.probePort.
const chartProbePort = 9838

// protected tells whether the answer comes from a port with TLS (net/http's answer to
// who speaks plain HTTP there) or with passwords.
func protected(resp *http.Response) bool {
	return resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusBadRequest && resp.Header.Get("Content-Type") == ""
}

// colours tells whether w is a terminal whose user wants colours (no-color.org).
func colours(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	_, err := unix.IoctlGetTermios(int(file.Fd()), unix.TCGETS)
	return err == nil
}
