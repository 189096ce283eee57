// Which devices can be used at all, and whether they are well.
//
// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"fmt"
	"strings"

	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/config"
	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

// judge turns the daemon's reasons into what they mean here. A code that is not
// known is as bad as an unreadable device, as the protocol wants it.
//
// DEVICE_FILE_MISSING and NOT_PERMITTED decide nothing by themselves: what counts
// is whether a file that is needed is among the device's files.
func (f *facts) judge(reasons []*discoveryv1.Reason) {
	var notes []string
	fatal, noUverbs := 0, 0
	for _, r := range reasons[:min(len(reasons), maxList)] {
		said := says(r)
		switch r.GetCode() {
		case discoveryv1.ReasonCode_REASON_CODE_NO_RDMA_CM:
			f.noCM = said
		case discoveryv1.ReasonCode_REASON_CODE_NO_UMAD,
			discoveryv1.ReasonCode_REASON_CODE_DEVICE_FILE_MISSING,
			discoveryv1.ReasonCode_REASON_CODE_NOT_PERMITTED,
			discoveryv1.ReasonCode_REASON_CODE_NOT_ANSWERING,
			discoveryv1.ReasonCode_REASON_CODE_TOO_MANY:
			notes = append(notes, said)
		default:
			if fatal++; f.unusable == "" {
				f.unusable = said
			}
			if r.GetCode() == discoveryv1.ReasonCode_REASON_CODE_NO_UVERBS {
				noUverbs++
			}
		}
	}
	f.onlyLacksUverbs = fatal == 1 && noUverbs == 1
	f.note = clip(strings.Join(notes, "; "))
	if !f.has(config.RDMACM) && f.noCM == "" {
		f.noCM = deviceDir + "rdma_cm is missing; load the kernel module rdma_ucm"
	}
	switch {
	case f.unusable != "":
	case f.name == "":
		f.unusable = "it has no RDMA device"
	case !plain(f.name), f.pci != "" && !plain(f.pci):
		f.unusable = "its name or address makes no sense"
	case !f.has(config.Uverbs):
		f.unusable = "it has no uverbs file"
		if f.note != "" {
			f.unusable += ": " + f.note
		}
	}
}

// says gives a reason's sentence, or its code where it has none.
func says(r *discoveryv1.Reason) string {
	if m := clip(r.GetMessage()); m != "" {
		return m
	}
	return strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(r.GetCode().String(), "REASON_CODE_"), "_", " "))
}

// netnsFault says why a node whose RDMA name spaces are exclusive can share nothing.
func netnsFault(node *discoveryv1.Node) string {
	for _, r := range node.GetReasons() {
		if r.GetCode() == discoveryv1.ReasonCode_REASON_CODE_NETNS_EXCLUSIVE {
			return says(r)
		}
	}
	if node.GetNetnsMode() == discoveryv1.NetnsMode_NETNS_MODE_EXCLUSIVE {
		return "the RDMA network name space mode is exclusive; run: rdma system set netns shared"
	}
	return ""
}

// unfit says why a device that can be used at all is none for this resource: a
// container would get a half set of files (R24).
func (f *facts) unfit(cfg *config.Resource) string {
	if f.unusable != "" {
		return f.unusable
	}
	if cfg.Wants(config.RDMACM) && f.noCM != "" {
		return f.noCM
	}
	for _, kind := range cfg.CharDevices {
		if f.has(kind) {
			return ""
		}
	}
	return fmt.Sprintf("it has none of the files %v", cfg.CharDevices)
}

// readPorts notes whether a port is ACTIVE. On Ethernet the port's state follows
// the carrier, which is heard of sooner, so a port whose network devices all say
// that there is none is not active. An InfiniBand port may be in use while its
// IPoIB device has no carrier.
func (f *facts) readPorts(ports []*discoveryv1.Port) {
	var text strings.Builder
	for _, p := range ports[:min(len(ports), maxList)] {
		state := strings.TrimPrefix(p.GetState().String(), "PORT_STATE_")
		dark := p.GetLinkLayer() == discoveryv1.LinkLayer_LINK_LAYER_ETHERNET && noCarrier(p.GetNetDevices())
		if p.GetState() == discoveryv1.PortState_PORT_STATE_ACTIVE && !dark {
			f.active = true
		}
		if dark {
			state = "no carrier"
		}
		if text.Len() < maxNameBytes {
			fmt.Fprintf(&text, ", port %d: %s", p.GetNumber(), state)
		}
	}
	f.portText = strings.TrimPrefix(text.String(), ", ")
}

// noCarrier tells whether the kernel denies a carrier to every network device.
func noCarrier(list []*discoveryv1.NetDevice) bool {
	known := false
	for _, n := range list[:min(len(list), maxList)] {
		if n.GetRole() == discoveryv1.NetDeviceRole_NET_DEVICE_ROLE_REPRESENTOR {
			continue
		}
		if n == nil || n.Carrier == nil || n.GetCarrier() {
			return false
		}
		known = true
	}
	return known
}

// ill says why the device is not healthy for the resource, or nothing. A device that
// does not answer is judged by the last facts known of it.
func (f *facts) ill(cfg *config.Resource) string {
	switch {
	case cfg.CDI && f.cdi == "":
		return f.noCDI
	case cfg.Health != config.HealthActive || f.active:
		return ""
	case f.portText == "":
		return "no port is ACTIVE"
	}
	return "no port is ACTIVE (" + f.portText + ")"
}

// cdiFault says why a device of the node that has no CDI name has none.
func cdiFault(node *discoveryv1.Node) string {
	switch problem := clip(node.GetCdi().GetProblem()); {
	case problem != "":
		return "it has no CDI name: " + problem
	case node.GetCdi() == nil:
		return "it has no CDI name: discoveryd keeps no CDI spec; give it --cdi-dir"
	}
	return "it has no CDI name: the CDI spec does not describe it"
}
