// Changes of the tree that a scan may run into at any moment: every file and
// link appears whole, or is replaced whole.
//
// SPDX-License-Identifier: Apache-2.0

package fakehost

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// replace turns one layout into another: first goes what is no longer wanted,
// then comes what is new or differs.
func (h *Host) replace(was, want layout) error {
	gone, changed, added := difference(was, want)
	for _, e := range gone {
		// Functions with several RDMA devices share entries.
		if h.users[e.path]--; h.users[e.path] > 0 {
			continue
		}
		delete(h.users, e.path)
		if err := h.remove(e.path); err != nil {
			return err
		}
	}
	for _, e := range added {
		h.users[e.path]++
	}
	for _, e := range changed {
		if err := h.put(e); err != nil {
			return err
		}
	}
	return nil
}

// difference tells what a change of layout takes away, in the reverse order of
// its appearance; what it writes, in order; and what of this was not there before.
func difference(was, want layout) (gone, changed, added layout) {
	wanted, had := map[string]bool{}, map[string]entry{}
	for _, e := range want {
		wanted[e.path] = true
	}
	for _, e := range was {
		had[e.path] = e
		if !wanted[e.path] && !e.keep {
			gone = append(gone, e)
		}
	}
	slices.Reverse(gone)
	for _, e := range want {
		old, ok := had[e.path]
		if !ok {
			added = append(added, e)
		}
		if !ok || old != e {
			changed = append(changed, e)
		}
	}
	return gone, changed, added
}

// put makes one entry, in place of what has been there.
func (h *Host) put(e entry) error {
	target := filepath.Join(h.root, e.path)
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	if e.kind == aNode && h.hidden[filepath.Base(e.path)] {
		return nil
	}
	temp := filepath.Join(h.root, tempDir, "new")
	var err error
	switch e.kind {
	case aDir:
		return os.MkdirAll(target, 0o755)
	case aFile:
		err = os.WriteFile(temp, []byte(e.text+"\n"), 0o644)
	case aLink:
		err = os.Symlink(e.text, temp)
	case aNode:
		err = h.node(temp, filepath.Base(e.path), e.text)
	}
	if err != nil {
		return err
	}
	return os.Rename(temp, target)
}

// node makes a character device where that is allowed, else an empty file. The
// modes are those that the kernel asks devtmpfs for.
func (h *Host) node(path, name, number string) error {
	mode := uint32(0o666)
	if strings.HasPrefix(name, "umad") || strings.HasPrefix(name, "issm") {
		mode = 0o600
	}
	if !h.plain {
		var major, minor uint32
		if _, err := fmt.Sscanf(number, "%d:%d", &major, &minor); err != nil {
			return fmt.Errorf("device number %q: %w", number, err)
		}
		err := unix.Mknod(path, unix.S_IFCHR|mode, int(unix.Mkdev(major, minor)))
		if err == nil {
			return os.Chmod(path, fs.FileMode(mode)) // whatever the umask is
		}
		if !errors.Is(err, unix.EPERM) {
			return fmt.Errorf("mknod %s: %w", path, err)
		}
	}
	if err := os.WriteFile(path, nil, fs.FileMode(mode)); err != nil {
		return err
	}
	return os.Chmod(path, fs.FileMode(mode))
}

// remove takes an entry away, and the device directories that it leaves empty.
func (h *Host) remove(path string) error {
	err := os.Remove(filepath.Join(h.root, path))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	dir := filepath.Dir(path)
	for strings.HasPrefix(dir, "sys/devices/") && os.Remove(filepath.Join(h.root, dir)) == nil {
		dir = filepath.Dir(dir)
	}
	return nil
}

// locked runs one change of the tree.
func (h *Host) locked(change func() error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return change()
}

// tempDir holds half-made files. It is below the root, for a rename can't leave
// the file system.
const tempDir = ".fakehost"
