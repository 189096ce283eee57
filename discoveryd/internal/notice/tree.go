// Changes of a recorded tree, by watching its directories, or by a look at regular
// intervals where that is not possible.
//
// SPDX-License-Identifier: Apache-2.0

package notice

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"
)

const (
	// maxDirs bounds how many directories are watched; the kernel has a limit too
	// (fs.inotify.max_user_watches).
	maxDirs = 32768
	// A tree is written file by file. A scan waits until it has been quiet for
	// treeQuiet, but not longer than treeBusy.
	treeQuiet = 50 * time.Millisecond
	treeBusy  = 500 * time.Millisecond
	// lookInterval is how often a tree that can't be watched is looked at.
	lookInterval = time.Second
)

// Tree is the source of changes of a recorded host. Run is to be called once.
type Tree struct {
	// Root is the host's root. It has to exist.
	Root string
	// Dirs are the directories below Root, as relative paths, that are watched with
	// all that is in them. They may come and go.
	Dirs []string
	Log  *slog.Logger

	watcher *fsnotify.Watcher
	added   int // at least as many as there are watches
}

// Name implements Source.
func (t *Tree) Name() string { return "recorded tree" }

// Run implements Source.
func (t *Tree) Run(ctx context.Context, n *Notice) error {
	err := t.watch(ctx, n)
	if err == nil {
		return nil
	}
	t.Log.Info("recorded tree can't be watched and is read again every second", "error", err)
	look := time.NewTicker(lookInterval)
	defer look.Stop()
	for {
		n.Hint()
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
		}
	}
}

// localFS are file systems on which every change goes through this kernel, so that
// it can tell of it.
var localFS = []int64{
	unix.TMPFS_MAGIC, unix.RAMFS_MAGIC, unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC,
	unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC, unix.OVERLAYFS_SUPER_MAGIC,
}

// watch returns only when ctx has ended or watching is not possible.
func (t *Tree) watch(ctx context.Context, n *Notice) (err error) {
	if t.watcher, err = fsnotify.NewWatcher(); err != nil {
		return err
	}
	defer t.watcher.Close()
	if err := t.addAll(); err != nil {
		return err
	}
	n.Hint() // for what has changed while the watches were set up

	quiet := time.NewTimer(treeQuiet)
	quiet.Stop()
	var since time.Time // of the first change that no scan was made due for
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-t.watcher.Errors:
			if !errors.Is(err, fsnotify.ErrEventOverflow) {
				return err
			}
			if err := t.addAll(); err != nil {
				return err
			}
		case event := <-t.watcher.Events:
			concerns := t.concerns(event.Name)
			if event.Has(fsnotify.Create) {
				if err := t.created(event.Name, concerns); err != nil {
					return err
				}
			}
			if !concerns {
				continue
			}
		case <-quiet.C:
			since = time.Time{}
			n.Event()
			continue
		}
		if since.IsZero() {
			since = time.Now()
		}
		quiet.Reset(min(treeQuiet, max(0, treeBusy-time.Since(since))))
	}
}

// created watches what was made; that may be a directory on the way to Dirs too.
func (t *Tree) created(path string, concerns bool) error {
	if concerns {
		return t.addTree(path)
	}
	return t.addAll()
}

// addAll watches Dirs and the directories on the way to them.
func (t *Tree) addAll() error {
	if err := t.add(t.Root); err != nil {
		return err
	}
	for _, dir := range t.Dirs {
		path := t.Root
		for name := range strings.SplitSeq(dir, "/") {
			path = filepath.Join(path, name)
			if err := t.add(path); err != nil {
				return err
			}
		}
		if err := t.addTree(path); err != nil {
			return err
		}
	}
	return nil
}

// addTree watches path and all directories below it, if it is one.
func (t *Tree) addTree(path string) error {
	return filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
			return nil // gone again, or not to be read by a scan either
		case err != nil:
			return err
		case d.IsDir():
			return t.add(p)
		}
		return nil
	})
}

// add watches the one directory at path, if there is one.
func (t *Tree) add(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case path != t.Root && info.Mode()&fs.ModeSymlink != 0:
		return fmt.Errorf("%s is a link", path)
	}
	if err := local(path); err != nil {
		return err
	}
	if t.added++; t.added > maxDirs {
		if t.added = len(t.watcher.WatchList()) + 1; t.added > maxDirs {
			return fmt.Errorf("there are more than %d directories", maxDirs)
		}
	}
	if err := t.watcher.Add(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// local is an error if path is on a file system that others can change unnoticed.
func local(path string) error {
	var st unix.Statfs_t
	err := unix.Statfs(path, &st)
	if err == nil && !slices.Contains(localFS, st.Type) {
		return fmt.Errorf("file system of type %#x does not tell of all changes", st.Type)
	}
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

// concerns tells whether a path is one of Dirs or below one.
func (t *Tree) concerns(path string) bool {
	rel, err := filepath.Rel(t.Root, path)
	return err == nil && slices.ContainsFunc(t.Dirs, func(dir string) bool {
		return rel == dir || strings.HasPrefix(rel, dir+"/")
	})
}
