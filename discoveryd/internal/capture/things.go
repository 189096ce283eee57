// The readers of each kind of thing.
//
// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"errors"
	"path"
	"strings"

	"github.com/rdma-relay/rdma-relay/discoveryd/internal/sysfs"
)

// device reads the RDMA device at p.
func (w *walk) device(p string) {
	w.dir(inSys(p))
	for _, name := range deviceTexts {
		text := w.text(p, name)
		if name == "parent" { // rxe names its network device
			w.net(text)
		}
	}
	ports := w.names(p + "/ports")
	for _, port := range ports {
		w.dir(inSys(p + "/ports/" + port))
		for _, name := range portTexts {
			text := w.text(p+"/ports/"+port, name)
			if name == "gid_attrs/ndevs/0" {
				w.net(text)
			}
		}
	}
	for _, port := range ports {
		for _, name := range stateTexts {
			w.text(p+"/ports/"+port, name)
		}
	}
}

// readFunction reads the PCI function at p.
func (w *walk) readFunction(p string) {
	w.dir(inSys(p))
	for _, name := range functionTexts {
		w.text(p, name)
	}
	for _, name := range functionLinks {
		target := w.pointer(p + "/" + name)
		if name == "physfn" && target != "" {
			w.function(w.canonical(target))
		}
	}
	names, _ := w.sys.Match(p, func(name []byte) bool { return strings.HasPrefix(string(name), "virtfn") })
	for _, name := range names {
		if printable(name) {
			w.pointer(p + "/" + name)
		}
	}
	if !w.sys.Exists(p + "/net") {
		return
	}
	for _, name := range w.names(p + "/net") {
		w.thing(w.canonical(p+"/net/"+name), w.readNet)
	}
}

// readNet reads the network device at p.
func (w *walk) readNet(p string) {
	w.dir(inSys(p))
	for _, name := range netTexts {
		w.text(p, name)
	}
	w.net(path.Base(w.pointer(p + "/master")))
	names, _ := w.sys.Match(p, func(name []byte) bool { return strings.HasPrefix(string(name), "upper_") })
	for _, name := range names {
		if printable(name) {
			w.pointer(p + "/" + name)
		}
	}
}

// char reads the character device at p.
func (w *walk) char(p string) {
	w.dir(inSys(p))
	for _, name := range charTexts {
		w.text(p, name)
	}
	w.number(p, path.Base(p))
}

// manager reads rdma_cm, which all RDMA devices share.
func (w *walk) manager() {
	const place = "class/misc/rdma_cm"
	p := place
	if w.sys.Exists(place) {
		var ok bool
		if p, ok = w.entry(place); !ok {
			return
		}
	}
	w.number(p, "rdma_cm")
}

// number records the device number of the character device called name, which is at
// p. In a recorded tree the device file itself may tell it.
func (w *walk) number(p, name string) {
	if number, known := w.dev.number(name); known {
		w.file(inSys(p+"/dev"), number)
		return
	}
	w.text(p, "dev")
}

// text records a text below dir, if there is one, and returns it. What is no text
// is recorded as something else that a scan takes for none.
func (w *walk) text(dir, name string) string {
	p := dir + "/" + name
	at := inSys(p)
	w.begin(at)
	text, err := w.read(w.sys, p)
	w.end(at)
	switch {
	case err == nil:
		w.file(at, text)
		return text
	case sysfs.Absent(err):
		return ""
	case errors.Is(err, sysfs.ErrNotRegular):
		w.dir(at)
	case errors.Is(err, sysfs.ErrNotText):
		w.file(at, "\x00")
	case errors.Is(err, sysfs.ErrTooLong):
		w.file(at, strings.Repeat("x", sysfs.MaxText+1))
	}
	w.trouble(p, err)
	return ""
}
