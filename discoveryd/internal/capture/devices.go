// The files in /dev/infiniband. In the archive each is an empty plain file, which a
// replay takes for the device; its number is in sysfs.
//
// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"errors"
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/rdma-relay/rdma-relay/discoveryd/internal/sysfs"
)

// devices is the directory with the device files; it need not be there.
type devices struct {
	dir  *sysfs.Dir
	live bool
}

func openDevices(root string, live bool) *devices {
	d := &devices{live: live}
	dev, err := sysfs.Open(filepath.Join(root, "dev"))
	if err != nil {
		return d
	}
	defer dev.Close()
	if dir, err := dev.OpenDir("infiniband"); err == nil {
		d.dir = dir
	}
	return d
}

func (d *devices) close() {
	if d.dir != nil {
		d.dir.Close()
	}
}

// list records which files there are. One that is not a device has a directory for
// it: to a replay, something else has the name.
func (d *devices) list(t *tree) {
	if d.dir == nil {
		return
	}
	t.dir("dev/infiniband")
	names, err := d.dir.Names()
	if err != nil {
		t.note("dev/infiniband: %v", err)
	}
	for _, name := range names {
		if !charName.MatchString(name) && name != "rdma_cm" {
			continue
		}
		p := "dev/infiniband/" + name
		st, err := d.dir.Stat(name)
		mode := st.Mode & unix.S_IFMT
		switch {
		case errors.Is(err, unix.ENOENT):
		case err != nil:
			t.note("%s: %v", p, errors.Unwrap(err))
			t.add(member{path: p, kind: aFile})
		case mode == unix.S_IFCHR, mode == unix.S_IFREG && !d.live:
			t.add(member{path: p, kind: aFile})
		default:
			t.note("%s: not a character device", p)
			t.dir(p)
		}
	}
}

// number is the device number of the file called name. On a live host it is the
// kernel that tells it.
func (d *devices) number(name string) (number string, known bool) {
	if d.dir == nil || d.live {
		return "", false
	}
	st, err := d.dir.Stat(name)
	if err != nil || st.Mode&unix.S_IFMT != unix.S_IFCHR {
		return "", false
	}
	return fmt.Sprintf("%d:%d", unix.Major(st.Rdev), unix.Minor(st.Rdev)), true
}
