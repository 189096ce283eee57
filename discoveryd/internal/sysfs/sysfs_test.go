// Trees that a kernel would never show: what is strange gives an error, at once,
// and nothing is read from outside.
//
// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// tree makes files (content), directories (ending in "/") and links (beginning
// with "->") below a new directory, next to a file that must not be read.
func tree(t *testing.T, entries map[string]string) string {
	t.Helper()
	base := t.TempDir()
	dir := filepath.Join(base, "tree")
	must(t, os.WriteFile(filepath.Join(base, "secret"), []byte("secret\n"), 0o600))
	must(t, os.MkdirAll(dir, 0o755))
	for name, content := range entries {
		p := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(p), 0o755))
		target, isLink := strings.CutPrefix(content, "->")
		switch {
		case strings.HasSuffix(name, "/"):
			must(t, os.MkdirAll(p, 0o755))
		case isLink:
			must(t, os.Symlink(strings.ReplaceAll(target, "BASE", base), p))
		default:
			must(t, os.WriteFile(p, []byte(content), 0o600))
		}
	}
	return dir
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// forms opens the tree in both ways in which files are opened.
func forms(t *testing.T, dir string, test func(t *testing.T, r *Root)) {
	for name, openat2 := range map[string]bool{"openat2": true, "without openat2": false} {
		t.Run(name, func(t *testing.T) {
			r, err := Open(dir)
			must(t, err)
			defer r.Close()
			if openat2 && !r.openat2 {
				t.Skip("the kernel has no openat2")
			}
			r.openat2 = openat2
			test(t, r)
		})
	}
}

func TestTextIsOneBoundedLineOfARegularFile(t *testing.T) {
	dir := tree(t, map[string]string{
		"d/good": "4: ACTIVE\n", "d/bare": "4: ACTIVE", "d/empty": "", "d/newline": "\n", "d/utf8": "größer\n",
		"d/longest": strings.Repeat("x", MaxText), "d/huge": strings.Repeat("x", MaxText+1), "d/mega": strings.Repeat("x", 10<<20),
		"d/binary": "\x00\x01\xff\xfe", "d/lines": "a\nb\n", "d/escape": "\x1b[2J\n", "d/not utf8": "a\xffb\n",
		"d/dir/": "", "d/link": "->good", "d/loop": "->loop",
	})
	must(t, unix.Mkfifo(filepath.Join(dir, "d/fifo"), 0o600))
	forms(t, dir, func(t *testing.T, r *Root) {
		d, err := r.OpenDir("d")
		must(t, err)
		defer d.Close()
		for _, test := range []struct {
			name, want string
			err        error
		}{
			{"good", "4: ACTIVE", nil},
			{"bare", "4: ACTIVE", nil},
			{"empty", "", nil},
			{"newline", "", nil},
			{"utf8", "größer", nil},
			{"longest", strings.Repeat("x", MaxText), nil},
			{"huge", "", ErrTooLong},
			{"mega", "", ErrTooLong},
			{"binary", "", ErrNotText},
			{"lines", "", ErrNotText},
			{"escape", "", ErrNotText},
			{"not utf8", "", ErrNotText},
			{"dir", "", ErrNotRegular},
			{"fifo", "", ErrNotRegular},
			{"link", "", ErrNotRegular},
			{"loop", "", ErrNotRegular},
			{"none", "", fs.ErrNotExist},
		} {
			if got, err := d.Text(test.name); got != test.want || !errors.Is(err, test.err) {
				t.Errorf("%s: got %.20q, %v; want %.20q, %v", test.name, got, err, test.want, test.err)
			}
			if got, err := r.Text("d/" + test.name); got != test.want || !errors.Is(err, test.err) {
				t.Errorf("%s from the root: got %.20q, %v; want %.20q, %v", test.name, got, err, test.want, test.err)
			}
		}
	})
}

func TestLinksStayInTheTree(t *testing.T) {
	dir := tree(t, map[string]string{
		"devices/a/text": "inside\n", "class/a": "->../devices/a", "class/two": "->a", "class/abs": "->/devices/a",
		"class/out": "->../../secret", "class/far": "->../../../../../../../../etc", "class/host": "->BASE", "class/loop": "->loop2",
		"class/loop2": "->loop", "class/dangling": "->../devices/none", "way": "->devices", "class/up": "->..",
		"secret": "the tree's own\n", "etc/passwd": "the tree's own\n",
	})
	forms(t, dir, func(t *testing.T, r *Root) {
		for _, test := range []struct {
			path, link string
			linkErr    error
			open       string
			openErr    error
		}{
			{"class/a", "devices/a", nil, "devices/a", nil},
			{"class/two", "class/a", nil, "devices/a", nil},
			{"class/abs", "devices/a", nil, "devices/a", nil},
			{"class/up", ".", nil, ".", nil},
			{"class/out", "", ErrOutside, "", ErrOutside},
			{"class/far", "", ErrOutside, "", ErrOutside},
			{"class/loop", "class/loop2", nil, "", unix.ELOOP},
			{"class/dangling", "devices/none", nil, "", fs.ErrNotExist},
			{"way/a", "", unix.EINVAL, "devices/a", nil},
			{"class/none", "", fs.ErrNotExist, "", fs.ErrNotExist},
		} {
			if got, err := r.Link(test.path); got != test.link || !errors.Is(err, test.linkErr) {
				t.Errorf("link %s: got %q, %v; want %q, %v", test.path, got, err, test.link, test.linkErr)
			}
			d, err := r.OpenDir(test.path)
			if !errors.Is(err, test.openErr) {
				t.Errorf("open %s: %v, want %v", test.path, err, test.openErr)
			}
			if err != nil {
				continue
			}
			if d.Path() != test.open {
				t.Errorf("open %s: is %q, want %q", test.path, d.Path(), test.open)
			}
			d.Close()
		}
		// An absolute link counts from the tree's root, where BASE is not.
		if _, err := r.OpenDir("class/host"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("open class/host: %v", err)
		}
		inside, err := r.OpenDir("class")
		must(t, err)
		defer inside.Close()
		for _, name := range []string{"../secret", "..", "../../secret", "/etc", "a/../../../secret", "", "out/passwd"} {
			if text, err := inside.Text(name); text != "" || err == nil {
				t.Errorf("read %s from class: %q, %v", name, text, err)
			}
			if d, err := inside.Open(name); err == nil {
				t.Errorf("opened %s from class: it is %s", name, d.Path())
				d.Close()
			}
		}
		if text, err := r.Text("../secret"); text != "the tree's own" {
			t.Errorf("read ../secret: %q, %v", text, err)
		}
	})
}

