// Somebody else removes or changes the file, or the directory comes, goes or
// becomes writable: the spec is placed anew.
//
// SPDX-License-Identifier: Apache-2.0

package cdi

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/rdma-relay/rdma-relay/discoveryd/internal/notice"
)

// A spec that can't be kept is tried again after minRetry, then after twice as
// long, and so on up to maxRetry.
const (
	minRetry = time.Second
	maxRetry = 30 * time.Second
)

// Name implements notice.Source.
func (s *Specs) Name() string { return "CDI directory" }

// Run implements notice.Source: it asks for a scan, and so for Place, when the file
// isn't as Place has left it, and from time to time while that has failed.
func (s *Specs) Run(ctx context.Context, n *notice.Notice, listening func()) error {
	listening()
	var dir watchedDir
	defer dir.close()
	retry := time.NewTimer(time.Hour)
	defer retry.Stop()
	wait := minRetry
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.placed:
			retry.Stop()
			if s.broken() {
				retry.Reset(wait)
				wait = min(2*wait, maxRetry)
				continue
			}
			wait = minRetry
			if err := dir.watch(filepath.Dir(s.path)); err != nil {
				return fmt.Errorf("watch the CDI directory: %w", err)
			}
			// What happened to the file before it was watched is seen here.
			if s.disturbed() {
				n.Hint()
			}
		case <-retry.C:
			n.Hint()
		case event := <-dir.events():
			if event.Name == dir.path { // it was removed or moved away
				dir.close()
				n.Hint()
			} else if filepath.Base(event.Name) == FileName && s.disturbed() {
				n.Hint()
			}
		case err := <-dir.errors():
			return fmt.Errorf("watch the CDI directory: %w", err)
		}
	}
}

// watchedDir is a directory that is watched, or none. A directory that takes the
// place of one is watched by a new watcher: fsnotify knows a path only once.
type watchedDir struct {
	path    string
	id      identity
	watcher *fsnotify.Watcher
}

// watch watches the directory that is at the path now.
func (w *watchedDir) watch(path string) error {
	id, _, err := identify(path)
	if err != nil {
		return err
	}
	if w.watcher != nil && w.id.dev == id.dev && w.id.ino == id.ino {
		return nil
	}
	w.close()
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	if err := watcher.Add(path); err != nil {
		_ = watcher.Close()
		return err
	}
	*w = watchedDir{path, id, watcher}
	return nil
}

func (w *watchedDir) close() {
	if w.watcher != nil {
		_ = w.watcher.Close()
	}
	*w = watchedDir{}
}

// events is nil where no directory is watched, as is errors.
func (w *watchedDir) events() <-chan fsnotify.Event {
	if w.watcher == nil {
		return nil
	}
	return w.watcher.Events
}

func (w *watchedDir) errors() <-chan error {
	if w.watcher == nil {
		return nil
	}
	return w.watcher.Errors
}
