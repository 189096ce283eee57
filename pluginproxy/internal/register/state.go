// What a Keeper says of itself.
//
// SPDX-License-Identifier: Apache-2.0

package register

import (
	"sync/atomic"
	"time"
)

// Stats counts registrations by result. The zero value is ready; all fields are
// safe for concurrent use.
type Stats struct {
	OK, Refused, Unreachable atomic.Uint64
}

// State is what a Keeper says of itself.
type State struct {
	// Registered: kubelet has accepted the registration of now.
	Registered bool
	// Session: kubelet has a ListAndWatch stream open.
	Session bool
	// Since is when Registered or Session changed last.
	Since time.Time
	// Problem is why there is no session, in one sentence; empty when there is.
	Problem string
}

// State returns what is true now, and a channel that is closed when it changes.
func (k *Keeper) State() (State, <-chan struct{}) { return k.state.Get() }

// lost says that there is no session and why. It is logged when the reason is
// another than before, for such a state can last for long.
func (k *Keeper) lost(why error) {
	before, _ := k.state.Get()
	if !before.Registered && !before.Session && before.Problem == why.Error() {
		return
	}
	k.update(func(s *State) { s.Registered, s.Session, s.Problem = false, false, why.Error() })
	k.Log.Warn("no session with kubelet", "reason", why)
}

// update changes the state. Only the goroutine of Run calls it.
func (k *Keeper) update(change func(*State)) {
	before, _ := k.state.Get()
	now := before
	change(&now)
	if now.Registered != before.Registered || now.Session != before.Session {
		now.Since = time.Now()
	}
	k.state.Set(now)
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
