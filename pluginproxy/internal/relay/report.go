// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"fmt"
	"time"

	"github.com/rdma-relay/rdma-relay/internal/version"
	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/resource"
	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

// Report is everything that pluginproxy knows at one moment. /statusz, /metrics
// and /readyz are made from it, so they never disagree. Its JSON form is the
// answer of /statusz and only gains fields.
type Report struct {
	Version string `json:"version"`
	// Ready: a snapshot is here and every resource has a live session.
	Ready bool `json:"ready"`
	// Missing says in sentences what is missing for that.
	Missing []string `json:"missing,omitempty"`
	// Problems say what is wrong with the node, discoveryd, kubelet's directory or the
	// configuration file, and what to do; a program that is ready may have some.
	Problems  []string         `json:"problems,omitempty"`
	Node      NodeReport       `json:"node"`
	Config    ConfigReport     `json:"config"`
	Discovery DiscoveryReport  `json:"discovery"`
	Kubelet   KubeletReport    `json:"kubelet"`
	Resources []ResourceReport `json:"resources"`
	// Devices are all of the snapshot; filled by Detail.
	Devices []DeviceReport `json:"devices,omitempty"`
	// Changes are the last ones, the newest first.
	Changes []Change `json:"changes,omitempty"`

	// Snapshot is the last one, nil before the first.
	Snapshot *discoveryv1.Snapshot `json:"-"`
}

