// The report on a terminal: what is wrong first, then the numbers, then why.
//
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/relay"
	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/resource"
)

// shownChanges is how many of the last changes a terminal shows.
const shownChanges = 10

// WriteText writes the report for people; now is the time at which it was asked
// for. With colour it uses ANSI colours. The error is the writer's.
func WriteText(w io.Writer, rep *relay.Report, now time.Time, colour bool) error {
	t := &terminal{colour: colour}
	if rep.Ready {
		t.line(paint(good, "ready:"), plain(" every resource has a session with kubelet"))
	} else {
		t.line(paint(bad, "NOT READY"))
		for _, m := range rep.Missing {
			t.line(plain("  " + m))
		}
	}
	for _, p := range rep.Problems {
		t.paragraph(paint(bad, "problem:"), p)
	}
	for _, warning := range rep.Config.Warnings {
		t.paragraph(paint(warn, "warning:"), "configuration: "+warning)
	}
	t.line()
	t.resources(rep, now)
	down := portsDown(rep.Devices)
	for i := range rep.Resources {
		t.why(&rep.Resources[i], down)
	}
	t.line()
	var rows [][]cell
	if rep.Node.Name != "" {
		rows = append(rows, []cell{paint(dim, "node"), plain(rep.Node.Name)})
	}
	for _, f := range facts(rep, now) {
		if f.Mark == good {
			f.Mark = "" // what is well needs no colour here
		}
		rows = append(rows, []cell{paint(dim, f.Name), paint(f.Mark, f.Value)})
	}
	t.table("", rows)
	if len(rep.Changes) > 0 {
		t.line()
		t.line(paint(bold, "LAST CHANGES"))
		rows = nil
		for _, c := range rep.Changes[:min(len(rep.Changes), shownChanges)] {
			text := c.Text
			if c.Resource != "" {
				text = c.Resource + " " + text
			}
			rows = append(rows, []cell{paint(dim, since(now, c.At)+" ago"), plain(c.Kind), plain(text)})
		}
		t.table("  ", rows)
	}
	_, err := io.WriteString(w, t.b.String())
	return err
}

// WriteResources writes what the resources of a configuration would expose, as
// WriteText does. The error is the writer's.
func WriteResources(w io.Writer, resources []*resource.Resource, colour bool) error {
	t := &terminal{colour: colour}
	for i, r := range resources {
		if i > 0 {
			t.line()
		}
		mark := good
		if len(r.Devices) == 0 {
			mark = bad
		}
		t.line(paint(bold, r.Name), plain(": "), paint(mark, fmt.Sprintf("%d devices", len(r.Devices))), plain(fmt.Sprintf(" behind %d HCAs", len(r.HCAs))))
		also := sharedWith(r.Name, r.Shared)
		var rows [][]cell
		for _, h := range r.HCAs {
			health := paint(good, "healthy")
			if !h.Healthy {
				health = paint(bad, "unhealthy: "+h.Reason)
			} else if h.Reason != "" {
				health.text += "; " + h.Reason
			}
			if also[h.Name] != "" {
				health.text += "; also in " + also[h.Name]
			}
			rows = append(rows, []cell{plain("selected"), plain(h.Name), plain(h.PCIAddress), health})
		}
		t.table("  ", rows)
		t.groups("left out", "", r.LeftOut)
		for _, hint := range r.Hints {
			t.line(paint(warn, "  hint:"), plain(" "+hint))
		}
	}
	_, err := io.WriteString(w, t.b.String())
	return err
}

// paragraph writes text of several lines, such as all errors of a file.
func (t *terminal) paragraph(head cell, text string) {
	for i, line := range strings.Split(text, "\n") {
		if i == 0 {
			t.line(head, plain(" "+line))
		} else {
			t.line(plain("  " + line))
		}
	}
}

func (t *terminal) resources(rep *relay.Report, now time.Time) {
	rows := [][]cell{{}}
	for _, head := range []string{"RESOURCE", "DEVICES", "HEALTHY", "HCAS", "SESSION", "SINCE", "REGISTRATIONS", "ALLOCATIONS"} {
		rows[0] = append(rows[0], paint(bold, head))
	}
	for i := range rep.Resources {
		r := &rep.Resources[i]
		devices, healthy, hcas := fmt.Sprint(r.Devices), paint(good, fmt.Sprint(r.Healthy)), fmt.Sprintf("%d/%d", r.HealthyHCAs, len(r.HCAs))
		switch {
		case r.Waiting:
			devices, healthy, hcas = "?", paint(bad, "?"), "?"
		case r.Healthy == 0:
			healthy.mark = bad
		case r.Healthy < r.Devices:
			healthy.mark = warn
		}
		live := paint(good, session(r))
		if !r.Session {
			live.mark = bad
		}
		rows = append(rows, []cell{
			plain(r.Name), plain(devices), healthy, plain(hcas), live, plain(since(now, r.Since)),
			plain(fmt.Sprint(r.Counters.RegistrationsOK)), plain(fmt.Sprint(r.Counters.AllocationsOK)),
		})
	}
	t.table("", rows)
}

// why shows which devices a resource has, and why it has no others.
func (t *terminal) why(r *relay.ResourceReport, down map[string]string) {
	t.line()
	head := []cell{paint(bold, r.Name)}
	if r.Why != "" {
		head = append(head, plain(": "), paint(bad, r.Why))
	}
	t.line(head...)
	var healthy, limited []resource.LeftOut
	var ill []resource.LeftOut // devices with reasons, as those left out
	for _, h := range r.HCAs {
		switch {
		case !h.Healthy:
			ill = append(ill, resource.LeftOut{Device: h.Name, Rule: h.Reason})
		case h.Reason != "":
			limited = append(limited, resource.LeftOut{Device: h.Name, Rule: h.Reason})
		case down[h.Name] != "":
			limited = append(limited, resource.LeftOut{Device: h.Name, Rule: down[h.Name]})
		default:
			healthy = append(healthy, resource.LeftOut{Device: h.Name})
		}
	}
	t.groups("unhealthy", bad, ill)
	t.groups("selected", warn, limited)
	t.groups("selected", good, healthy)
	for _, hint := range hints(r) {
		t.line(paint(warn, "  hint:"), plain(" "+hint))
	}
	t.groups("left out", "", r.LeftOut)
}

// groups writes devices with their reasons, those with the same one together.
func (t *terminal) groups(what, mark string, list []resource.LeftOut) {
	all, more := groups(list)
	for _, g := range all {
		line := []cell{plain("  " + what + ": "), paint(mark, g.who())}
		if g.Rule != "" {
			line = append(line, plain(": "+g.Rule))
		}
		t.line(line...)
	}
	if more > 0 {
		t.line(plain(fmt.Sprintf("  %s: for %d reasons more, see -o json", what, more)))
	}
}
