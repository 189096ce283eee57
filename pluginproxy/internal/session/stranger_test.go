// Who else may connect, and what must not depend on it.
//
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"testing"
	"time"
)

// Kubelet's stream ends when a stranger's begins. It then hangs up and never comes
// back by itself, so the stranger's session is no reason to go on.
func TestStrangersSessionEndsWhenKubeletHasHungUp(t *testing.T) {
	s := serve(t, time.Millisecond, 10)
	watch(t, s.kubelet).expect(10)
	_, stranger := s.dial()
	w := watch(t, stranger)
	w.expect(10)
	if closed(s.Over()) {
		t.Fatal("the server is over while kubelet is connected")
	}
	must(t, s.conn.Close())
	await(t, s.Over())
	bound, done := context.WithTimeout(context.Background(), within)
	defer done()
	if !s.Disconnected(bound) {
		t.Error("a stranger's connection counts as kubelet's")
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
