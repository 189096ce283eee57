// SPDX-License-Identifier: Apache-2.0

package fakekubelet

// This file holds the faults of Register: refusals, slowness, failed dial-backs, slow reaping.

import (
	"context"
	"errors"
	"time"
)

// faults are the settings that the verbs of this file leave for later calls. They last over restarts of kubelet.
type faults struct {
	refuse     int // Register calls still to refuse; negative: for ever
	refuseWith error
	dialFails  int // dial-backs still to fail; negative: for ever

	dialTimeout time.Duration
	delays      [numStages]delay
}

// stage is a place where kubelet may be slow.
type stage int

const (
	beforeRegister stage = iota // the call has come and is not looked at
	beforeAnswer                // the session is there and the call not answered
	beforeLookup                // the stream has ended and the client is not looked up
	beforeClose                 // the client is out of the books and its connection is open
	afterClose                  // the connection is closed and the endpoint is not stopped
	numStages
)

// delay is how long kubelet stays in a stage.
type delay struct {
	d    time.Duration
	over chan struct{} // closed when d is replaced; nil when d is 0
}

// RefuseNext makes the next n Register calls fail with err before anything is dialled; a negative n means all from now on, 0 none.
// An error that is no gRPC status arrives as code Unknown, as those of kubelet do. A nil err stands for some error.
func (k *Kubelet) RefuseNext(n int, err error) {
	if err == nil {
		err = errors.New("refused by the fake kubelet")
	}
	k.update(func() { k.faults.refuse, k.faults.refuseWith = n, err })
}

// DialBackFails makes the next n dial-backs find nobody, which kubelet notices after the dial timeout; a negative n means all from now
// on, 0 none.
func (k *Kubelet) DialBackFails(n int) {
	k.update(func() { k.faults.dialFails = n })
}

// SetDialTimeout replaces Options.DialTimeout for the dials that begin from now on; 0 means DefaultDialTimeout.
func (k *Kubelet) SetDialTimeout(d time.Duration) {
	if d <= 0 {
		d = DefaultDialTimeout
	}
	k.update(func() { k.faults.dialTimeout = d })
}

// SlowRegister makes kubelet wait for d at the start of each Register call, before it looks at the request. Setting another time, 0 for
// none, ends the waits under way.
func (k *Kubelet) SlowRegister(d time.Duration) {
	k.update(func() { k.faults.setDelay(beforeRegister, d) })
}

// SlowAnswer makes kubelet wait for d before it answers a Register call that it has accepted: the session is there before the
// answer. Setting another time, 0 for none, ends the waits under way.
func (k *Kubelet) SlowAnswer(d time.Duration) {
	k.update(func() { k.faults.setDelay(beforeAnswer, d) })
}

// SlowReap widens the three gaps between the end of a stream and the end of its endpoint: until kubelet looks up the client by its key,
// until it closes the connection, and from there until it stops the endpoint and marks the devices. A Register that lands in one of
// them meets the races of the real book-keeping. Setting other times, 0 for none, ends the waits under way.
func (k *Kubelet) SlowReap(lookup, closing, stopping time.Duration) {
	k.update(func() {
		k.faults.setDelay(beforeLookup, lookup)
		k.faults.setDelay(beforeClose, closing)
		k.faults.setDelay(afterClose, stopping)
	})
}

// setDelay replaces a delay; the caller holds mu.
func (f *faults) setDelay(at stage, d time.Duration) {
	if old := f.delays[at].over; old != nil {
		close(old)
	}
	f.delays[at] = delay{d: d}
	if d > 0 {
		f.delays[at].over = make(chan struct{})
	}
}

// linger waits as long as kubelet is to stay in a stage, or until the context's end, whose error it returns.
func (k *Kubelet) linger(ctx context.Context, at stage) error {
	k.mu.Lock()
	delay := k.faults.delays[at]
	k.mu.Unlock()
	if delay.d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(delay.d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-delay.over:
	case <-ctx.Done():
	}
	return ctx.Err()
}

// takeRefusal uses up one refusal.
func (k *Kubelet) takeRefusal() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !take(&k.faults.refuse) {
		return nil
	}
	return k.faults.refuseWith
}

// takeDialFailure uses up one failed dial-back.
func (k *Kubelet) takeDialFailure() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return take(&k.faults.dialFails)
}

func (k *Kubelet) dialTimeout() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.faults.dialTimeout
}

func take(n *int) bool {
	if *n > 0 {
		*n--
		return true
	}
	return *n < 0
}
