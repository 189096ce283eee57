// SPDX-License-Identifier: Apache-2.0

package fakekubelet_test

// This file shows waiting and the end of the node.

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/rdma-relay/rdma-relay/test/fakekubelet"
)

func never(fakekubelet.State) bool { return false }

func TestWaitTellsTheStateItGaveUpOn(t *testing.T) {
	k := start(t, fakekubelet.Options{})
	registered(t, k, 2)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := k.Wait(ctx, never)
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "capacity=2") {
		t.Errorf("error %v", err)
	}
	check(t, k.Wait(ctx, fakekubelet.Listed(widget, 2, 2))) // what holds already needs no time
}

func TestCloseEndsWaitersAndVerbs(t *testing.T) {
	k := start(t, fakekubelet.Options{})
	registered(t, k, 2)
	_, err := k.Replace()
	check(t, err)
	waiter := make(chan error, 1)
	go func() { waiter <- k.Wait(t.Context(), never) }()
	check(t, k.Close())
	if err := <-waiter; !errors.Is(err, fakekubelet.ErrClosed) {
		t.Errorf("waiter: %v", err)
	}
	if there(t, k.SocketPath()) {
		t.Error("kubelet.sock is left")
	}
	for name, err := range map[string]error{
		"Start": k.Start(), "Stop": k.Stop(), "Kill": k.Kill(), "Restart": k.Restart(), "Rebind": k.Rebind(), "StaleSocket": k.StaleSocket(),
	} {
		if !errors.Is(err, fakekubelet.ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestStatesDoNotChangeAfterwards(t *testing.T) {
	k := start(t, fakekubelet.Options{})
	p := registered(t, k, 2)
	before := k.State()
	p.list(devices("w", 7))
	wait(t, k, fakekubelet.Listed(widget, 7, 7))
	check(t, k.Kill())
	if len(before.Responses) != 1 || before.Capacity(widget) != 2 || !before.Sessions[0].Live() {
		t.Errorf("changed to %v", before)
	}
}
