// SPDX-License-Identifier: Apache-2.0

package fakekubelet

// This file holds the faults of Register: refusals, slowness, failed dial-backs, slow reaping.

import (
	"errors"
	"time"
)

// faults are the settings that the verbs of this file leave for later calls. They last over restarts of kubelet.
type faults struct {
	refuse      int // Register calls still to refuse; negative: for ever
	refuseWith  error
	dialFails   int // dial-backs still to fail; negative: for ever
	slowBefore  time.Duration
	slowAfter   time.Duration
	slowReaping reapDelay
}

// reapDelay is where kubelet may be slow between the end of a stream and the end of its endpoint. All are gaps of the real one, made wide.
type reapDelay struct {
	BeforeLookup time.Duration
	BeforeClose  time.Duration
	AfterClose   time.Duration
}

// RefuseNext makes the next n Register calls fail with err before anything is dialled; a negative n means all from now on, 0 none.
// An error that is no gRPC status arrives as code Unknown, as those of kubelet do. A nil err stands for some error.
func (k *Kubelet) RefuseNext(n int, err error) {
	if err == nil {
		err = errors.New("refused by the fake kubelet")
	}
	k.update(func() { k.faults.refuse, k.faults.refuseWith = n, err })
}

// DialBackFails makes the next n dial-backs find nobody, which kubelet notices after DialTimeout; a negative n means all from now
// on, 0 none.
func (k *Kubelet) DialBackFails(n int) {
	k.update(func() { k.faults.dialFails = n })
}

// SlowRegister makes kubelet wait for d at the start of each Register call, before it looks at the request; 0 ends it.
func (k *Kubelet) SlowRegister(d time.Duration) {
	k.update(func() { k.faults.slowBefore = d })
}

// SlowAnswer makes kubelet wait for d before it answers a Register call that it has accepted: the session is there before the
// answer; 0 ends it.
func (k *Kubelet) SlowAnswer(d time.Duration) {
	k.update(func() { k.faults.slowAfter = d })
}

// SlowReap widens the three gaps between the end of a stream and the end of its endpoint: until kubelet looks up the client by its key,
// until it closes the connection, and from there until it stops the endpoint and marks the devices. A Register that lands in one of
// them meets the races of the real book-keeping. Zeros end it.
func (k *Kubelet) SlowReap(beforeLookup, beforeClose, afterClose time.Duration) {
	k.update(func() { k.faults.slowReaping = reapDelay{beforeLookup, beforeClose, afterClose} })
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

func take(n *int) bool {
	if *n > 0 {
		*n--
		return true
	}
	return *n < 0
}

func (k *Kubelet) registerDelays() (before, after time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.faults.slowBefore, k.faults.slowAfter
}

func (k *Kubelet) reapDelays() reapDelay {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.faults.slowReaping
}
