// A made-up host: the sys/ and dev/ trees of a node with some ConnectX-like HCAs, in
// the layout of Linux 6.12, as far as a scan reads it.
//
// SPDX-License-Identifier: Apache-2.0

package k8s

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// host may be changed by one goroutine at a time, which need not be the test's own.
type host struct {
	t    testing.TB
	root string
}

func newHost(t testing.TB, hcas int) *host {
	t.Helper()
	h := &host{t: t, root: shortDir(t)}
	h.file("sys/class/infiniband_verbs/abi_version", "6\n")
	h.file("sys/class/infiniband_mad/abi_version", "5\n")
	h.file("sys/class/misc/rdma_cm/dev", "10:58\n")
	h.file("dev/infiniband/rdma_cm", "")
	h.file("proc/sys/kernel/osrelease", "6.12.0\n")
	for i := range hcas {
		h.plug(i)
	}
	return h
}

// Names of the i-th HCA.
func pciAddress(i int) string { return fmt.Sprintf("0000:%02x:00.0", 0x10+i) }
func rdmaName(i int) string   { return fmt.Sprintf("mlx5_%d", i) }
func netName(i int) string    { return fmt.Sprintf("ens%df0np0", i) }

// deviceFiles are those that a container with the i-th HCA gets, rdma_cm aside.
func deviceFiles(i int) []string {
	return []string{
		fmt.Sprintf("/dev/infiniband/umad%d", i),
		fmt.Sprintf("/dev/infiniband/uverbs%d", i),
	}
}

// plug adds the i-th HCA, with one active Ethernet port. What points at a thing comes
// after it, the class links last: a scan meanwhile finds the HCA whole or not at all.
func (h *host) plug(i int) {
	h.t.Helper()
	device := "sys/devices/pci0000:00/" + pciAddress(i)
	for name, text := range map[string]string{
		"vendor": "0x15b3\n", "device": "0x1017\n", "class": "0x020000\n", "numa_node": "0\n",
		"subsystem_vendor": "0x15b3\n", "subsystem_device": "0x0008\n",
		"net/" + netName(i) + "/type":      "1\n",
		"net/" + netName(i) + "/operstate": "up\n",
		"net/" + netName(i) + "/carrier":   "1\n",
		"net/" + netName(i) + "/ifindex":   fmt.Sprintf("%d\n", i+2),
		"net/" + netName(i) + "/mtu":       "1500\n",
	} {
		h.file(filepath.Join(device, name), text)
	}
	h.dir("sys/bus/pci/drivers/mlx5_core")
	h.link(device+"/driver", "../../../bus/pci/drivers/mlx5_core")
	h.link(device+"/net/"+netName(i)+"/device", "../../../"+pciAddress(i))

	hca := device + "/infiniband/" + rdmaName(i)
	for name, text := range map[string]string{
		"node_type": "1: CA\n", "fw_ver": "16.35.2000\n",
		"node_guid":                 fmt.Sprintf("0c42:a103:00c6:%04x\n", i),
		"sys_image_guid":            fmt.Sprintf("0c42:a103:00c6:%04x\n", i),
		"ports/1/link_layer":        "Ethernet\n",
		"ports/1/state":             "4: ACTIVE\n",
		"ports/1/phys_state":        "5: LinkUp\n",
		"ports/1/rate":              "100 Gb/sec (4X EDR)\n",
		"ports/1/gid_attrs/ndevs/0": netName(i) + "\n",
	} {
		h.file(filepath.Join(hca, name), text)
	}
	h.link(hca+"/device", "../../../"+pciAddress(i))

	uverbs, umad := fmt.Sprintf("uverbs%d", i), fmt.Sprintf("umad%d", i)
	for _, c := range []struct{ class, name, dev string }{
		{"infiniband_verbs", uverbs, fmt.Sprintf("231:%d\n", 192+i)},
		{"infiniband_mad", umad, fmt.Sprintf("231:%d\n", i)},
	} {
		node := filepath.Join(device, c.class, c.name)
		h.file(node+"/ibdev", rdmaName(i)+"\n")
		h.file(node+"/dev", c.dev)
		h.link(node+"/device", "../../../"+pciAddress(i))
		h.file("dev/infiniband/"+c.name, "")
	}
	h.file(device+"/infiniband_mad/"+umad+"/port", "1\n")

	h.link("sys/bus/pci/devices/"+pciAddress(i), "../../../devices/pci0000:00/"+pciAddress(i))
	for class, name := range h.classLinks(i) {
		h.link("sys/class/"+class+"/"+name, "../../devices/pci0000:00/"+pciAddress(i)+"/"+class+"/"+name)
	}
}

