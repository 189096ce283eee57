// Cleaning up after the dead, and not after the living.
//
// SPDX-License-Identifier: Apache-2.0

package unixsock

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

func TestRemoveStaleRemovesOnlyOurDeadSockets(t *testing.T) {
	dir := shortDir(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	leaveDead(t, at("ours-dead"))
	leaveDead(t, at("ours-dead2"))
	leaveDead(t, at("theirs-dead"))
	leaveDead(t, at(".ours-left"))
	leaveDead(t, at(".ours-just-now"))
	leaveDead(t, at(".theirs-left"))
	old := time.Now().Add(-hiddenAge - time.Second)
	must(t, os.Chtimes(at(".ours-left"), old, old))
	must(t, os.Chtimes(at(".theirs-left"), old, old))
	listenOn(t, at("ours-living"))
	fullBacklog(t, at("ours-busy"))
	must(t, os.WriteFile(at("ours-file"), nil, 0o600))
	must(t, os.Mkdir(at("ours-dir"), 0o700))
	must(t, os.Symlink(at("theirs-dead"), at("ours-link")))

	removed, err := RemoveStale(dir, "ours-")
	must(t, err)
	if want := []string{".ours-left", "ours-dead", "ours-dead2"}; !slices.Equal(removed, want) {
		t.Errorf("removed %q, want %q", removed, want)
	}
	want := ".ours-just-now .theirs-left ours-busy ours-dir ours-file ours-link ours-living theirs-dead"
	if left := names(t, dir); left != want {
		t.Errorf("left %q, want %q", left, want)
	}
	if removed, err := RemoveStale(dir, "ours-"); len(removed) > 0 || err != nil {
		t.Errorf("again: removed %q, %v", removed, err)
	}
}

func TestRemoveStaleNeedsAPrefixAndADirectory(t *testing.T) {
	dir := shortDir(t)
	leaveDead(t, filepath.Join(dir, "s.sock"))
	if removed, err := RemoveStale(dir, ""); len(removed) > 0 || err == nil {
		t.Errorf("no prefix: removed %q, %v", removed, err)
	}
	if _, err := RemoveStale(filepath.Join(dir, "none"), "s"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
}

func TestAlive(t *testing.T) {
	dir := shortDir(t)
	leaveDead(t, filepath.Join(dir, "dead"))
	listenOn(t, filepath.Join(dir, "living"))
	for name, want := range map[string]bool{"dead": false, "living": true, "none": false, "none/none": false} {
		if got, err := Alive(filepath.Join(dir, name)); got != want || err != nil {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

func TestALockThatIsNeverGivenBackIsAnErrorAndNotAHang(t *testing.T) {
	dir := shortDir(t)
	holder, err := openDir(dir)
	must(t, err)
	defer holder.close()
	must(t, holder.lock())
	if _, err := Listen(filepath.Join(dir, "s.sock"), Options{}); err == nil {
		t.Error("listened in spite of the lock")
	}
	holder.close()
	must(t, listenOn(t, filepath.Join(dir, "s.sock")).Close())
	holder.fd = -1
}
