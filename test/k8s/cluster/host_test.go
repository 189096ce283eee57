// The sample host: eight HCAs as on a node for training. Its sys/ and dev/ are what
// the chart is told to mount; its dev/infiniband is the node's /dev/infiniband.
//
// SPDX-License-Identifier: Apache-2.0

//go:build cluster

package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// sampleHost is a tree in the layout of Linux 6.12, as far as a scan reads it. The
// character devices have numbers behind which no machine without RDMA has a driver.
type sampleHost struct{ root string }

const hcas = 8

func (c *cluster) makeHost(context.Context) error {
	h := &sampleHost{root: c.path("host")}
	c.host = h
	if err := h.write(); err != nil {
		return err
	}
	return unix.Mount(filepath.Join(h.root, "dev/infiniband"), "/dev/infiniband", "", unix.MS_BIND, "")
}

// Names of the i-th HCA.
func pciAddress(i int) string { return fmt.Sprintf("0000:%02x:00.0", 0x10+i) }
func rdmaName(i int) string   { return fmt.Sprintf("mlx5_%d", i) }
func netName(i int) string    { return fmt.Sprintf("ens%df0np0", i) }

// deviceFiles are what a container with these HCAs gets: path to major:minor.
func deviceFiles(of ...int) map[string]string {
	files := map[string]string{"/dev/infiniband/rdma_cm": "10:58"}
	for _, i := range of {
		files[fmt.Sprintf("/dev/infiniband/uverbs%d", i)] = uverbsNumber(i)
		files[fmt.Sprintf("/dev/infiniband/umad%d", i)] = fmt.Sprintf("231:%d", i)
	}
	return files
}

func uverbsNumber(i int) string { return fmt.Sprintf("231:%d", 192+i) }

func (h *sampleHost) write() error {
	files := map[string]string{
		"sys/class/infiniband_verbs/abi_version": "6",
		"sys/class/infiniband_mad/abi_version":   "5",
		"sys/class/misc/rdma_cm/dev":             "10:58",
		"proc/sys/kernel/osrelease":              "6.12.0",
	}
	links := map[string]string{}
	for i := range hcas {
		h.describe(i, files, links)
	}
	for name, text := range files {
		if err := writeFile(filepath.Join(h.root, name), text+"\n"); err != nil {
			return err
		}
	}
	for name, target := range links {
		path := filepath.Join(h.root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.Symlink(target, path); err != nil {
			return err
		}
	}
	all := make([]int, hcas)
	for i := range all {
		all[i] = i
	}
	for path, number := range deviceFiles(all...) {
		if err := mknod(filepath.Join(h.root, path), number); err != nil {
			return err
		}
	}
	return nil
}

// describe adds the i-th HCA, with one active Ethernet port.
func (h *sampleHost) describe(i int, files, links map[string]string) {
	function := "sys/devices/pci0000:00/" + pciAddress(i)
	uverbs, umad := fmt.Sprintf("uverbs%d", i), fmt.Sprintf("umad%d", i)
	guid := fmt.Sprintf("0c42:a103:00c6:%04x", i)
	for name, text := range map[string]string{
		"vendor": "0x15b3", "device": "0x1017", "class": "0x020000", "numa_node": "0",
		"subsystem_vendor": "0x15b3", "subsystem_device": "0x0008",
		"net/" + netName(i) + "/type":                              "1",
		"net/" + netName(i) + "/operstate":                         "up",
		"net/" + netName(i) + "/carrier":                           "1",
		"net/" + netName(i) + "/ifindex":                           fmt.Sprint(i + 2),
		"net/" + netName(i) + "/mtu":                               "1500",
		"infiniband/" + rdmaName(i) + "/node_type":                 "1: CA",
		"infiniband/" + rdmaName(i) + "/fw_ver":                    "16.35.2000",
		"infiniband/" + rdmaName(i) + "/node_guid":                 guid,
		"infiniband/" + rdmaName(i) + "/sys_image_guid":            guid,
		"infiniband/" + rdmaName(i) + "/ports/1/link_layer":        "Ethernet",
		"infiniband/" + rdmaName(i) + "/ports/1/state":             "4: ACTIVE",
		"infiniband/" + rdmaName(i) + "/ports/1/phys_state":        "5: LinkUp",
		"infiniband/" + rdmaName(i) + "/ports/1/rate":              "100 Gb/sec (4X EDR)",
		"infiniband/" + rdmaName(i) + "/ports/1/gid_attrs/ndevs/0": netName(i),
		"infiniband_verbs/" + uverbs + "/ibdev":                    rdmaName(i),
		"infiniband_verbs/" + uverbs + "/dev":                      uverbsNumber(i),
		"infiniband_mad/" + umad + "/ibdev":                        rdmaName(i),
		"infiniband_mad/" + umad + "/dev":                          fmt.Sprintf("231:%d", i),
		"infiniband_mad/" + umad + "/port":                         "1",
	} {
		files[filepath.Join(function, name)] = text
	}
	files["sys/bus/pci/drivers/mlx5_core/bind"] = ""
	links[function+"/driver"] = "../../../bus/pci/drivers/mlx5_core"
	links["sys/bus/pci/devices/"+pciAddress(i)] = "../../../devices/pci0000:00/" + pciAddress(i)
	for class, name := range map[string]string{"net": netName(i), "infiniband": rdmaName(i), "infiniband_verbs": uverbs, "infiniband_mad": umad} {
		links[function+"/"+class+"/"+name+"/device"] = "../../../" + pciAddress(i)
		links["sys/class/"+class+"/"+name] = "../../devices/pci0000:00/" + pciAddress(i) + "/" + class + "/" + name
	}
}

// setPort changes the state of the i-th HCA's port, as a pulled cable does.
func (h *sampleHost) setPort(i int, state string) error {
	path := filepath.Join(h.root, "sys/devices/pci0000:00", pciAddress(i), "infiniband", rdmaName(i), "ports/1/state")
	if err := os.WriteFile(path+"~", []byte(state+"\n"), 0o644); err != nil {
		return err
	}
	return os.Rename(path+"~", path)
}

func mknod(path, number string) error {
	var major, minor uint32
	if _, err := fmt.Sscanf(number, "%d:%d", &major, &minor); err != nil {
		return fmt.Errorf("device number %q: %w", number, err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(major, minor))); err != nil {
		return fmt.Errorf("mknod %s: %w", path, err)
	}
	return nil
}
