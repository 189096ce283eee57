// The table: a line for each port, then what is wrong, then the functions that
// have no RDMA device.
//
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"io"
	"path"
	"strconv"
	"strings"
	"unicode/utf8"

	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

func printTable(w io.Writer, s *discoveryv1.Snapshot) error { return table(w, s, false) }

func printWide(w io.Writer, s *discoveryv1.Snapshot) error { return table(w, s, true) }

func table(out io.Writer, s *discoveryv1.Snapshot, wide bool) error {
	devices := grid{columns(wide)}
	without := grid{}
	for _, d := range s.GetDevices() {
		if d.GetName() != "" {
			devices.addDevice(d, wide)
			continue
		}
		p := d.GetParent()
		without = append(without, []string{"  " + p.GetPciAddress(), p.GetVendorId() + ":" + p.GetDeviceId(),
			or(p.GetDriver(), "(no driver)"), netNames(d.GetOtherNetDevices())})
	}
	if len(devices) == 1 {
		devices = grid{{"No RDMA devices."}}
	}
	text := devices.String()
	if limits := limits(s); len(limits) > 0 {
		text += "\nLimits:\n" + limits.String()
	}
	if len(without) > 0 {
		text += "\nNetwork functions without an RDMA device:\n" + without.String()
	}
	_, err := io.WriteString(out, text)
	return err
}

// grid is rows of cells, aligned when printed.
type grid [][]string

// String pads all cells of a column to the same width.
func (g grid) String() string {
	var widths []int
	for _, row := range g {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for _, row := range g {
		line := ""
		for i, cell := range row {
			line += cell + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2)
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return b.String()
}

func columns(wide bool) []string {
	names := []string{"NAME", "PCI", "KIND", "DRIVER", "NUMA", "PORT", "LINK", "STATE", "RATE", "NETDEV", "FILES"}
	if wide {
		names = append(names, "ID", "NODE GUID", "FIRMWARE", "PHYSICAL", "PF", "OTHER NETDEVS")
	}
	return names
}

// addDevice adds a row for each port; the first has the device's own facts.
func (g *grid) addDevice(d *discoveryv1.Device, wide bool) {
	ports := d.GetPorts()
	if len(ports) == 0 {
		ports = []*discoveryv1.Port{nil}
	}
	for i, port := range ports {
		row := append(deviceCells(d, i == 0), portCells(port)...)
		row = append(row, firstOnly(i == 0, fileNames(d.GetCharDevices())))
		if wide {
			row = append(row, wideCells(d, port, i == 0)...)
		}
		*g = append(*g, row)
	}
}

func deviceCells(d *discoveryv1.Device, first bool) []string {
	if !first {
		return []string{"", "", "", "", ""}
	}
	p := d.GetParent()
	numa := "-"
	if p.NumaNode != nil {
		numa = strconv.Itoa(int(p.GetNumaNode()))
	}
	return []string{d.GetName(), or(p.GetPciAddress(), "-"), word(p.GetFunction().String(), "FUNCTION_KIND_"), or(p.GetDriver(), "-"), numa}
}

func firstOnly(first bool, cell string) string {
	if first {
		return cell
	}
	return ""
}

func portCells(port *discoveryv1.Port) []string {
	if port == nil {
		return []string{"-", "-", "-", "-", "-"}
	}
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

// limits are what is wrong with the node and with RDMA devices.
func limits(s *discoveryv1.Snapshot) (g grid) {
	add := func(what string, reasons []*discoveryv1.Reason) {
		for _, r := range reasons {
			g = append(g, []string{"  " + what, strings.TrimPrefix(r.GetCode().String(), "REASON_CODE_"), r.GetMessage()})
		}
	}
	add("(node)", s.GetNode().GetReasons())
	for _, d := range s.GetDevices() {
		if d.GetName() != "" {
			add(d.GetName(), d.GetReasons())
		}
	}
	return g
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
