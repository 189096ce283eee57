// Watching the file: a good new content is the next configuration, a bad one is
// refused and the old one stands.
//
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"context"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/latest"
)

// State is the configuration in force and what became of the last reading.
type State struct {
	// Config is the last good configuration; never nil.
	Config *Config
	// LoadedAt is when it was read.
	LoadedAt time.Time
	// Problem is why the file of now is refused; empty when Config is the file of now.
	Problem string
}

// Watcher follows one file. Make it with Watch. Get may be called concurrently.
type Watcher struct {
	path  string
	poll  time.Duration
	log   *slog.Logger
	state *latest.Value[State]
}

// DefaultPoll is how often a Watcher reads the file without being told to.
const DefaultPoll = 10 * time.Second

// quiet is how long file events must have stopped before the file is read:
// an editor or kubelet's ConfigMap swap makes several changes in a row.
const quiet = 50 * time.Millisecond

// Watch reads the file for the first time, and returns Load's error when it is not
// good. A poll of 0 means DefaultPoll.
func Watch(path string, poll time.Duration, log *slog.Logger) (*Watcher, error) {
	cfg, err := Load(path)
	if err != nil {
		return nil, err
	}
	if poll == 0 {
		poll = DefaultPoll
	}
	w := &Watcher{path: path, poll: poll, log: log, state: latest.New(State{Config: cfg, LoadedAt: time.Now()})}
	log.Info("configuration loaded", "path", path, "resources", len(cfg.Resources), "hash", cfg.Hash)
	w.warn(cfg)
	return w, nil
}

// Get returns the state of now and a channel that is closed when it changes.
func (w *Watcher) Get() (State, <-chan struct{}) { return w.state.Get() }

// Run follows the file until ctx ends. What is watched is the directory, since a
// ConfigMap is swapped by renaming a symbolic link beside the file.
func (w *Watcher) Run(ctx context.Context) {
	var events <-chan fsnotify.Event
	var faults <-chan error
	watcher, err := fsnotify.NewWatcher()
	if err == nil {
		defer func() { _ = watcher.Close() }()
		events, faults = watcher.Events, watcher.Errors
		err = watcher.Add(filepath.Dir(w.path))
	}
	if err != nil {
		w.log.Warn("the configuration's directory can't be watched; polling instead", "interval", w.poll, "error", err)
	}
	tick := time.NewTicker(w.poll)
	defer tick.Stop()
	settled := time.NewTimer(0)
	defer settled.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-events:
			settled.Reset(quiet)
		case err := <-faults: // the event queue has overflowed
			w.log.Debug("file events were lost", "error", err)
			settled.Reset(quiet)
		case <-settled.C:
			w.read()
		case <-tick.C:
			w.read()
		}
	}
}

// read takes the file of now as it is.
func (w *Watcher) read() {
	state, _ := w.state.Get()
	cfg, err := Load(w.path)
	switch {
	case err != nil && err.Error() == state.Problem:
		return
	case err != nil:
		w.log.Error("configuration refused; the old one stays in force", "path", w.path, "error", err)
		state.Problem = err.Error()
	case cfg.Hash == state.Config.Hash && state.Problem == "":
		return
	case cfg.Hash == state.Config.Hash:
		w.log.Info("the configuration file is good again and says what is in force", "path", w.path)
		state.Problem = ""
	default:
		w.log.Info("configuration changed", "path", w.path, "resources", len(cfg.Resources), "hash", cfg.Hash)
		w.warn(cfg)
		state = State{Config: cfg, LoadedAt: time.Now()}
	}
	w.state.Set(state)
}

func (w *Watcher) warn(cfg *Config) {
	for _, warning := range cfg.Warnings {
		w.log.Warn("configuration warning", "detail", warning)
	}
}
