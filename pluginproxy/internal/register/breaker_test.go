// What nobody does on purpose, and what hits a node all the same.
//
// SPDX-License-Identifier: Apache-2.0

package register

import (
	"context"
	"testing"
	"time"

	"github.com/rdma-relay/rdma-relay/test/fakekubelet"
)

// never waits long enough to believe that a condition does not come about.
func (n *node) never(cond func(fakekubelet.State) bool) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	if n.Wait(ctx, cond) == nil {
		n.t.Errorf("it has happened: %v\nlog:\n%s", n.State(), n.logs)
	}
}

// The keeper that dials finds the new kubelet.sock before the poll does.
func TestKubeletThatTheDirHasNotSeenYet(t *testing.T) {
	bothKubelets(t, func(t *testing.T, n *node) {
		must(t, n.Start())
		n.dir = NewDir(n.Dir(), time.Hour, n.log()) // and nobody runs it
		n.keep(widget, 10, DefaultTiming)
		n.eventually(healthy(widget, 10))
		must(t, n.Restart())
		n.eventually(healthy(widget, 10))
		n.never(func(s fakekubelet.State) bool { return len(s.Registrations) > 2 })
	})
}
