// Reading what pluginproxy says of itself, and sorting an answer for people.
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// poolAdapters counts the good adapters behind the pool.
const poolAdapters = `rdma_relay_hcas{health="healthy",resource="` + pool + `"}`

// scrape returns the lines of /metrics.
func (n *node) scrape(ctx context.Context) ([]string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.metrics+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	return strings.Split(strings.TrimSpace(string(body)), "\n"), nil
}

// waitMetric looks at a metric until it has a value.
func (n *node) waitMetric(ctx context.Context, name string, want int) error {
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	line := name + " " + strconv.Itoa(want)
	for {
		lines, err := n.scrape(ctx)
		if err == nil && slices.Contains(lines, line) {
			return nil
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return fmt.Errorf("metric %s did not become %d", name, want)
		}
	}
}

// telling are the few lines of /metrics that tell most.
func telling(lines []string) []string {
	var few []string
	for _, begin := range []string{
		`rdma_relay_devices{health="healthy"`,
		`rdma_relay_hcas{health="healthy"`,
		`rdma_relay_session_active{`,
		`rdma_relay_sessions_total{`,
		`rdma_relay_snapshot_age_seconds `,
	} {
		for _, line := range lines {
			if strings.HasPrefix(line, begin) {
				few = append(few, line)
			}
		}
	}
	return append(few, "...")
}

// environment are the variables of an answer, in order of name.
func environment(envs map[string]string) [][]string {
	var rows [][]string
	for _, name := range slices.Sorted(maps.Keys(envs)) {
		rows = append(rows, []string{"variable", name + "=" + envs[name]})
	}
	return rows
}

// logs is the end of both programs' logs, for an error message.
func (n *node) logs() string {
	var b strings.Builder
	for _, p := range []*process{n.daemon, n.proxy} {
		if p != nil {
			fmt.Fprintf(&b, "\n  log of %s:%s", p.name, p.log.tail())
		}
	}
	return b.String()
}
