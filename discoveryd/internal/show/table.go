// The table: a line for each port, then what is wrong, then the functions that
// have no RDMA device.
//
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"
	"text/tabwriter"

	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

func printTable(w io.Writer, s *discoveryv1.Snapshot) error { return table(w, s, false) }

func printWide(w io.Writer, s *discoveryv1.Snapshot) error { return table(w, s, true) }

func table(out io.Writer, s *discoveryv1.Snapshot, wide bool) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	var without []*discoveryv1.Device
	header := false
	for _, d := range s.GetDevices() {
		if d.GetName() == "" {
			without = append(without, d)
			continue
		}
		if !header {
			row(w, columns(wide)...)
			header = true
		}
		deviceRows(w, d, wide)
	}
	if !header {
		row(w, "No RDMA devices.")
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if err := printReasons(w, s); err != nil || len(without) == 0 {
		return err
	}
	row(w, "\nNetwork functions without an RDMA device:")
	for _, d := range without {
		p := d.GetParent()
		row(w, "  "+p.GetPciAddress(), p.GetVendorId()+":"+p.GetDeviceId(), or(p.GetDriver(), "no driver"), netNames(d.GetOtherNetDevices()))
	}
	return w.Flush()
}

func columns(wide bool) []string {
	names := []string{"NAME", "PCI", "KIND", "DRIVER", "NUMA", "PORT", "LINK", "STATE", "RATE", "NETDEV", "FILES"}
	if wide {
		names = append(names, "ID", "NODE GUID", "FIRMWARE", "PHYSICAL", "PF", "OTHER NETDEVS")
	}
	return names
}

// deviceRows prints the device with its first port, and a line for each further
// port.
func deviceRows(w io.Writer, d *discoveryv1.Device, wide bool) {
	p := d.GetParent()
	numa := "-"
	if p.NumaNode != nil {
		numa = strconv.Itoa(int(p.GetNumaNode()))
	}
	front := []string{d.GetName(), or(p.GetPciAddress(), "-"), word(p.GetFunction().String(), "FUNCTION_KIND_"), or(p.GetDriver(), "-"), numa}
	files := fileNames(d.GetCharDevices())
	for i, port := range d.GetPorts() {
		if i > 0 {
			front, files = []string{"", "", "", "", ""}, ""
		}
		cells := append(front, portCells(port)...)
		cells = append(cells, files)
		if wide {
			cells = append(cells, wideCells(d, port, i == 0)...)
		}
		row(w, cells...)
	}
	if len(d.GetPorts()) == 0 {
		cells := append(front, "-", "-", "-", "-", "-", files)
		if wide {
			cells = append(cells, wideCells(d, nil, true)...)
		}
		row(w, cells...)
	}
}

func portCells(port *discoveryv1.Port) []string {
	return []string{
		strconv.Itoa(int(port.GetNumber())), word(port.GetLinkLayer().String(), "LINK_LAYER_"),
		word(port.GetState().String(), "PORT_STATE_"), or(port.GetRate(), "-"), netNames(port.GetNetDevices()),
	}
}

func wideCells(d *discoveryv1.Device, port *discoveryv1.Port, first bool) []string {
	p := d.GetParent()
	physical := word(port.GetPhysState().String(), "PHYS_STATE_")
	if !first {
		return []string{"", "", "", physical, "", ""}
	}
	id := "-"
	if p.GetVendorId() != "" {
		id = p.GetVendorId() + ":" + p.GetDeviceId()
	}
	pf := or(p.GetPfAddress(), "-")
	if p.VfIndex != nil {
		pf += "#" + strconv.Itoa(int(p.GetVfIndex()))
	}
	return []string{id, or(d.GetNodeGuid(), "-"), or(d.GetFirmwareVersion(), "-"), physical, pf, netNames(d.GetOtherNetDevices())}
}

// printReasons says what is wrong with the node and with RDMA devices.
func printReasons(w *tabwriter.Writer, s *discoveryv1.Snapshot) error {
	header := false
	say := func(what string, reasons []*discoveryv1.Reason) {
		for _, r := range reasons {
			if !header {
				row(w, "\nLimits:")
				header = true
			}
			row(w, "  "+what, strings.TrimPrefix(r.GetCode().String(), "REASON_CODE_"), r.GetMessage())
		}
	}
	say("(node)", s.GetNode().GetReasons())
	for _, d := range s.GetDevices() {
		if d.GetName() != "" {
			say(d.GetName(), d.GetReasons())
		}
	}
	return w.Flush()
}

// row prints one line; an error comes back from Flush.
func row(w io.Writer, cells ...string) {
	_, _ = fmt.Fprintln(w, strings.TrimRight(strings.Join(cells, "\t"), "\t"))
}

// word makes a word for people of an enum value's name.
func word(name, prefix string) string {
	name = strings.ToLower(strings.TrimPrefix(name, prefix))
	if name == "unspecified" {
		return "-"
	}
	return strings.ReplaceAll(name, "_", "-")
}

func netNames(nets []*discoveryv1.NetDevice) string {
	var names []string
	for _, n := range nets {
		names = append(names, n.GetName())
	}
	return or(strings.Join(names, ","), "-")
}

func fileNames(files []*discoveryv1.CharDevice) string {
	var names []string
	for _, f := range files {
		names = append(names, path.Base(f.GetPath()))
	}
	return or(strings.Join(names, ","), "-")
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}
