// The file that an archive is written to.
//
// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// ErrExists is a file that is not to be overwritten.
var ErrExists = errors.New("exists already")

// CheckFile tells whether WriteFile could write to path: ErrExists if something is
// there, unless replace says that a regular file may be replaced.
func CheckFile(path string, replace bool) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !replace:
		return fmt.Errorf("%s: %w", path, ErrExists)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s: %w, and is not a regular file", path, ErrExists)
	}
	return nil
}

// WriteFile makes the file at path with what write writes. The file appears when it is
// whole, or not at all. The error for one that is there already is as CheckFile's.
func WriteFile(path string, replace bool, write func(io.Writer) error) (err error) {
	temp := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+"."+rand.Text()[:8])
	// Root records, and somebody else sends it: nothing in it is secret.
	f, err := os.OpenFile(temp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644) //nolint:gosec // G302: see above
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(temp))
		}
	}()
	if err := write(f); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	if !replace {
		err := unix.Renameat2(unix.AT_FDCWD, temp, unix.AT_FDCWD, path, unix.RENAME_NOREPLACE)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, unix.EEXIST):
			return fmt.Errorf("%s: %w", path, ErrExists)
		case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS):
			// Not every file system can do it in one step.
		default:
			return &os.LinkError{Op: "rename", Old: temp, New: path, Err: err}
		}
	}
	if err := CheckFile(path, replace); err != nil {
		return err
	}
	return os.Rename(temp, path)
}
