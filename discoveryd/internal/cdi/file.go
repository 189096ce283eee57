// The spec's file: looked at cheaply, replaced in one step.
//
// SPDX-License-Identifier: Apache-2.0

package cdi

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	fileMode = 0o644 // runtimes of other users (podman) read it too
	dirMode  = 0o755
	// maxContent bounds what is read of a file that somebody else may have put there.
	maxContent = 32 << 20
	// Half-written files are called hiddenStart, eight letters, hiddenEnd. Runtimes
	// read *.json and *.yaml only.
	hiddenStart, hiddenEnd = "." + FileName + ".", ".tmp"
)

// makeDir makes the directory if its parent is there. Where that is missing too
// nothing is mounted or the flag is wrong, and no runtime would look there.
func makeDir(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case err == nil && !info.IsDir():
		return plain("use directory", dir, unix.ENOTDIR)
	case errors.Is(err, fs.ErrNotExist):
		if err := os.Mkdir(dir, dirMode); err != nil && !errors.Is(err, fs.ErrExist) {
			return plain("make directory", dir, err)
		}
	case err != nil:
		return plain("use directory", dir, err)
	}
	return nil
}

// identity is what changes with another file, and with another content. A rename
// leaves it alone.
type identity struct {
	dev, ino uint64
	size     int64
	modified unix.Timespec
}

func identify(path string) (identity, uint32, error) {
	var st unix.Stat_t
	err := unix.Lstat(path, &st)
	return identityOf(&st), st.Mode, err
}

func identityOf(st *unix.Stat_t) identity {
	return identity{st.Dev, st.Ino, st.Size, st.Mtim}
}

// onDisk is what is known of the file.
type onDisk struct {
	exists  bool
	id      identity
	content []byte // nil where it can't be read or is no regular file
}

// look brings the knowledge up to date. A file that hasn't changed is not read.
func (f *onDisk) look(path string) {
	id, mode, err := identify(path)
	switch {
	case errors.Is(err, unix.ENOENT):
		*f = onDisk{}
	case err != nil:
		*f = onDisk{exists: true}
	case f.exists && f.content != nil && f.id == id:
	default:
		*f = onDisk{exists: true, id: id}
		if mode&unix.S_IFMT == unix.S_IFREG {
			f.content = read(path)
		}
	}
}

// unchanged tells whether the file is as it was when it was looked at.
func (f *onDisk) unchanged(path string) bool {
	id, _, err := identify(path)
	if errors.Is(err, unix.ENOENT) {
		return !f.exists
	}
	return err == nil && f.exists && f.id == id
}

// says tells whether the file has this content; nil stands for no file.
func (f *onDisk) says(content []byte) bool {
	return f.exists == (content != nil) && bytes.Equal(f.content, content)
}

func read(path string) []byte {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, maxContent))
	if err != nil {
		return nil
	}
	return content
}

// owned is a file that this process has written. It is kept open, so that the
// kernel gives its inode number to no other file, and locked, so that another
// daemon can tell that its writer lives.
type owned struct {
	file *os.File
	id   identity // as it was written
}

// forget lets go of the file, wherever it is.
func (o *owned) forget() {
	if o != nil {
		_ = o.file.Close()
	}
}

// isAt tells whether the file is the one at path.
func (o *owned) isAt(path string) bool {
	if o == nil {
		return false
	}
	there, _, err := identify(path)
	return err == nil && there.dev == o.id.dev && there.ino == o.id.ino
}

// held tells whether a living daemon has the file.
func held(path string) bool {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer file.Close()
	return errors.Is(unix.Flock(int(file.Fd()), unix.LOCK_SH|unix.LOCK_NB), unix.EWOULDBLOCK)
}

// write replaces the file in one step: who reads it finds the old content or the
// new one, after a power failure too. What dead daemons have left half-written is
// removed first.
func write(path string, content []byte) (*owned, error) {
	sweep(filepath.Dir(path))
	hidden := filepath.Join(filepath.Dir(path), hiddenStart+rand.Text()[:8]+hiddenEnd)
	file, err := os.OpenFile(hidden, os.O_CREATE|os.O_EXCL|os.O_WRONLY, fileMode)
	if err != nil {
		return nil, plain("write", path, err)
	}
	id, err := fill(file, content)
	if err == nil {
		err = os.Rename(hidden, path)
	}
	if err != nil {
		_ = os.Remove(hidden)
		_ = file.Close()
		var rename *os.LinkError
		if errors.As(err, &rename) {
			err = rename.Err
		}
		return nil, plain("write", path, err)
	}
	return &owned{file, id}, nil
}

// fill writes a new file. Without the sync a power failure could leave an empty
// file under the new name, which breaks the reading of no other spec, but is one
// that nobody wrote.
func fill(file *os.File, content []byte) (identity, error) {
	// Not every file system has locks; then nobody can tell that this daemon lives.
	_ = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err := file.Chmod(fileMode); err != nil { // the umask has no say
		return identity{}, err
	}
	if _, err := file.Write(content); err != nil {
		return identity{}, err
	}
	if err := file.Sync(); err != nil {
		return identity{}, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &st); err != nil {
		return identity{}, err
	}
	return identityOf(&st), nil
}

// sweep removes the half-written files of daemons that were killed.
func sweep(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), hiddenStart) || !strings.HasSuffix(e.Name(), hiddenEnd) || !e.Type().IsRegular() {
			continue
		}
		path := filepath.Join(dir, e.Name())
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > young && !held(path) {
			_ = os.Remove(path)
		}
	}
}

// young is far longer than a living daemon needs from making a file to locking it.
const young = time.Second

// remove unlinks the file; that it is gone already is no error.
func remove(path string) error {
	err := os.Remove(path)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return plain("remove", path, err)
}
