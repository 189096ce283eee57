// The table: a line for each device, then what the reasons in it mean, then the
// functions that have no RDMA device.
//
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"io"
	"slices"
	"strings"

	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

// column is one column of the devices.
type column struct {
	title string
	cell  func(d *discoveryv1.Device) string
}

// ports makes a column of what is said of each port.
func ports(title string, cell func(*discoveryv1.Port) string) column {
	return column{title, func(d *discoveryv1.Device) string { return ofPorts(d.GetPorts(), cell) }}
}

// parent makes a column of what is said of the parent.
func parent(title string, cell func(*discoveryv1.Parent) string) column {
	return column{title, func(d *discoveryv1.Device) string { return or(cell(d.GetParent()), none) }}
}

// columns are those of the table.
func columns() []column {
	return []column{
		{"NAME", (*discoveryv1.Device).GetName},
		{"KIND", kind},
		parent("PCI", (*discoveryv1.Parent).GetPciAddress),
		parent("NUMA", numa),
		{"PORTS", func(d *discoveryv1.Device) string { return portNumbers(d.GetPorts()) }},
		ports("LINK", linkLayer),
		ports("STATE", state),
		ports("GB/S", speed),
		ports("NETDEV", portNets),
		{"FILES", func(d *discoveryv1.Device) string { return files(d.GetCharDevices()) }},
		{"REASONS", func(d *discoveryv1.Device) string { return codes(d.GetReasons()) }},
	}
}

// wideColumns are what the wide table has before the reasons.
func wideColumns() []column {
	return []column{
		parent("DRIVER", (*discoveryv1.Parent).GetDriver),
		parent("ID", func(p *discoveryv1.Parent) string { return ids(p.GetVendorId(), p.GetDeviceId()) }),
		parent("SUBSYSTEM", func(p *discoveryv1.Parent) string { return ids(p.GetSubsystemVendorId(), p.GetSubsystemDeviceId()) }),
		parent("PF", above),
		parent("ROOT", (*discoveryv1.Parent).GetPcieRoot),
		ports("PHYSICAL", physState),
		{"NODE GUID", func(d *discoveryv1.Device) string { return or(d.GetNodeGuid(), none) }},
		{"FIRMWARE", func(d *discoveryv1.Device) string { return or(d.GetFirmwareVersion(), none) }},
		{"OTHER NETDEVS", func(d *discoveryv1.Device) string { return netNames(d.GetOtherNetDevices()) }},
	}
}

func printTable(w io.Writer, s *discoveryv1.Snapshot) error { return table(w, s, columns(), "") }

func printWide(w io.Writer, s *discoveryv1.Snapshot) error {
	all := columns()
	for i := range all {
		if all[i].title == "GB/S" {
			all[i] = ports("RATE", rate)
		}
	}
	end := len(all) - 1
	return table(w, s, slices.Concat(all[:end], wideColumns(), all[end:]), nodeLine(s.GetNode()))
}

func table(out io.Writer, s *discoveryv1.Snapshot, columns []column, end string) error {
	devices := slices.Clone(s.GetDevices())
	slices.SortStableFunc(devices, func(a, b *discoveryv1.Device) int { return natural(a.GetName(), b.GetName()) })
	rows, without := grid{{}}, grid{{"PCI", "ID", "DRIVER", "NUMA", "NETDEV", "REASONS"}}
	for _, c := range columns {
		rows[0] = append(rows[0], c.title)
	}
	for _, d := range devices {
		p := d.GetParent()
		if d.GetName() == "" {
			without = append(without, []string{
				or(p.GetPciAddress(), none), ids(p.GetVendorId(), p.GetDeviceId()), or(p.GetDriver(), none), numa(p), netNames(d.GetOtherNetDevices()), codes(d.GetReasons()),
			})
			continue
		}
		row := make([]string, 0, len(columns))
		for _, c := range columns {
			row = append(row, c.cell(d))
		}
		rows = append(rows, row)
	}
	text := rows.String()
	if len(rows) == 1 {
		text = "No RDMA devices.\n"
	}
	if limits := limits(s.GetNode(), devices); len(limits) > 0 {
		text += "\nLimits:\n" + limits.indented()
	}
	if len(without) > 1 {
		text += "\nNetwork functions without an RDMA device:\n" + without.indented()
	}
	_, err := io.WriteString(out, text+end)
	return err
}

// limits are what is wrong with the node and with RDMA devices; what several have in
// common is said once.
func limits(node *discoveryv1.Node, devices []*discoveryv1.Device) (g grid) {
	type what struct{ code, message string }
	var order []what
	who := map[what][]string{}
	add := func(name string, reasons []*discoveryv1.Reason) {
		for _, r := range reasons {
			w := what{code(r), r.GetMessage()}
			if who[w] == nil {
				order = append(order, w)
			}
			who[w] = append(who[w], name)
		}
	}
	add("(node)", node.GetReasons())
	for _, d := range devices {
		if d.GetName() != "" {
			add(d.GetName(), d.GetReasons())
		}
	}
	for _, w := range order {
		g = append(g, []string{some(who[w]), w.code, w.message})
	}
	return g
}

// some names the first few.
func some(names []string) string {
	const most = 3
	if more := len(names) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ","), more)
	}
	return strings.Join(names, ",")
}

// nodeLine tells what holds for the whole node.
func nodeLine(n *discoveryv1.Node) string {
	if n == nil {
		return ""
	}
	var loaded []string
	for _, m := range n.GetModules() {
		if m.GetPresent() {
			loaded = append(loaded, m.GetName())
		}
	}
	return fmt.Sprintf("\nNode: kernel %s, RDMA name spaces %s, modules %s\n", or(n.GetKernelRelease(), none),
		word(n.GetNetnsMode().String(), "NETNS_MODE_"), or(strings.Join(loaded, " "), none))
}
