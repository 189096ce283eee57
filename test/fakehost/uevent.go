// What a kernel prints once more, all of a device in one file: uevent (drivers/base/
// core.c, dev_uevent; drivers/pci/pci-driver.c, pci_uevent) and modalias.
//
// SPDX-License-Identifier: Apache-2.0

package fakehost

import (
	"fmt"
	"strconv"
	"strings"
)

// functionUevent adds uevent and modalias of the PCI function, where its IDs are
// numbers.
func (d device) functionUevent(l *layout) {
	var id [5]uint64
	for i, text := range []string{d.Vendor, d.Device, d.SubVendor, d.SubDevice, d.Class} {
		n, err := strconv.ParseUint(text, 0, 32)
		if err != nil {
			return
		}
		id[i] = n
	}
	class := id[4]
	modalias := fmt.Sprintf("pci:v%08Xd%08Xsv%08Xsd%08Xbc%02Xsc%02Xi%02x", id[0], id[1], id[2], id[3], class>>16, class>>8&0xff, class&0xff)
	lines := []string{
		fmt.Sprintf("PCI_CLASS=%04X", class),
		fmt.Sprintf("PCI_ID=%04X:%04X", id[0], id[1]),
		fmt.Sprintf("PCI_SUBSYS_ID=%04X:%04X", id[2], id[3]),
		"PCI_SLOT_NAME=" + d.PCI,
		"MODALIAS=" + modalias,
	}
	if d.Driver != None && !d.unbound {
		lines = append([]string{"DRIVER=" + d.Driver}, lines...)
	}
	l.file(d.function(), "uevent", strings.Join(lines, "\n"))
	l.file(d.function(), "modalias", modalias)
}

// uevent of a character device. The mode is told where it is not the one that root
// alone has.
func (c Char) uevent() string {
	major, minor, _ := strings.Cut(c.number(), ":")
	text := "MAJOR=" + major + "\nMINOR=" + minor + "\nDEVNAME=infiniband/" + c.name()
	if c.Kind == "uverbs" {
		text += "\nDEVMODE=0666"
	}
	return text
}

// number is major:minor. The kernel has fixed numbers for the first devices
// (drivers/infiniband/core/uverbs_main.c, user_mad.c) and takes free majors for
// the rest; 510 and 511 stand for these.
func (c Char) number() string {
	const fixedVerbs, fixedMAD = 32, 64
	switch {
	case c.Kind == "uverbs" && c.Index < fixedVerbs:
		return "231:" + strconv.Itoa(192+c.Index)
	case c.Kind == "uverbs":
		return "510:" + strconv.Itoa(c.Index-fixedVerbs)
	case c.Index >= fixedMAD && c.Kind == "umad":
		return "511:" + strconv.Itoa(2*(c.Index-fixedMAD))
	case c.Index >= fixedMAD:
		return "511:" + strconv.Itoa(2*(c.Index-fixedMAD)+1)
	case c.Kind == "umad":
		return "231:" + strconv.Itoa(c.Index)
	default:
		return "231:" + strconv.Itoa(64+c.Index)
	}
}
