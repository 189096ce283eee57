// What tells one kubelet from the next.
//
// SPDX-License-Identifier: Apache-2.0

package register

import (
	"errors"
	"syscall"
)

// Generation tells one kubelet.sock from the next. Kubelet binds it anew at each
// start (server.Start in kubelet's pkg/kubelet/cm/devicemanager/plugin/v1beta1),
// and an inode number alone may be used again at once. In the plugin registry
// there is no kubelet.sock, and it is the directory that has a generation. The zero
// value means that there is none. Generations are comparable.
type Generation struct {
	dev, ino uint64
	ctime    syscall.Timespec
}

// Present reports whether there is one.
func (g Generation) Present() bool { return g != Generation{} }

// generationOf reads the generation of the socket or directory at path; whatever else
// is there counts as absent. A directory's ctime is no part of it: it changes with
// each file.
func generationOf(path string) Generation {
	st, err := stat(path)
	switch {
	case err != nil:
	case st.Mode&syscall.S_IFMT == syscall.S_IFSOCK:
		return Generation{dev: st.Dev, ino: st.Ino, ctime: st.Ctim}
	case st.Mode&syscall.S_IFMT == syscall.S_IFDIR && st.Nlink > 0: // see errDeleted
		return Generation{dev: st.Dev, ino: st.Ino}
	}
	return Generation{}
}

func stat(path string) (st syscall.Stat_t, err error) {
	for {
		if err = syscall.Stat(path, &st); !errors.Is(err, syscall.EINTR) {
			return st, err
		}
	}
}
