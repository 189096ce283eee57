// One cluster for all tests: started before the first, ended after the last.
//
// SPDX-License-Identifier: Apache-2.0

//go:build cluster

package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"
)

// patience bounds each wait for something that must come. It is far above what
// anything here takes, so that only a hang or a lost update reaches it.
const patience = 60 * time.Second

// shared is the cluster of all tests; they run one after the other.
var shared *cluster

func TestMain(m *testing.M) {
	code, err := outsideOrInside(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		code = 1
	}
	os.Exit(code)
}

func outsideOrInside(m *testing.M) (int, error) {
	if work := os.Getenv(insideDir); work != "" {
		return inside(m, work)
	}
	if os.Getuid() != 0 {
		return 1, errors.New("a kubelet needs root, and this is not root: run it with sudo, or in a privileged container")
	}
	return outside()
}

// inside runs the tests in the name spaces that outside has made.
func inside(m *testing.M, work string) (code int, err error) {
	if err := prepareSandbox(work); err != nil {
		return 1, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	begin := time.Now()
	shared = &cluster{dir: work, cgroup: os.Getenv(insideCgroup)}
	defer func() { err = errors.Join(err, shared.down()) }()
	if err := shared.up(ctx); err != nil {
		return 1, fmt.Errorf("bring up the cluster: %w", err)
	}
	measured("cluster/up", time.Since(begin))
	code = m.Run()
	begin = time.Now()
	err = shared.down()
	measured("cluster/down", time.Since(begin))
	return code, err
}

// measured prints a line that test/testsum passes on.
func measured(what string, d time.Duration, facts ...any) {
	fmt.Printf("MEASURED %s %.2f s", what, d.Seconds())
	for _, fact := range facts {
		fmt.Printf(" %v", fact)
	}
	fmt.Println()
}