func TestNamesAreSortedAndAllThere(t *testing.T) {
	entries := map[string]string{"d/": ""}
	var want []string
	for _, a := range "abcdefghij" {
		for _, b := range "0123456789" {
			name := strings.Repeat(string(a)+string(b), 60)
			entries["d/"+name] = ""
			want = append(want, name)
		}
	}
	slices.Sort(want)
	r, err := Open(tree(t, entries))
	must(t, err)
	defer r.Close()
	got, err := r.Names("d")
	must(t, err)
	if !slices.Equal(got, want) {
		t.Errorf("got %d names, want %d", len(got), len(want))
	}
	if got, err := r.Names("none"); got != nil || err != nil {
		t.Errorf("no directory: got %v, %v", got, err)
	}
}

func TestOnlyAMountedSysfsIsLive(t *testing.T) {
	r, err := Open(t.TempDir())
	must(t, err)
	defer r.Close()
	if live, err := r.Live(); live || err != nil {
		t.Errorf("a directory is live: %v, %v", live, err)
	}
	sys, err := Open("/sys")
	if err != nil {
		t.Skip(err)
	}
	defer sys.Close()
	if live, err := sys.Live(); !live || err != nil {
		t.Errorf("/sys is not live: %v, %v", live, err)
	}
	if mtu, err := sys.Text("devices/virtual/net/lo/mtu"); err != nil || mtu == "" {
		t.Errorf("the loopback device's MTU is %q, %v", mtu, err)
	}
}

func TestNothingToOpen(t *testing.T) {
	if _, err := Open(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
}

func FuzzFollow(f *testing.F) {
	for _, seed := range []string{"../../devices/a", "../..", "..", ".", "", "/", "/devices/../..", "a/../../../x", "../../../../x", "a//b", "./a", "\xff"} {
		f.Add("class/net", seed)
	}
	f.Add(".", "../x")
	f.Fuzz(func(t *testing.T, dir, target string) {
		if canonical(dir) != fs.ValidPath(dir) && utf8.ValidString(dir) {
			t.Errorf("%q is canonical: %v", dir, canonical(dir))
		}
		if !canonical(dir) || strings.ContainsRune(dir+target, 0) {
			return
		}
		p, ok := follow(dir, []byte(target))
		if ok && !canonical(p) {
			t.Errorf("from %q the link %q leads to %q", dir, target, p)
		}
		if want := path.Join("/", dir, target); ok && !strings.HasPrefix(target, "/") && path.Join("/", p) != want {
			t.Errorf("from %q the link %q leads to %q, not %q", dir, target, p, want)
		}
	})
}

func FuzzEntries(f *testing.F) {
	record := func(names ...string) (b []byte) {
		for i, name := range names {
			size := (19 + len(name) + 8) &^ 7
			one := make([]byte, size)
			binary.NativeEndian.PutUint64(one, uint64(i+1))
			binary.NativeEndian.PutUint16(one[16:], uint16(size))
			copy(one[19:], name)
			b = append(b, one...)
		}
		return b
	}
	f.Add(record(".", "..", "mlx5_0", "ens1f0np0"))
	f.Add(record("a")[:20])
	f.Add([]byte{})
	f.Add(make([]byte, 64))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, name := range entries(b, nil, nil) {
			if name == "" || name == "." || name == ".." || strings.ContainsRune(name, 0) {
				t.Errorf("%q holds the name %q", b, name)
			}
		}
		if names := entries(b, func([]byte) bool { return false }, nil); names != nil {
			t.Errorf("refused, and there is %q", names)
		}
	})
}

func FuzzLine(f *testing.F) {
	for _, seed := range []string{"", "\n", "4: ACTIVE\n", "a\nb", "\x00", "\xff", "größer", "x\r\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := line(b)
		if err == nil && (strings.ContainsAny(s, "\n\x00\x1b") || !strings.HasPrefix(string(b), s)) {
			t.Errorf("%q became %q", b, s)
		}
	})
}
