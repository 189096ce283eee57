// What a scan opens, the kernel tells by inotify: all of it has to be recorded.
//
// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// nothingElse checks that all files that a scan has read are recorded.
func nothingElse(t *testing.T, reads map[string]bool, r *Recording) {
	t.Helper()
	recorded := map[string]bool{}
	for _, m := range r.members {
		recorded[m.path] = true
	}
	for p := range reads {
		// Of each PCI function the class is read, to leave most of them alone.
		if !recorded[p] && !strings.HasSuffix(p, "/class") {
			t.Errorf("a scan reads %s", p)
		}
	}
	if len(reads) == 0 && r.Devices > 0 {
		t.Error("no read was seen")
	}
}

// watch returns what tells the files below dir that were opened since.
func watch(t *testing.T, dir string) (opened func() map[string]bool) {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	must(t, err)
	t.Cleanup(func() { _ = unix.Close(fd) })
	dirs := map[int]string{}
	must(t, filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		wd, err := unix.InotifyAddWatch(fd, p, unix.IN_OPEN)
		dirs[wd] = p
		return err
	}))
	return func() map[string]bool {
		files := map[string]bool{}
		buf := make([]byte, 1<<16)
		for {
			n, err := unix.Read(fd, buf)
			if errors.Is(err, unix.EAGAIN) {
				return files
			}
			must(t, err)
			for b := buf[:n]; len(b) > 0; {
				wd, mask := int(int32(binary.NativeEndian.Uint32(b))), binary.NativeEndian.Uint32(b[4:])
				length := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(b[12:]))
				name := string(bytes.TrimRight(b[unix.SizeofInotifyEvent:length], "\x00"))
				b = b[length:]
				if mask&unix.IN_Q_OVERFLOW != 0 {
					t.Fatal("too many events")
				}
				if mask&unix.IN_ISDIR == 0 {
					p, err := filepath.Rel(dir, filepath.Join(dirs[wd], name))
					must(t, err)
					files[p] = true
				}
			}
		}
	}
}
