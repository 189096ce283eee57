// Package latest holds the newest value of something that changes. It is how
// data moves between the rooms: a writer replaces the value and never waits, a
// reader finds the newest one and is told when there is a newer. There is no
// queue, so there is nothing that can fill up, be swallowed or be drained.
//
// SPDX-License-Identifier: Apache-2.0
package latest

import "sync"

// Value is one current value. Make it with New. All methods may be called
// concurrently.
type Value[T any] struct {
	mu      sync.Mutex
	current T
	changed chan struct{}
}

// New returns a Value that holds v.
func New[T any](v T) *Value[T] {
	return &Value[T]{current: v, changed: make(chan struct{})}
}

// Get returns the value of now and a channel that is closed when it is replaced.
// What the value points to is shared and must not be changed.
func (v *Value[T]) Get() (T, <-chan struct{}) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.current, v.changed
}

// Set replaces the value and wakes everyone who waits for that.
func (v *Value[T]) Set(value T) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.current = value
	close(v.changed)
	v.changed = make(chan struct{})
}
