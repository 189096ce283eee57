// Dir knows what is in kubelet's directory for plugins now: whether kubelet is
// there and which one, and whether a socket of ours has gone.
//
// SPDX-License-Identifier: Apache-2.0

package register

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/rdma-relay/rdma-relay/internal/unixsock"
	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/latest"
)

// DefaultPoll is how often a Dir looks without being told to. File events make
// it look at once; the poll is for hosts where they don't work.
const DefaultPoll = 2 * time.Second

// Dir watches one directory of kubelet, which need not exist yet. Make it with
// NewDir or NewRegistry; it follows the directory while Run runs. All methods may
// be called concurrently.
type Dir struct {
	path    string
	sign    string // the path that tells one kubelet from the next
	pending string // what a Keeper waits for when that is there
	watched bool   // kubelet watches it, so nobody is to be called
	poll    time.Duration
	log     *slog.Logger
	kubelet *latest.Value[Generation]
	notify  func() (*fsnotify.Watcher, error) // a seam: hosts run out of inotify instances

	mu     sync.Mutex
	guards map[string]*guard // by file name
	there  presence          // at the last look
}

// presence of the directory.
type presence int

const (
	unknown presence = iota
	absent
	deleted // see errDeleted
	present
)

// guard waits for the end of one file.
type guard struct {
	id   unixsock.ID
	gone chan struct{}
	once sync.Once
}

// NewDir returns a Dir for the device-plugin directory at path, where kubelet listens
// on kubelet.sock. A poll of 0 means DefaultPoll.
func NewDir(path string, poll time.Duration, log *slog.Logger) *Dir {
	return newDir(&Dir{path: path, sign: filepath.Join(path, kubeletSocket), pending: "not registered yet"}, poll, log)
}

// NewRegistry returns a Dir for the plugin registry at path, which kubelet watches for
// the sockets of plugins. A poll of 0 means DefaultPoll.
func NewRegistry(path string, poll time.Duration, log *slog.Logger) *Dir {
	return newDir(&Dir{path: path, sign: path, pending: "kubelet has not called yet", watched: true}, poll, log)
}

func newDir(d *Dir, poll time.Duration, log *slog.Logger) *Dir {
	if poll == 0 {
		poll = DefaultPoll
	}
	d.poll, d.log, d.kubelet = poll, log, latest.New(Generation{})
	d.notify, d.guards = fsnotify.NewWatcher, map[string]*guard{}
	d.lookForKubelet()
	return d
}

// Path is the directory.
func (d *Dir) Path() string { return d.path }

var kubeletSocket = filepath.Base(pluginapi.KubeletSocket)

// Watched reports whether kubelet finds our sockets by itself.
func (d *Dir) Watched() bool { return d.watched }

// Deleted reports whether the directory is one that was deleted and is still mounted
// here. Nothing that this process can do helps; a new mount does, as a container
// gets at its restart.
func (d *Dir) Deleted() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.there == deleted
}

// Kubelet returns the generation last seen, and a channel that is closed when
// another is seen or it is gone.
func (d *Dir) Kubelet() (Generation, <-chan struct{}) { return d.kubelet.Get() }

// Pending is a Keeper's Problem between kubelet's coming and what comes of it: no
// news by itself.
func (d *Dir) Pending() string { return d.pending }

// waiting says what there is to wait for. Where somebody else's permissions stand in
// the way it is they that must be told of.
func (d *Dir) waiting() error {
	if _, err := stat(d.sign); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("as uid %d: stat %s: %w", os.Geteuid(), d.sign, err)
	}
	return fmt.Errorf("waiting for %s", d.sign)
}

// Guard watches a file of ours below the directory: gone is closed when the name
// does not lead to the file id any more. Call release when done.
func (d *Dir) Guard(name string, id unixsock.ID) (gone <-chan struct{}, release func()) {
	g := &guard{id: id, gone: make(chan struct{})}
	d.mu.Lock()
	d.guards[name] = g
	d.mu.Unlock()
	d.lookAtGuard(name) // it may be gone by now
	return g.gone, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.guards[name] == g {
			delete(d.guards, name)
		}
	}
}

