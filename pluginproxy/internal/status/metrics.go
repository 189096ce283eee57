// Package status shows what pluginproxy knows: metrics for Prometheus, health
// for kubelet's probes, /statusz for people and tools. All are made from one
// relay.Report, so they never disagree.
//
// SPDX-License-Identifier: Apache-2.0
package status

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/relay"
	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

// Reporter tells the state of now; *relay.Relay is one. It must be safe for
// concurrent use.
type Reporter interface{ Report() relay.Report }

// collector makes metrics from a report at each scrape. A resource taken out of
// the configuration is therefore gone from the next scrape, and one with no
// device is there as 0.
type collector struct{ from Reporter }

// desc shortens the table below.
func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("rdma_relay_"+name, help, labels, nil)
}

var (
	descDevices = desc("devices",
		"Devices of a resource in the list last sent, or to be sent, to kubelet.", "resource", "health")
	descHCAs = desc("hcas",
		"RDMA devices (HCAs) behind a resource.", "resource", "health")
	descLeftOut = desc("hcas_left_out",
		"RDMA devices of the node that are not behind a resource; /statusz says why.", "resource")
	descShared = desc("hcas_shared",
		"RDMA devices behind a resource that other resources have too.", "resource")
	descTaken = desc("hcas_taken",
		"RDMA devices that a resource selects and another one has, one of the two being exclusive.", "resource")
	descRegistered = desc("registered",
		"1 while kubelet has accepted the resource's registration.", "resource")
	descSession = desc("session_active",
		"1 while kubelet has a ListAndWatch session open.", "resource")
	descSessions = desc("sessions_total",
		"ListAndWatch sessions begun.", "resource")
	descSuperseded = desc("sessions_superseded_total",
		"Sessions ended because a newer one began.", "resource")
	descLists = desc("lists_sent_total",
		"Device lists sent to kubelet, which writes a checkpoint file for each.", "resource")
	descRegistrations = desc("registrations_total",
		"Registrations by result: ok, refused by kubelet, or unreachable: kubelet could not be called, or has not called.", "resource", "result")
	descAllocations = desc("allocations_total",
		"Allocate calls by result: ok or error.", "resource", "result")
	descPortActive = desc("port_active",
		"1 when the state of an RDMA port is ACTIVE.", "device", "port", "link_layer")
	descAge = desc("snapshot_age_seconds",
		"Time since discoveryd completed a scan, by the last message from it.")
	descGeneration = desc("snapshot_generation",
		"Generation of the snapshot in use; starts anew with each start of discoveryd.")
	descConnected = desc("discovery_connected",
		"1 while the stream from discoveryd is open.")
	descScan = desc("discovery_scan_seconds",
		"Duration of discoveryd's last completed scan.")
	descRejected = desc("snapshots_rejected_total",
		"Messages of discoveryd refused because they broke the protocol.")
	descExclusive = desc("netns_exclusive",
		"1 when the RDMA subsystem's network name space mode is exclusive, in which devices can't be shared.")
	descConfig = desc("config_info",
		"The configuration in force; the value is 1.", "hash")
	descConfigLoad = desc("config_load_success",
		"1 when the configuration file of now is in force, 0 when it was refused.")
	descBuild = desc("build_info",
		"The build; the value is 1.", "version")
)

// Describe sends nothing: which resources there are changes, so the collector is
// an unchecked one (prometheus.Collector).
func (collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) {
	rep := c.from.Report()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	counter := func(d *prometheus.Desc, v uint64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	gauge(descBuild, 1, rep.Version)
	gauge(descConfig, 1, rep.Config.Hash)
	gauge(descConfigLoad, number(rep.Config.Problem == ""))
	gauge(descConnected, number(rep.Discovery.Connected))
	counter(descRejected, rep.Discovery.Rejected)
	if rep.Snapshot != nil {
		gauge(descAge, rep.Discovery.AgeSeconds)
		gauge(descGeneration, float64(rep.Discovery.Generation))
		gauge(descScan, rep.Discovery.ScanSeconds)
		gauge(descExclusive, number(rep.Discovery.NetnsMode == "exclusive"))
	}
	collectPorts(gauge, rep.Snapshot)
	for _, r := range rep.Resources {
		if !r.Waiting { // else nothing is known of the devices, and 0 is a number
			gauge(descDevices, float64(r.Healthy), r.Name, "healthy")
			gauge(descDevices, float64(r.Devices-r.Healthy), r.Name, "unhealthy")
			gauge(descHCAs, float64(r.HealthyHCAs), r.Name, "healthy")
			gauge(descHCAs, float64(len(r.HCAs)-r.HealthyHCAs), r.Name, "unhealthy")
			gauge(descLeftOut, float64(len(r.LeftOut)), r.Name)
			gauge(descShared, float64(len(r.Shared)), r.Name)
			gauge(descTaken, float64(len(r.Taken)), r.Name)
		}
		gauge(descRegistered, number(r.Registered), r.Name)
		gauge(descSession, number(r.Session), r.Name)
		counter(descSessions, r.Counters.Sessions, r.Name)
		counter(descSuperseded, r.Counters.Superseded, r.Name)
		counter(descLists, r.Counters.Lists, r.Name)
		counter(descRegistrations, r.Counters.RegistrationsOK, r.Name, "ok")
		counter(descRegistrations, r.Counters.RegistrationsRefused, r.Name, "refused")
		counter(descRegistrations, r.Counters.RegistrationsUnreachable, r.Name, "unreachable")
		counter(descAllocations, r.Counters.AllocationsOK, r.Name, "ok")
		counter(descAllocations, r.Counters.AllocationsRefused, r.Name, "error")
	}
}

// maxPorts bounds the series of ports; a node has a few dozen at most.
const maxPorts = 4096

// collectPorts gives each port once: a doubled one would spoil the whole scrape.
func collectPorts(gauge func(*prometheus.Desc, float64, ...string), snapshot *discoveryv1.Snapshot) {
	type port struct {
		device string
		number uint32
	}
	seen := map[port]bool{}
	for _, d := range snapshot.GetDevices() {
		name := text(d.GetName())
		for _, p := range d.GetPorts() {
			this := port{name, p.GetNumber()}
			if name == "" || seen[this] || len(seen) >= maxPorts {
				continue
			}
			seen[this] = true
			active := p.GetState() == discoveryv1.PortState_PORT_STATE_ACTIVE
			gauge(descPortActive, number(active), name, strconv.FormatUint(uint64(p.GetNumber()), 10), linkLayer(p.GetLinkLayer()))
		}
	}
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func linkLayer(l discoveryv1.LinkLayer) string {
	switch l {
	case discoveryv1.LinkLayer_LINK_LAYER_INFINIBAND:
		return "infiniband"
	case discoveryv1.LinkLayer_LINK_LAYER_ETHERNET:
		return "ethernet"
	}
	return "unknown"
}
