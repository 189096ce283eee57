// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

func TestWriteFile(t *testing.T) {
	say := func(text string) func(io.Writer) error {
		return func(w io.Writer) error { _, err := io.WriteString(w, text); return err }
	}
	broken := errors.New("broken")
	failing := func(w io.Writer) error { return errors.Join(say("half")(w), broken) }
	for _, test := range []struct {
		name    string
		before  func(path string) error
		replace bool
		write   func(io.Writer) error
		fails   error
		after   string // the file's text; empty: as before
	}{
		{"new", nil, false, say("new"), nil, "new"},
		{"new, with replace", nil, true, say("new"), nil, "new"},
		{"there already", file, false, say("new"), ErrExists, "old"},
		{"replaced", file, true, say("new"), nil, "new"},
		{"replaced, and it fails", file, true, failing, broken, "old"},
		{"new, and it fails", nil, false, failing, broken, ""},
		{"a directory", directory, true, say("new"), ErrExists, ""},
		{"a link", dangling, true, say("new"), ErrExists, ""},
		{"a link, without replace", dangling, false, say("new"), ErrExists, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "host.tar.gz")
			number := 0
			if test.before != nil {
				must(t, test.before(path))
				number++
			}
			if err := WriteFile(path, test.replace, test.write); !errors.Is(err, test.fails) {
				t.Errorf("error %v, want %v", err, test.fails)
			}
			if text, _ := os.ReadFile(path); string(text) != test.after {
				t.Errorf("the file has %q", text)
			}
			if test.fails == nil {
				number = 1
			}
			entries, err := os.ReadDir(dir)
			must(t, err)
			if len(entries) != number {
				t.Errorf("in the directory: %v", entries)
			}
			if check := CheckFile(path, false); errors.Is(check, ErrExists) != (number == 1) {
				t.Errorf("check says %v", check)
			}
		})
	}
	if err := WriteFile(filepath.Join(t.TempDir(), "nowhere", "x"), false, say("")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("in no directory: %v", err)
	}
}

func file(path string) error      { return os.WriteFile(path, []byte("old"), 0o600) }
func directory(path string) error { return os.Mkdir(path, 0o755) }
func dangling(path string) error  { return os.Symlink("nowhere", path) }