// ConfigReport is the state of the configuration.
type ConfigReport struct {
	Hash     string    `json:"hash"`
	LoadedAt time.Time `json:"loaded_at"`
	// Problem is why the file of now is refused.
	Problem  string   `json:"problem,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
}

// DiscoveryReport is the state of the stream from discoveryd.
type DiscoveryReport struct {
	Connected     bool    `json:"connected"`
	Problem       string  `json:"problem,omitempty"`
	DaemonVersion string  `json:"daemon_version,omitempty"`
	InstanceID    string  `json:"instance_id,omitempty"`
	Generation    uint64  `json:"generation"`
	AgeSeconds    float64 `json:"age_seconds"`
	ScanSeconds   float64 `json:"scan_seconds"`
	Stale         bool    `json:"stale"`
	// Rejected counts snapshots that broke the protocol.
	Rejected uint64 `json:"rejected"`
	// NetnsMode is the RDMA network name space mode: shared, exclusive or unknown.
	NetnsMode string `json:"netns_mode"`
	// NodeReasons say what is wrong with the node as a whole.
	NodeReasons []string `json:"node_reasons,omitempty"`
	// Devices is the number of RDMA devices in the snapshot, usable or not.
	Devices int `json:"devices"`
}

// KubeletReport is the state of kubelet's directory.
type KubeletReport struct {
	Dir string `json:"dir"`
	// Watched: kubelet watches the directory; otherwise it is called on its kubelet.sock.
	Watched bool `json:"watched"`
	// Present: there is a kubelet.sock, or the directory that kubelet is to watch.
	Present bool `json:"present"`
	// Deleted: the directory was deleted and is still mounted here, so that only a
	// restart of the container helps.
	Deleted bool `json:"deleted,omitempty"`
}

// ResourceReport is the state of one resource.
type ResourceReport struct {
	Name string `json:"name"`
	// Why says in one sentence what keeps the resource below what its configuration
	// asks for; empty when nothing does.
	Why string `json:"why,omitempty"`
	// Waiting: nothing is known of the resource's devices yet.
	Waiting bool `json:"waiting,omitempty"`
	// Devices is the length of the list for kubelet, Healthy how many of them are.
	Devices int `json:"devices"`
	Healthy int `json:"healthy"`
	// HCAs are the RDMA devices behind it, HealthyHCAs how many of them are healthy.
	HCAs        []resource.HCA `json:"hcas"`
	HealthyHCAs int            `json:"healthy_hcas"`
	// LeftOut says for each other device of the node why it is not among them.
	LeftOut []resource.LeftOut `json:"left_out,omitempty"`
	// Shared are those of HCAs that other resources have too. Taken are those left out
	// that the resource selects and another has, one of the two being exclusive.
	Shared []resource.Shared `json:"shared,omitempty"`
	Taken  []resource.Taken  `json:"taken,omitempty"`
	Hints  []string          `json:"hints,omitempty"`
	// Registered: kubelet has accepted the registration. Session: it has the list's
	// stream open. Since is when one of them changed last, Problem why there is no
	// session.
	Registered bool      `json:"registered"`
	Session    bool      `json:"session"`
	Since      time.Time `json:"since"`
	Problem    string    `json:"problem,omitempty"`
	Counters   Counters  `json:"counters"`
}

// Counters count since the resource is being served.
type Counters struct {
	Sessions                 uint64 `json:"sessions"`
	Superseded               uint64 `json:"superseded"`
	Lists                    uint64 `json:"lists"`
	RegistrationsOK          uint64 `json:"registrations_ok"`
	RegistrationsRefused     uint64 `json:"registrations_refused"`
	RegistrationsUnreachable uint64 `json:"registrations_unreachable"`
	AllocationsOK            uint64 `json:"allocations_ok"`
	AllocationsRefused       uint64 `json:"allocations_refused"`
}

// Report says what is true now. It may be called concurrently.
func (r *Relay) Report() Report {
	cfg, _ := r.src.Config.Get()
	disc, _ := r.src.Discovery.Get()
	kubelet, _ := r.src.Kubelet.Kubelet()

	rep := Report{
		Version: version.String(),
		Config:  ConfigReport{Hash: cfg.Config.Hash, LoadedAt: cfg.LoadedAt, Problem: cfg.Problem, Warnings: cfg.Config.Warnings},
		Discovery: DiscoveryReport{
			Connected: disc.Connected, Problem: disc.Problem, Rejected: disc.Rejected,
			DaemonVersion: disc.Status.GetDaemonVersion(),
			InstanceID:    disc.Snapshot.GetInstanceId(),
			Generation:    disc.Snapshot.GetGeneration(),
			AgeSeconds:    disc.Age().Seconds(),
			ScanSeconds:   disc.Status.GetScanDuration().AsDuration().Seconds(),
			NetnsMode:     netnsMode(disc.Snapshot.GetNode().GetNetnsMode()),
		},
		Kubelet: KubeletReport{Dir: r.src.Kubelet.Path(), Watched: r.src.Kubelet.Watched(),
			Present: kubelet.Present(), Deleted: r.src.Kubelet.Deleted()},
		Node:      node(r.opts.NodeName, disc.Snapshot.GetNode()),
		Resources: []ResourceReport{},
		Changes:   r.journal.list(),
		Snapshot:  disc.Snapshot,
	}
	rep.Discovery.Devices = rdmaDevices(disc.Snapshot)
	for _, reason := range disc.Snapshot.GetNode().GetReasons() {
		rep.Discovery.NodeReasons = append(rep.Discovery.NodeReasons, reason.GetMessage())
	}
	r.mu.Lock()
	rep.Discovery.Stale = r.stale
	for _, name := range r.order {
		rep.Resources = append(rep.Resources, r.serving[name].report())
	}
	r.mu.Unlock()
	rep.Missing = rep.missing(len(cfg.Config.Resources))
	if len(rep.Resources) == 0 {
		for i := range cfg.Config.Resources {
			rep.Resources = append(rep.Resources, ResourceReport{Name: cfg.Config.Resources[i].Name(), Waiting: true})
		}
	}
	rep.Problems = rep.problems()
	for i := range rep.Resources {
		rep.Resources[i].Why = rep.Resources[i].why(&rep.Discovery)
	}
	rep.Ready = len(rep.Missing) == 0
	return rep
}

func (s *served) report() ResourceReport {
	c := count(s.now)
	state, _ := s.keeper.State()
	return ResourceReport{
		Name: s.now.Name, Devices: c.Devices, Healthy: c.Healthy, HealthyHCAs: c.HealthyHCAs,
		HCAs: s.now.HCAs, LeftOut: s.now.LeftOut, Shared: s.now.Shared, Taken: s.now.Taken, Hints: s.now.Hints,
		Registered: state.Registered, Session: state.Session, Since: state.Since, Problem: state.Problem,
		Counters: Counters{
			Sessions:                 s.stats.Sessions.Load(),
			Superseded:               s.stats.Superseded.Load(),
			Lists:                    s.stats.Lists.Load(),
			RegistrationsOK:          s.keeper.Stats.OK.Load(),
			RegistrationsRefused:     s.keeper.Stats.Refused.Load(),
			RegistrationsUnreachable: s.keeper.Stats.Unreachable.Load(),
			AllocationsOK:            s.stats.AllocationsOK.Load(),
			AllocationsRefused:       s.stats.AllocationsRefused.Load(),
		},
	}
}

// missing lists what keeps this program from being ready.
func (rep *Report) missing(configured int) (list []string) {
	switch {
	case rep.Snapshot == nil:
		return []string{"no snapshot from discoveryd yet: " + rep.Discovery.Problem}
	case len(rep.Resources) == 0 && configured > 0:
		return []string{"the resources are not served yet"}
	}
	for _, res := range rep.Resources {
		if !res.Session {
			list = append(list, fmt.Sprintf("resource %s has no session with kubelet: %s", res.Name, res.Problem))
		}
	}
	return list
}

func netnsMode(m discoveryv1.NetnsMode) string {
	switch m {
	case discoveryv1.NetnsMode_NETNS_MODE_SHARED:
		return "shared"
	case discoveryv1.NetnsMode_NETNS_MODE_EXCLUSIVE:
		return "exclusive"
	}
	return "unknown"
}