// Run follows the directory until ctx ends. Without inotify it polls.
func (d *Dir) Run(ctx context.Context) {
	f := follower{path: filepath.Clean(d.path), log: d.log}
	var events <-chan fsnotify.Event
	var faults <-chan error
	if w, err := d.notify(); err != nil {
		d.log.Warn("file events are not available; polling instead", "interval", d.poll, "error", err)
	} else {
		defer func() { _ = w.Close() }()
		f.watcher, events, faults = w, w.Events, w.Errors
	}
	tick := time.NewTicker(d.poll)
	defer tick.Stop()
	for {
		f.follow()
		d.lookAtAll()
		for look := false; !look; {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				look = true
			case err := <-faults: // the event queue has overflowed
				d.log.Debug("file events were lost", "error", err)
				look = true
			case ev := <-events:
				look = d.handle(ev, &f)
			}
		}
	}
}

// handle looks at the one file that an event concerns; it reports whether a look
// at everything is due.
func (d *Dir) handle(ev fsnotify.Event, f *follower) (lookAtAll bool) {
	switch dir, name := filepath.Split(ev.Name); {
	case filepath.Clean(ev.Name) == f.path:
		f.watched = nil // the directory was made, removed or replaced
		return true
	case filepath.Clean(dir) != f.path:
		// Something else beside the directory.
	case name == kubeletSocket:
		d.lookForKubelet()
	default:
		d.lookAtGuard(name)
	}
	return false
}

// follower keeps file watches on the directory that a path leads to now, and on
// its parent for the time when the directory is made anew.
type follower struct {
	path    string
	log     *slog.Logger
	watcher *fsnotify.Watcher // nil without inotify
	watched os.FileInfo       // the directory being watched
	failed  bool              // said so already
}

func (f *follower) follow() {
	if f.watcher == nil {
		return
	}
	now, err := os.Stat(f.path)
	if err == nil && f.watched != nil && os.SameFile(f.watched, now) {
		return
	}
	if f.watched != nil {
		_ = f.watcher.Remove(f.path) // fails where the kernel has dropped the watch already
		f.watched = nil
	}
	_ = f.watcher.Add(filepath.Dir(f.path)) // the poll makes up for a parent that can't be watched
	if err != nil {
		return
	}
	err = f.watcher.Add(f.path)
	if err == nil {
		f.watched = now
	} else if !f.failed && !errors.Is(err, os.ErrNotExist) {
		f.log.Warn("the directory can't be watched; polling instead", "dir", f.path, "error", err)
	}
	f.failed = err != nil
}

// errDeleted is a directory that nothing can be made in any more. Its name may lead
// to it still by way of a mount, as in a container; only a new mount helps.
var errDeleted = errors.New("the directory that is mounted here was deleted: restart this container")

func (d *Dir) lookAtAll() {
	now := present
	st, err := stat(d.path)
	switch {
	case err != nil:
		now = absent
	case st.Nlink == 0:
		now, err = deleted, errDeleted
	}
	d.mu.Lock()
	changed := now != d.there
	d.there = now
	names := slices.Collect(maps.Keys(d.guards))
	d.mu.Unlock()
	switch {
	case changed && now != present:
		d.log.Warn("waiting for kubelet's directory", "dir", d.path, "error", err)
	case changed:
		d.log.Info("kubelet's directory is there", "dir", d.path)
		d.clean()
	}
	d.lookForKubelet()
	for _, name := range names {
		d.lookAtGuard(name)
	}
}

// clean removes what processes of ours that did not end by themselves left behind.
func (d *Dir) clean() {
	removed, err := unixsock.RemoveStale(d.path, SocketPrefix)
	if len(removed) > 0 {
		d.log.Info("removed sockets that nobody serves", "dir", d.path, "sockets", removed)
	}
	if err != nil {
		d.log.Warn("stale sockets stay", "dir", d.path, "error", err)
	}
}

// lookForKubelet returns the generation of now, and makes it what Kubelet returns.
func (d *Dir) lookForKubelet() Generation {
	d.mu.Lock() // over both steps: what was seen earlier must not be set later
	defer d.mu.Unlock()
	now := generationOf(d.sign)
	if last, _ := d.kubelet.Get(); now != last {
		d.kubelet.Set(now)
	}
	return now
}

func (d *Dir) lookAtGuard(name string) {
	d.mu.Lock()
	g := d.guards[name]
	d.mu.Unlock()
	if g == nil {
		return
	}
	if id, err := unixsock.Identify(filepath.Join(d.path, name)); err != nil || id != g.id {
		g.once.Do(func() { close(g.gone) })
	}
}
