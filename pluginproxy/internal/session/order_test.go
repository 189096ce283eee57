// What kubelet has received last is the newest session's list.
//
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// Three sessions in quick succession: the second is over while the first still has
// a message on its way. Kubelet takes what comes last.
func TestLastListIsTheNewestSessionsWhateverOlderOnesStillSend(t *testing.T) {
	s := serve(t, time.Millisecond, 1)
	var kubelet wire
	begin := func(st *heldStream) (ended chan struct{}) {
		ended = make(chan struct{})
		go func() { defer close(ended); _ = s.ListAndWatch(nil, st) }()
		await(t, st.sending)
		return ended
	}
	first := kubelet.stream(t, true)
	begin(first)
	s.offer.Set(slots(2))
	second := begin(kubelet.stream(t, false))
	begin(kubelet.stream(t, false))
	await(t, second)
	for n := 3; n < 10; n++ { // the third session works and has seen the second end
		s.offer.Set(slots(n))
		waitFor(t, func() bool { return kubelet.has(n) })
	}
	first.release()
	waitFor(t, func() bool { return kubelet.has(1) })
	waitFor(t, func() bool { return kubelet.last() == 9 })
}

// wire keeps the lengths of the lists in the order in which kubelet gets them.
type wire struct {
	mu    sync.Mutex
	lists []int
}

func (w *wire) last() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lists[len(w.lists)-1]
}

func (w *wire) has(n int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Contains(w.lists, n)
}

// heldStream is the server's end of a stream. The message of a held one is on its
// way until release is called.
type heldStream struct {
	grpc.ServerStream
	ctx     context.Context
	to      *wire
	held    bool
	sending chan struct{} // closed when a message is on its way
	gate    chan struct{}
	release func() // closes gate
}

func (w *wire) stream(t *testing.T, held bool) *heldStream {
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	s := &heldStream{ctx: ctx, to: w, held: held, sending: make(chan struct{}), gate: make(chan struct{})}
	s.release = sync.OnceFunc(func() { close(s.gate) })
	t.Cleanup(s.release)
	if !held {
		s.release()
	}
	return s
}

func (s *heldStream) Context() context.Context { return s.ctx }

func (s *heldStream) Send(r *pluginapi.ListAndWatchResponse) error {
	select {
	case <-s.sending:
	default:
		close(s.sending)
	}
	<-s.gate
	s.to.mu.Lock()
	defer s.to.mu.Unlock()
	s.to.lists = append(s.to.lists, len(r.Devices))
	if s.held {
		return errors.New("the handler has returned") // gRPC takes no further message
	}
	return nil
}
