// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/rdma-relay/rdma-relay/internal/cli"
	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/relay"
)

func statusCommand() *cobra.Command {
	var address, output string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Ask a running pluginproxy what it serves and why",
		Long: `Ask a running pluginproxy what it serves and why.

Exit code 0 when it answers, whatever it says; 1 when it does not.`,
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
			return printStatus(cmd.OutOrStdout(), &rep)
		},
	}
	cmd.Flags().StringVar(&address, "metrics-address", defaultMetrics, "the --metrics-address of the running pluginproxy")
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
	// A transport of its own: no proxy stands between here and this node.
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return nil, fmt.Errorf("no pluginproxy answers: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answered %s", address, resp.Status)
	}
	return body, err
}

// printStatus is the answer for people: first what is wrong, then the resources.
func printStatus(w io.Writer, rep *relay.Report) error {
	p := func(format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }
	if rep.Ready {
		p("ready: every resource has a session with kubelet\n")
	} else {
		p("NOT READY\n")
		for _, m := range rep.Missing {
			p("  %s\n", m)
		}
	}
	d := rep.Discovery
	switch {
	case !d.Connected:
		p("discoveryd: not connected: %s\n", d.Problem)
	default:
		p("discoveryd: connected, version %s, generation %d, %d RDMA devices, netns mode %s\n", d.DaemonVersion, d.Generation, d.Devices, d.NetnsMode)
	}
	if d.Generation > 0 {
		p("last scan:  %s ago%s\n", time.Duration(d.AgeSeconds*float64(time.Second)).Round(time.Second), map[bool]string{true: " (STALE: all devices unhealthy)"}[d.Stale])
	}
	for _, r := range d.NodeReasons {
		p("node:       %s\n", r)
	}
	if rep.Config.Problem != "" {
		p("config:     REFUSED, the one of %s stays in force: %s\n", rep.Config.LoadedAt.Format(time.RFC3339), rep.Config.Problem)
	}
	for _, warning := range rep.Config.Warnings {
		p("config:     warning: %s\n", warning)
	}
	p("\n")
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(tw, "RESOURCE\tDEVICES\tHEALTHY\tHCAS\tSESSION\tREGISTRATIONS\tALLOCATIONS")
	for _, r := range rep.Resources {
		_, _ = fmt.Fprintf(tw, "%s\t%d\t%d\t%d/%d\t%s\t%d\t%d\n", r.Name, r.Devices, r.Healthy, r.HealthyHCAs, len(r.HCAs),
			map[bool]string{true: "live", false: "none"}[r.Session], r.Counters.RegistrationsOK, r.Counters.AllocationsOK)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for i := range rep.Resources {
		printWhy(p, &rep.Resources[i])
	}
	return nil
}

// printWhy says why a resource has less than one might expect.
func printWhy(p func(string, ...any), r *relay.ResourceReport) {
	var lines []string
	if !r.Session {
		lines = append(lines, "no session: "+r.Problem)
	}
	for _, h := range r.HCAs {
		if !h.Healthy {
			lines = append(lines, h.Name+" is unhealthy: "+h.Reason)
		}
	}
	for _, l := range r.LeftOut {
		lines = append(lines, l.Device+" is left out: "+l.Rule)
	}
	for _, h := range r.Hints {
		lines = append(lines, "hint: "+h)
	}
	if len(lines) > 0 {
		p("\n%s\n  %s\n", r.Name, strings.Join(lines, "\n  "))
	}
}
