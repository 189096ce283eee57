// SPDX-License-Identifier: Apache-2.0

package image

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
)

func TestArchiveHasFoldersBeforeFiles(t *testing.T) {
	var out bytes.Buffer
	a := NewArchive(&out)
	a.Dir("/dev")
	a.File("/lib/modules/a.ko", 0o644, []byte("12345"))
	a.File("/lib/modules/b.ko", 0o755, nil)
	a.Link("/bin/sh", "busybox")
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"dev 40755 ", "lib 40755 ", "lib/modules 40755 ", "lib/modules/a.ko 100644 12345", "lib/modules/b.ko 100755 ",
		"bin 40755 ", "bin/sh 120777 busybox", "TRAILER!!! 0 ",
	}
	if got := entries(t, out.Bytes()); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestArchiveTellsOfAFileThatCannotBeRead(t *testing.T) {
	a := NewArchive(&bytes.Buffer{})
	a.Copy("/init", 0o755, filepath.Join(t.TempDir(), "none"))
	a.Dir("/dev")
	if err := a.Close(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

func TestLinksOfPackagesStayBelowTheRoot(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{"lib", "usr/lib"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"lib/libm.so": "libm.so.6", "lib/libm.so.6": "/usr/lib/libm-2.so", "lib/loop": "loop"} {
		if err := os.Symlink(target, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	want := filepath.Join(root, "usr/lib/libm-2.so")
	if err := os.WriteFile(want, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := inside(root, "lib/libm.so"); err != nil || got != want {
		t.Errorf("%s, %v; want %s", got, err, want)
	}
	for _, name := range []string{"lib/loop", "lib/none"} {
		if got, err := inside(root, name); err == nil {
			t.Errorf("%s leads to %s", name, got)
		}
	}
}

// entries reads an archive: name, mode and content of each entry.
func entries(t *testing.T, b []byte) (all []string) {
	t.Helper()
	const header = 110
	for len(b) >= header {
		if string(b[:6]) != "070701" {
			t.Fatalf("no header: %q", b[:6])
		}
		field := func(i int) int {
			n, err := strconv.ParseUint(string(b[6+8*i:14+8*i]), 16, 32)
			if err != nil {
				t.Fatal(err)
			}
			return int(n)
		}
		mode, size, name := field(1), field(6), field(11)
		begin := (header + name + 3) &^ 3
		all = append(all, fmt.Sprintf("%s %o %s", b[header:header+name-1], mode, b[begin:begin+size]))
		b = b[(begin+size+3)&^3:]
	}
	if len(b) > 0 {
		t.Errorf("%d bytes too many", len(b))
	}
	return all
}
