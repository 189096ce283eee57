// SPDX-License-Identifier: Apache-2.0

package fakekubelet

// This file holds the eyes of the watcher route: which plugin sockets lie in plugins_registry (pkg/kubelet/pluginmanager/pluginwatcher).

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/fsnotify/fsnotify"
)

// watcher knows the sockets in plugins_registry and the plugins that it has registered for them.
type watcher struct {
	p   *process
	ctx context.Context // ends with the process, or when it is superseded
	fs  *fsnotify.Watcher

	// Guarded by k.mu.
	incarnations int
	desired      map[string]int        // path → incarnation of the socket that was seen last
	actual       map[string]registered // path → what is registered
	operations   map[string]*operation // path → what runs or has failed
}

// startWatcher makes the directory, watches it, takes what lies there and reconciles from then on. Nothing is wiped.
func startWatcher(p *process, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make plugins registry: %w", err)
	}
	events, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch plugins registry: %w", err)
	}
	ctx, cancel := context.WithCancel(p.ctx)
	w := &watcher{
		p:          p,
		ctx:        ctx,
		fs:         events,
		desired:    map[string]int{},
		actual:     map[string]registered{},
		operations: map[string]*operation{},
	}
	if err := w.traverse(dir); err != nil {
		cancel()
		_ = events.Close()
		return fmt.Errorf("watch plugins registry: %w", err)
	}
	p.unwatch = cancel
	p.spawn(w.watch)
	p.spawn(w.reconcile)
	return nil
}

// watch follows the directory until the process ends. Files only come and go: a rename away is not noticed, as in kubelet.
func (w *watcher) watch() {
	defer func() { _ = w.fs.Close() }()
	for {
		select {
		case e := <-w.fs.Events:
			switch {
			case e.Has(fsnotify.Create):
				w.created(e.Name)
			case e.Has(fsnotify.Remove):
				w.p.k.update(func() { delete(w.desired, e.Name) })
			}
		case err := <-w.fs.Errors:
			w.p.k.log.Debug("plugins registry", "error", err)
		case <-w.ctx.Done():
			return
		}
	}
}

// traverse watches a directory with all below it and takes the sockets that are there.
func (w *watcher) traverse(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil && path == dir:
			return err
		case err != nil:
			return nil //nolint:nilerr // kubelet goes on without what it can't read
		case d.IsDir():
			return w.fs.Add(path)
		case d.Type()&fs.ModeSocket != 0:
			w.found(path)
		}
		return nil
	})
}

// created takes a new socket or directory; names that begin with a dot are left alone.
func (w *watcher) created(path string) {
	info, err := os.Stat(path)
	if err != nil || strings.HasPrefix(filepath.Base(path), ".") {
		return
	}
	switch {
	case info.IsDir():
		if err := w.traverse(path); err != nil {
			w.p.k.log.Debug("plugins registry", "error", err)
		}
	case info.Mode()&os.ModeSocket != 0:
		w.found(path)
	}
}

// found wants a socket to be registered; one of the same name is a new incarnation, to be unregistered first.
func (w *watcher) found(path string) {
	if strings.HasPrefix(filepath.Base(path), ".") {
		return
	}
	w.p.k.update(func() {
		w.incarnations++
		w.desired[path] = w.incarnations
	})
}
