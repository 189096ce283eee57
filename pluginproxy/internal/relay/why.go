// Why is it zero? The answer in sentences: what is wrong with the node, and what
// keeps each resource below what its configuration asks for.
//
// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"fmt"
	"strings"
	"time"
)

// moduleTells says what there is not while a kernel module does not answer.
var moduleTells = map[string]string{
	"ib_uverbs": "no device has its uverbs file, so none can be used",
	"rdma_ucm":  "there is no rdma_cm, so only resources whose charDevices leave it out have devices",
	"ib_umad":   "containers get no umad and issm files",
}

// problems says what is wrong with this program's surroundings, most serious first.
// It is about more than readiness: a node that is ready can have one.
func (rep *Report) problems() (list []string) {
	add := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	d := &rep.Discovery
	switch k := &rep.Kubelet; {
	case k.Deleted:
		add("the directory mounted at %s was deleted on the host: restart this pod", k.Dir)
	case k.Present:
	case k.Watched:
		add("there is no %s: kubelet is not running, or its plugin registry is elsewhere (--plugins-registry-dir)", k.Dir)
	default:
		add("there is no kubelet.sock in %s: kubelet is not running, or its directory is elsewhere (--device-plugins-dir)", k.Dir)
	}
	switch {
	case d.Connected:
	case rep.Snapshot == nil:
		add("discoveryd has not been reached: look whether its container runs, and at its log; nothing is registered before it has told what the node has")
	default:
		add("discoveryd is away (%s): look whether its container runs, and at its log; its last snapshot, %s old, goes on being served", d.Problem, age(d.AgeSeconds))
	}
	if d.Stale {
		add("the snapshot is older than --stale-after allows: all devices are unhealthy")
	}
	if rep.Config.Problem != "" {
		add("the configuration file is refused, the one loaded at %s stays in force: %s", rep.Config.LoadedAt.UTC().Format(time.RFC3339), rep.Config.Problem)
	}
	for _, reason := range d.NodeReasons {
		add("the node: %s", reason)
	}
	if d.NetnsMode == "exclusive" && len(d.NodeReasons) == 0 {
		add("the node: the RDMA network name space mode is exclusive; run: rdma system set netns shared")
	}
	// A node without RDMA devices needs none of the modules.
	for _, m := range rep.Node.Modules {
		if !m.Present && d.Devices > 0 {
			add("the kernel module %s does not answer: %s; run: modprobe %s", m.Name, orWord(moduleTells[m.Name], "something is missing"), m.Name)
		}
	}
	if rep.Node.CDIProblem != "" {
		add("discoveryd's CDI specs: %s", rep.Node.CDIProblem)
	}
	return list
}

// why says what keeps a resource below what its configuration asks for; nothing
// when nothing does.
func (r *ResourceReport) why(d *DiscoveryReport) string {
	switch {
	case r.Waiting:
		return "not registered: no snapshot from discoveryd yet"
	case !r.Session:
		return "kubelet shows 0: no session: " + r.Problem
	case r.Devices == 0 && len(r.HCAs) > 0: // what switches it off is told last
		return "0 devices: " + strings.Join(r.Hints[max(0, len(r.Hints)-1):], "")
	case r.Devices == 0:
		return "0 devices: " + orWord(strings.Join(r.Hints[:min(len(r.Hints), 3)], "; "), "no device fits")
	case r.Healthy == 0 && d.Stale:
		return fmt.Sprintf("all %s are unhealthy: the snapshot is stale", plural(r.Devices, "device"))
	}
	ill, first := 0, ""
	for _, h := range r.HCAs {
		if !h.Healthy {
			if ill++; ill == 1 {
				first = h.Name + ": " + h.Reason
			}
		}
	}
	var parts []string
	if r.Healthy < r.Devices && ill > 0 {
		parts = append(parts, fmt.Sprintf("%d of %s unhealthy: %s", ill, plural(len(r.HCAs), "HCA"), first))
	}
	unusable := ""
	lost := 0
	for _, l := range r.LeftOut {
		if reason, ok := strings.CutPrefix(l.Rule, unusablePrefix); ok {
			if lost++; lost == 1 {
				unusable = l.Device + ": " + reason
			}
		}
	}
	if lost > 0 {
		parts = append(parts, fmt.Sprintf("%s selected but unusable: %s", plural(lost, "HCA"), unusable))
	}
	return strings.Join(parts, "; ")
}

// unusablePrefix begins the rule of a device that is selected and can't be used.
const unusablePrefix = "unusable: "

func orWord(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// age is a number of seconds for people.
func age(seconds float64) string {
	return time.Duration(seconds * float64(time.Second)).Round(time.Second).String()
}
