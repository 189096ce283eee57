// Readers that a hung driver may keep: each thing has its own, and nobody waits
// longer than the deadline.
//
// SPDX-License-Identifier: Apache-2.0

package capture

import "sync"

// maxReaders bounds how many things are read at the same time; one that hangs keeps a
// thread.
const maxReaders = 64

// crew runs readers until time is up.
type crew struct {
	up   <-chan struct{}
	tree *tree
	free chan struct{}
	all  sync.WaitGroup
}

func newCrew(up <-chan struct{}, t *tree) *crew {
	return &crew{up: up, tree: t, free: make(chan struct{}, maxReaders)}
}

// start runs fn when a reader is free. Readers may call it.
func (c *crew) start(fn func()) {
	c.tree.wait(1)
	c.all.Go(func() {
		select {
		case c.free <- struct{}{}:
		case <-c.up:
			return
		}
		defer func() { <-c.free }()
		c.tree.wait(-1)
		fn()
	})
}

// wait returns when all readers are done or time is up. after is called
// once, when the last reader is done.
func (c *crew) wait(after func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.all.Wait()
		after()
	}()
	select {
	case <-done:
	case <-c.up:
	}
}