func (h *host) classLinks(i int) map[string]string {
	return map[string]string{
		"net":              netName(i),
		"infiniband_mad":   fmt.Sprintf("umad%d", i),
		"infiniband_verbs": fmt.Sprintf("uverbs%d", i),
		"infiniband":       rdmaName(i),
	}
}

// unplug takes the i-th HCA away, in the reverse order.
func (h *host) unplug(i int) {
	h.t.Helper()
	for class, name := range h.classLinks(i) {
		h.remove("sys/class/" + class + "/" + name)
	}
	h.remove("sys/bus/pci/devices/" + pciAddress(i))
	for _, file := range deviceFiles(i) {
		h.remove(file)
	}
	h.remove("sys/devices/pci0000:00/" + pciAddress(i))
}

// toggle unplugs and plugs the i-th HCA, which is there, over and over, until stop is
// called or the test ends. stop tells whether it is there now.
func (h *host) toggle(i int) (stop func() bool) {
	there := true
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			if there {
				h.unplug(i)
			} else {
				h.plug(i)
			}
			there = !there
			select {
			case <-time.After(rand.N(50 * time.Millisecond)):
			case <-end:
				return
			}
		}
	}()
	stop = sync.OnceValue(func() bool {
		close(end)
		<-ended
		return there
	})
	h.t.Cleanup(func() { stop() })
	return stop
}

// setPort changes the state of the i-th HCA's port as a pulled cable does.
func (h *host) setPort(i int, up bool) {
	h.t.Helper()
	device := "sys/devices/pci0000:00/" + pciAddress(i)
	state, phys, oper, carrier := "1: DOWN\n", "3: Disabled\n", "down\n", "0\n"
	if up {
		state, phys, oper, carrier = "4: ACTIVE\n", "5: LinkUp\n", "up\n", "1\n"
	}
	h.file(device+"/infiniband/"+rdmaName(i)+"/ports/1/phys_state", phys)
	h.file(device+"/infiniband/"+rdmaName(i)+"/ports/1/state", state)
	h.file(device+"/net/"+netName(i)+"/operstate", oper)
	h.file(device+"/net/"+netName(i)+"/carrier", carrier)
}

func (h *host) dir(path string) {
	h.t.Helper()
	if err := os.MkdirAll(filepath.Join(h.root, path), 0o755); err != nil {
		h.t.Error(err)
	}
}

// file writes a file so that a reader finds the old text or the new.
func (h *host) file(path, text string) {
	h.t.Helper()
	h.dir(filepath.Dir(path))
	path = filepath.Join(h.root, path)
	if err := os.WriteFile(path+"~", []byte(text), 0o644); err != nil {
		h.t.Error(err)
		return
	}
	if err := os.Rename(path+"~", path); err != nil {
		h.t.Error(err)
	}
}

func (h *host) link(path, target string) {
	h.t.Helper()
	h.dir(filepath.Dir(path))
	if err := os.Symlink(target, filepath.Join(h.root, path)); err != nil && !errors.Is(err, fs.ErrExist) {
		h.t.Error(err)
	}
}

func (h *host) remove(path string) {
	h.t.Helper()
	if err := os.RemoveAll(filepath.Join(h.root, path)); err != nil {
		h.t.Error(err)
	}
}
