// Changes of a recorded tree, by watching its directories, or by a look at regular
// intervals where that is not possible.
//
// SPDX-License-Identifier: Apache-2.0

package notice

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

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

	inotify int
	// watched has the kernel's number of each directory that is watched: with the
	// names in it that lead to one of Dirs, or with nil where everything matters.
	watched map[int32][]string
}

// Name implements Source.
func (t *Tree) Name() string { return "recorded tree" }

// Run implements Source.
func (t *Tree) Run(ctx context.Context, n *Notice, listening func()) error {
	err := t.watch(ctx, n, listening)
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

// watched are the events of a directory's entries. A file that is written and then
// renamed into place is among them, as is one that is written in place.
const watched = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO | unix.IN_MODIFY | unix.IN_ATTRIB

// watch returns only when ctx has ended or watching is not possible.
func (t *Tree) watch(ctx context.Context, n *Notice, listening func()) (err error) {
	if t.inotify, err = unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK); err != nil {
		return os.NewSyscallError("inotify_init", err)
	}
	events := os.NewFile(uintptr(t.inotify), "inotify")
	defer events.Close()
	defer context.AfterFunc(ctx, func() { _ = events.Close() })()
	if err := t.addAll(); err != nil {
		return err
	}
	listening()

	var since time.Time // of the first change that no scan was made due for
	moved := false      // directories have come or gone
	buf := make([]byte, 64<<10)
	for {
		size, err := events.Read(buf)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, os.ErrDeadlineExceeded): // it is quiet
			if moved {
				// First the watches, then the scan: nothing falls between.
				if err := t.addAll(); err != nil {
					return err
				}
			}
			n.Event()
			since, moved = time.Time{}, false
			err = events.SetReadDeadline(time.Time{})
		case err == nil:
			matters, dirs := t.changes(buf[:size])
			moved = moved || dirs
			if !matters {
				continue
			}
			now := time.Now()
			if since.IsZero() {
				since = now
			}
			err = events.SetReadDeadline(earlier(now.Add(treeQuiet), since.Add(treeBusy)))
		}
		if err != nil {
			return err
		}
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// changes goes through what inotify(7) has told: whether anything matters, and
// whether directories have come or gone.
func (t *Tree) changes(events []byte) (matters, dirs bool) {
	for len(events) >= unix.SizeofInotifyEvent {
		wd := int32(binary.NativeEndian.Uint32(events))
		mask := binary.NativeEndian.Uint32(events[4:])
		size := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(events[12:]))
		if size > len(events) {
			break
		}
		name := unix.ByteSliceToString(events[unix.SizeofInotifyEvent:size])
		events = events[size:]
		names, known := t.watched[wd]
		switch {
		case mask&unix.IN_Q_OVERFLOW != 0:
			matters, dirs = true, true
		case mask&unix.IN_IGNORED != 0: // the directory is gone, and its number free
			delete(t.watched, wd)
		case known && (names == nil || slices.Contains(names, name)):
			matters = true
			dirs = dirs || mask&unix.IN_ISDIR != 0
		}
	}
	return matters, dirs
}

// addAll watches Dirs and the directories on the way to them. A directory that is
// watched already stays so, under the same number.
func (t *Tree) addAll() error {
	t.watched = map[int32][]string{}
	for _, dir := range t.Dirs {
		path := t.Root
		for name := range strings.SplitSeq(dir, "/") {
			if err := t.add(path, name); err != nil {
				return err
			}
			path = filepath.Join(path, name)
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
			return t.add(p, "")
		case d.Type()&fs.ModeSymlink != 0 && p == path:
			return fmt.Errorf("%s is a link", p)
		}
		return nil
	})
}

// add watches the one directory at path, if there is one: the entry called name, or
// all if that is empty.
func (t *Tree) add(path, name string) error {
	err := local(path)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	if len(t.watched) >= maxDirs {
		return fmt.Errorf("there are more than %d directories", maxDirs)
	}
	wd, err := unix.InotifyAddWatch(t.inotify, path, watched|unix.IN_ONLYDIR)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		return nil
	case err != nil:
		return &fs.PathError{Op: "watch", Path: path, Err: err}
	}
	if names, known := t.watched[int32(wd)]; name == "" || known && names == nil {
		t.watched[int32(wd)] = nil
	} else {
		t.watched[int32(wd)] = append(names, name)
	}
	return nil
}

// local is an error if path is on a file system that others can change unnoticed.
func local(path string) error {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return &fs.PathError{Op: "statfs", Path: path, Err: err}
	}
	if !slices.Contains(localFS, st.Type) {
		return fmt.Errorf("file system of type %#x does not tell of all changes", st.Type)
	}
	return nil
}
