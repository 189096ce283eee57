// What stands at a socket's path, and what becomes of it.
//
// SPDX-License-Identifier: Apache-2.0

package unixsock

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// shortDir is a directory whose path leaves room for a socket's name.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "us")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func listenOn(t *testing.T, path string) *Listener {
	t.Helper()
	l, err := Listen(path, Options{Mode: 0o600})
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// leaveDead makes a socket file that nobody listens on, as a killed process does.
func leaveDead(t *testing.T, path string) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	must(t, unix.Bind(fd, &unix.SockaddrUnix{Name: path}))
	must(t, unix.Close(fd))
}

// names are all entries of a directory.
func names(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return strings.Join(all, " ")
}

func TestListenMakesASocketWithItsModeWhateverTheUmask(t *testing.T) {
	for _, umask := range []int{0, 0o077} {
		old := syscall.Umask(umask)
		t.Cleanup(func() { syscall.Umask(old) })
		dir := shortDir(t)
		path := filepath.Join(dir, "s.sock")
		l, err := Listen(path, Options{Mode: 0o660})
		must(t, err)
		info, err := os.Lstat(path)
		must(t, err)
		if info.Mode() != fs.ModeSocket|0o660 {
			t.Errorf("umask %#o: mode is %v", umask, info.Mode())
		}
		conn, err := net.Dial("unix", path)
		must(t, err)
		must(t, conn.Close())
		if id, err := Identify(path); err != nil || id != l.ID() || !l.Present() {
			t.Errorf("file is %v, %v; the listener says %v, present %v", id, err, l.ID(), l.Present())
		}
		must(t, l.Close())
		must(t, l.Close())
		if left := names(t, dir); left != "" {
			t.Errorf("after Close there is %q", left)
		}
		syscall.Umask(old)
	}
}

func TestListenSetsTheOwner(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	path := filepath.Join(shortDir(t), "s.sock")
	l, err := Listen(path, Options{UID: new(12345), GID: new(54321)})
	must(t, err)
	defer l.Close()
	var st unix.Stat_t
	must(t, unix.Lstat(path, &st))
	if st.Uid != 12345 || st.Gid != 54321 || st.Mode&0o777 != 0o600 {
		t.Errorf("owner %d:%d, mode %#o", st.Uid, st.Gid, st.Mode)
	}
}

// R18: what a crash has left does not block the next start, and what is not ours
// is not taken.
func TestR18_WhatStandsAtThePath(t *testing.T) {
	for name, test := range map[string]struct {
		make func(t *testing.T, path string)
		want error
	}{
		"nothing":              {func(*testing.T, string) {}, nil},
		"dead socket":          {leaveDead, nil},
		"living socket":        {func(t *testing.T, path string) { listenOn(t, path) }, ErrInUse},
		"living, full backlog": {fullBacklog, ErrInUse},
		"living, datagrams":    {datagrams, ErrInUse},
		"regular file":         {func(t *testing.T, path string) { must(t, os.WriteFile(path, nil, 0o600)) }, ErrNotSocket},
		"directory":            {func(t *testing.T, path string) { must(t, os.Mkdir(path, 0o700)) }, ErrNotSocket},
		"link to dead socket": {func(t *testing.T, path string) {
			leaveDead(t, path+"2")
			must(t, os.Symlink(path+"2", path))
		}, ErrNotSocket},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(shortDir(t), "s.sock")
			test.make(t, path)
			before, _ := Identify(path)
			l, err := Listen(path, Options{})
			if !errors.Is(err, test.want) {
				t.Fatalf("got %v, want %v", err, test.want)
			}
			if err == nil {
				must(t, l.Close())
				return
			}
			if !strings.Contains(err.Error(), path) {
				t.Errorf("%v does not name the path", err)
			}
			if after, _ := Identify(path); after != before {
				t.Error("the file was replaced")
			}
		})
	}
}

// fullBacklog is a living listener that has not accepted for a while.
func fullBacklog(t *testing.T, path string) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	t.Cleanup(func() { _ = unix.Close(fd) })
	must(t, unix.Bind(fd, &unix.SockaddrUnix{Name: path}))
	must(t, unix.Listen(fd, 0))
	conn, err := net.Dial("unix", path)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
}

func datagrams(t *testing.T, path string) {
	t.Helper()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
}

func TestListenRefusesPathsThatCanNotBe(t *testing.T) {
	dir := shortDir(t)
	fits := filepath.Join(dir, strings.Repeat("x", MaxPath-len(dir)-1))
	must(t, listenOn(t, fits).Close())
	if _, err := Listen(fits+"x", Options{}); !errors.Is(err, ErrPathTooLong) {
		t.Errorf("%d bytes: %v", len(fits)+1, err)
	}
	// The hidden name is longer than this one.
	deep := filepath.Join(dir, strings.Repeat("d", MaxPath-len(dir)-3))
	must(t, os.Mkdir(deep, 0o700))
	must(t, listenOn(t, filepath.Join(deep, "s")).Close())

	for name, want := range map[string]error{
		"none/s.sock": fs.ErrNotExist, "file/s.sock": unix.ENOTDIR, "": nil, "sub/": nil, "..": nil,
	} {
		must(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
		_, err := Listen(dir+"/"+name, Options{})
		if err == nil || want != nil && !errors.Is(err, want) {
			t.Errorf("%q: got %v, want %v", name, err, want)
		}
	}
}

func TestListenInADirectoryThatMayNotBeWritten(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root may write everywhere")
	}
	dir := shortDir(t)
	must(t, os.Chmod(dir, 0o500))
	if _, err := Listen(filepath.Join(dir, "s.sock"), Options{}); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("got %v", err)
	}
}

func TestOfManyStartsAtOncePreciselyOneGetsThePath(t *testing.T) {
	dir := shortDir(t)
	path := filepath.Join(dir, "s.sock")
	leaveDead(t, path)
	var wg sync.WaitGroup
	won := make(chan *Listener, 16)
	for range cap(won) {
		wg.Go(func() {
			l, err := Listen(path, Options{})
			if err == nil {
				won <- l
			} else if !errors.Is(err, ErrInUse) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if len(won) != 1 {
		t.Fatalf("%d got it", len(won))
	}
	if left := names(t, dir); left != "s.sock" {
		t.Errorf("there is %q", left)
	}
	must(t, (<-won).Close())
}

func TestRenameTakesNobodysPlace(t *testing.T) {
	path := filepath.Join(shortDir(t), "s.sock")
	must(t, os.WriteFile(path, []byte("mine"), 0o600))
	leaveDead(t, path+"2")
	d, err := openDir(filepath.Dir(path))
	must(t, err)
	defer d.close()
	if err := d.rename("s.sock2", "s.sock"); err == nil {
		t.Error("a file that came in between was replaced")
	}
	if text, err := os.ReadFile(path); string(text) != "mine" {
		t.Errorf("it is %q, %v now", text, err)
	}
}

func TestCloseLeavesTheFileOfASuccessor(t *testing.T) {
	path := filepath.Join(shortDir(t), "s.sock")
	first := listenOn(t, path)
	must(t, os.Remove(path)) // as kubelet does
	if first.Present() {
		t.Error("present, though the file was removed")
	}
	second := listenOn(t, path)
	if first.Present() || !second.Present() {
		t.Errorf("present: first %v, second %v", first.Present(), second.Present())
	}
	must(t, first.Close())
	if !second.Present() {
		t.Error("the first has removed the second's file")
	}
	must(t, os.RemoveAll(filepath.Dir(path)))
	must(t, second.Close())
}
