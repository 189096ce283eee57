// The directory, when file events don't tell all.
//
// SPDX-License-Identifier: Apache-2.0

package register

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/rdma-relay/rdma-relay/test/fakekubelet"
)

// The kernel drops events when too many wait (fs.inotify.max_queued_events) and
// says that it did.
func TestEventsThatWereLost(t *testing.T) {
	n := newNode(t, fakekubelet.ByPath)
	faults := make(chan error)
	n.dir = NewDir(n.Dir(), time.Hour, n.log())
	n.dir.notify = func() (*fsnotify.Watcher, error) {
		w, err := fsnotify.NewWatcher()
		if err == nil {
			w.Events, w.Errors = make(chan fsnotify.Event), faults
		}
		return w, err
	}
	n.run(n.dir.Run)
	n.keep(widget, 10, DefaultTiming)
	// Both Dirs of the node, this one and that of newNode, have had their first look.
	waitFor(t, func() bool { return strings.Count(n.logs.String(), "directory is there") == 2 })
	must(t, n.Start())
	faults <- fsnotify.ErrEventOverflow
	n.eventually(healthy(widget, 10))
}

// On some nodes /var/lib/kubelet is a link. No event tells that a link further up
// leads elsewhere now.
func TestDirectoryBehindALinkThatMoves(t *testing.T) {
	for name, at := range map[string]string{"the directory": ".", "its parent": "plugins"} {
		t.Run(name, func(t *testing.T) {
			top, err := os.MkdirTemp("", "dp")
			must(t, err)
			defer func() { _ = os.RemoveAll(top) }()
			link := filepath.Join(top, "link")
			lead := func(to string) {
				must(t, os.MkdirAll(filepath.Join(top, to, at), 0o700))
				must(t, os.Symlink(to, link+to))
				must(t, os.Rename(link+to, link))
			}
			lead("a")
			n := newNodeAt(t, fakekubelet.ByPath, filepath.Join(link, at))
			n.dir = NewDir(n.Dir(), 100*time.Millisecond, n.log())
			n.run(n.dir.Run)
			must(t, n.Start())
			n.keep(widget, 10, DefaultTiming)
			n.eventually(healthy(widget, 10))
			must(t, n.Kill())
			lead("b")
			must(t, n.Start())
			n.eventually(healthy(widget, 10))
			must(t, n.Kill())
			must(t, n.Start())
			n.eventually(healthy(widget, 10))
		})
	}
}

// A container's mount goes on leading to a directory that was deleted on the host.
func TestDeletedDirectoryIsSaidToBe(t *testing.T) {
	n := newNode(t, fakekubelet.ByPath)
	mount, err := os.Open(n.Dir())
	must(t, err)
	defer func() { _ = mount.Close() }()
	must(t, os.Remove(n.Dir()))
	for _, dir := range []*Dir{
		NewDir(fmt.Sprintf("/proc/self/fd/%d", mount.Fd()), 0, n.log()),
		NewRegistry(fmt.Sprintf("/proc/self/fd/%d", mount.Fd()), 0, n.log()),
	} {
		n.run(dir.Run)
		waitFor(t, func() bool { return strings.Contains(n.logs.String(), "was deleted") && dir.Deleted() })
		if kubelet, _ := dir.Kubelet(); kubelet.Present() {
			t.Error("a kubelet is seen there")
		}
	}
	if n.dir.Deleted() {
		t.Error("a directory that is just not there counts as deleted")
	}
}
