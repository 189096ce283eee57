// What is recorded: the things that a scan looks at, and of each thing the texts and
// links that it reads there.
//
// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"context"
	"errors"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/rdma-relay/rdma-relay/discoveryd/internal/sysfs"
)

// The lists. Nothing else is read: no serial number, no node_desc (it has the host's
// name), no vital product data. Below the line are texts that no scan needs today, but
// whoever looks into a report: which model it is (board_id is the PSID), and whose port
// it is. What may be a question to the firmware comes last.
var (
	deviceTexts = []string{
		"node_type", "node_guid", "sys_image_guid", "fw_ver", "parent",
		"board_id", "hca_type",
	}
	portTexts = []string{
		"link_layer", "gid_attrs/ndevs/0",
		"gid_attrs/types/0", "gids/0",
	}
	stateTexts = []string{"state", "phys_state", "rate"}
	netTexts   = []string{
		"ifindex", "type", "operstate", "carrier", "mtu", "dev_port", "phys_port_name",
		"address",
	}
	functionTexts = []string{"class", "modalias", "vendor", "device", "subsystem_vendor", "subsystem_device", "numa_node"}
	functionLinks = []string{"driver", "physfn"}
	charTexts     = []string{"ibdev", "port"}
)

var (
	pciAddress = regexp.MustCompile(`^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)
	charName   = regexp.MustCompile(`^(uverbs|umad|issm)[0-9]+$`)
)

// walk goes through one host.
type walk struct {
	*tree
	crew *crew
	sys  *sysfs.Root
	read func(root *sysfs.Root, path string) (string, error)
	dev  *devices

	mu   sync.Mutex
	seen map[string]bool // paths of things that were begun
}

// walkHost fills the tree, and seals it.
func walkHost(ctx context.Context, opts Options, t *tree) error {
	deadline, cancel := context.WithTimeout(ctx, 2*opts.Deadline)
	defer cancel()
	sys, err := sysfs.Open(filepath.Join(opts.Root, "sys"))
	if err != nil {
		return err
	}
	live, err := sys.Live()
	if err != nil {
		return errors.Join(err, sys.Close())
	}
	w := &walk{tree: t, sys: sys, read: opts.read, dev: openDevices(opts.Root, live), seen: map[string]bool{}}
	w.crew = newCrew(deadline.Done(), t)
	w.dir("sys")
	w.crew.start(w.host)
	w.crew.wait(func() {
		_ = sys.Close()
		w.dev.close()
	})
	t.seal()
	return ctx.Err()
}

// host starts a reader for each thing in the classes and on the PCI bus.
func (w *walk) host() {
	w.begin("sys")
	defer w.end("sys")
	w.class("class/infiniband", nil, func(p string) {
		w.function(w.parent(p))
		w.thing(p, w.device)
	})
	w.class("class/infiniband_verbs", charName.MatchString, func(p string) { w.thing(p, w.char) })
	w.class("class/infiniband_mad", charName.MatchString, func(p string) { w.thing(p, w.char) })
	w.manager()
	w.dev.list(w.tree)

	// Of the network devices only those with hardware on a PCI function; others are
	// recorded where one of these or an RDMA device names them. A host has hundreds of
	// pods' network devices, which are nobody's business.
	for _, name := range w.names("class/net") {
		if p, err := w.sys.Resolve("class/net/" + name); err == nil && w.function(w.parent(p)) {
			w.net(name)
		}
	}
	for _, name := range w.names("bus/pci/devices") {
		class, err := w.sys.Text(w.canonical("bus/pci/devices/"+name) + "/class")
		if err == nil && (strings.HasPrefix(class, "0x02") || strings.HasPrefix(class, "0x0c06")) {
			w.function(w.canonical("bus/pci/devices/" + name))
		}
	}
}

// class records the links of a class whose names are wanted, and calls each for where
// they lead.
func (w *walk) class(class string, wanted func(name string) bool, each func(p string)) {
	for _, name := range w.names(class) {
		if wanted == nil || wanted(name) {
			if p, ok := w.entry(class + "/" + name); ok {
				each(p)
			}
		}
	}
}

// names lists a directory that is recorded even if it is empty.
func (w *walk) names(dir string) (names []string) {
	d, err := w.sys.OpenDir(dir)
	if err != nil {
		if !sysfs.Absent(err) {
			w.trouble(dir, err)
		}
		return nil
	}
	defer d.Close()
	all, err := d.Names()
	if err != nil {
		w.trouble(dir, err)
	}
	w.dir(inSys(dir))
	for _, name := range all {
		if printable(name) {
			names = append(names, name)
		} else {
			w.note("%s: an entry whose name is not printable", inSys(dir))
		}
	}
	return names
}

// entry records the link at p, and returns where it leads in the end. In a recorded
// tree the thing itself may stand there; ok is false for a plain file.
func (w *walk) entry(p string) (target string, ok bool) {
	target, err := w.sys.Resolve(p)
	if errors.Is(err, unix.ENOENT) { // it leads nowhere
		w.pointer(p)
		return "", false
	}
	if err != nil {
		w.trouble(p, err)
		return "", false
	}
	if target != p {
		w.link(inSys(p), inSys(target))
		return target, true
	}
	dir, err := w.sys.OpenDir(p)
	if err != nil {
		return "", false
	}
	dir.Close()
	w.dir(inSys(p))
	w.pointer(p + "/device")
	return p, true
}

// canonical is where p leads in the end; p itself if that can't be told.
func (w *walk) canonical(p string) string {
	if target, err := w.sys.Resolve(p); err == nil {
		return target
	}
	return p
}

// pointer records a link as it is, wherever it leads in the tree.
func (w *walk) pointer(p string) (target string) {
	target, err := w.sys.Link(p)
	if err != nil {
		if !sysfs.Absent(err) {
			w.trouble(p, err)
		}
		return ""
	}
	w.link(inSys(p), inSys(target))
	return target
}

// thing starts a reader for the thing at p, once.
func (w *walk) thing(p string, read func(p string)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.seen[p] {
		w.seen[p] = true
		w.crew.start(func() { read(p) })
	}
}

// parent is the device that the class entry at p hangs on.
func (w *walk) parent(p string) string {
	if !strings.HasPrefix(p, "devices/") {
		return w.canonical(p + "/device")
	}
	return path.Dir(path.Dir(p))
}

// function records the PCI function that the device at p is or hangs on, if there is
// one.
func (w *walk) function(p string) bool {
	for ; p != "." && p != "/"; p = path.Dir(p) {
		if address := path.Base(p); pciAddress.MatchString(address) {
			w.entry("bus/pci/devices/" + address)
			w.thing(p, w.readFunction)
			return true
		}
	}
	return false
}

// net records the network device called name.
func (w *walk) net(name string) {
	if name == "" || name == "." || name == ".." || strings.Contains(name, "/") || !printable(name) {
		return
	}
	if p, ok := w.entry("class/net/" + name); ok {
		w.thing(p, w.readNet)
	}
}

// trouble notes that a directory, link or text could not be recorded.
func (w *walk) trouble(p string, err error) {
	if inner := (*os.PathError)(nil); errors.As(err, &inner) {
		err = inner.Err
	}
	w.note("%s: %v", inSys(p), err)
}

func inSys(p string) string { return path.Join("sys", p) }
