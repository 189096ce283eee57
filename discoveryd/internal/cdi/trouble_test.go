// A directory that can't be used, and a second daemon in the same one.
//
// SPDX-License-Identifier: Apache-2.0

package cdi

import (
	"os"
	"path/filepath"
	"testing"
)

func TestR67_DirectoryIsMadeWhereItsParentIs(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cdi")
	d := newDaemon(t, dir)
	wantNames(t, d.place(hca(0, 0)), "mlx5_0 0000:10:00.0")
	wantResolvable(t, dir, "0000:10:00.0")
	d.Remove()
	wantFiles(t, dir)
}

// Whatever is wrong is said in the snapshot and once in the log, claims nothing,
// and is over when it is over.
func TestR67_DirectoryThatCanNotBeUsedIsAStateAndMayEnd(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil func(t *testing.T, dir string) (mend func())
		says  string
	}{
		"missing with its parent": {func(t *testing.T, dir string) func() {
			must(t, os.RemoveAll(filepath.Dir(dir)))
			return func() { must(t, os.MkdirAll(dir, 0o700)) }
		}, "no such file or directory"},
		"a file": {func(t *testing.T, dir string) func() {
			must(t, os.Remove(dir))
			put(t, dir, "")
			return func() { must(t, os.Remove(dir)) }
		}, "not a directory"},
		"below a file": {func(t *testing.T, dir string) func() {
			must(t, os.RemoveAll(filepath.Dir(dir)))
			put(t, filepath.Dir(dir), "")
			return func() { must(t, os.Remove(filepath.Dir(dir))); must(t, os.Mkdir(filepath.Dir(dir), 0o700)) }
		}, "not a directory"},
		"a directory in the file's place": {func(t *testing.T, dir string) func() {
			must(t, os.MkdirAll(filepath.Join(fileAt(dir), "full"), 0o700))
			return func() { must(t, os.RemoveAll(fileAt(dir))) }
		}, FileName},
		"read-only": {readOnly, "write "},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "run", "cdi")
			must(t, os.MkdirAll(dir, 0o700))
			mend := tc.spoil(t, dir)
			d := newDaemon(t, dir)
			for range 3 {
				wantNames(t, d.place(hca(0, 0)), "mlx5_0 ")
				d.wantProblem(tc.says)
				d.wantProblem(dir)
			}
			mend()
			wantNames(t, d.place(hca(0, 0)), "mlx5_0 0000:10:00.0")
			d.wantProblem("")
			wantResolvable(t, dir, "0000:10:00.0")
			if warned, good := d.log.count("can't be kept"), d.log.count("is in place"); warned != 1 || good != 1 {
				t.Errorf("%d warnings, %d times good: %s", warned, good, d.log.b.String())
			}
		})
	}
}

func TestDevicesThatTheOldSpecDescribesKeepTheirNames(t *testing.T) {
	dir := t.TempDir()
	d := newDaemon(t, dir)
	d.place(hca(0, 0), hca(1, 1))
	writable := readOnly(t, dir)
	wantNames(t, d.place(hca(0, 0), hca(1, 5), hca(2, 2)), "mlx5_0 0000:10:00.0", "mlx5_1 ", "mlx5_2 ")
	d.wantProblem("write " + fileAt(dir))
	noCM := hca(0, 0)
	noCM.CharDevices = noCM.CharDevices[:3]
	wantNames(t, d.place(noCM), "mlx5_0 ")
	wantNames(t, d.place(hca(1, 1)), "mlx5_1 0000:11:00.0") // mlx5_0 is still in the file
	d.wantProblem("write ")
	d.place()
	d.wantProblem("remove " + fileAt(dir))
	writable()
	d.place()
	d.wantProblem("")
	wantFiles(t, dir)
}

func TestRestartInAReadOnlyDirectoryTakesOverWhatIsRight(t *testing.T) {
	dir := t.TempDir()
	dead := newDaemon(t, dir)
	dead.place(hca(0, 0))
	dead.kill()
	writable := readOnly(t, dir)
	d := newDaemon(t, dir)
	for range 2 {
		wantNames(t, d.place(hca(0, 0)), "mlx5_0 0000:10:00.0")
		d.wantProblem("")
	}
	wantNames(t, d.place(hca(0, 1)), "mlx5_0 ")
	d.wantProblem("write ")
	writable()
	d.place(hca(0, 1))
	d.Remove()
	wantFiles(t, dir)
}

// A new pod's daemon starts before the old one's has ended.
func TestTheNewestDaemonsSpecOutlivesTheOldOne(t *testing.T) {
	dir := t.TempDir()
	older := newDaemon(t, dir)
	older.place(hca(0, 0))
	newer := newDaemon(t, dir)
	newer.place(hca(0, 0))
	older.place(hca(0, 0))
	older.Remove()
	wantResolvable(t, dir, "0000:10:00.0")
	newer.place(hca(0, 0), hca(1, 1))
	wantResolvable(t, dir, "0000:10:00.0", "0000:11:00.0")
	newer.Remove()
	wantFiles(t, dir)
}

func TestTwoDaemonsDoNotWriteInTurns(t *testing.T) {
	dir := t.TempDir()
	older, newer := newDaemon(t, dir), newDaemon(t, dir)
	older.place(hca(0, 0), hca(1, 1))
	newer.place(hca(0, 9)) // a version that sees it otherwise
	before, _, err := identify(fileAt(dir))
	must(t, err)
	// The older one relies on what is there, and claims no more.
	wantNames(t, older.place(hca(0, 0), hca(1, 1)), "mlx5_0 0000:10:00.0", "mlx5_1 ")
	older.wantProblem("")
	wantNames(t, older.place())
	newer.place(hca(0, 9))
	if after, _, err := identify(fileAt(dir)); err != nil || after != before {
		t.Errorf("the file was written again, or %v", err)
	}
	newer.Remove()
	older.place(hca(0, 0))
	wantResolvable(t, dir, "0000:10:00.0")
}
