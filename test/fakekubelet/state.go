// SPDX-License-Identifier: Apache-2.0

package fakekubelet

// This file holds what a test may know: the snapshot of the node and questions to it.

import (
	"fmt"
	"slices"
	"strings"
	"time"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// State is the node at one moment. It does not change any more; slices and maps are shared between States and must not be written to.
type State struct {
	// Running tells whether a kubelet runs and has bound kubelet.sock.
	Running bool
	// Boot is the number of the running kubelet process, counted from 1 by Start; 0 when none runs.
	Boot int
	// Binds has every bind of kubelet.sock in order. The last one is the generation that a plugin sees.
	Binds []Bind
	// Resources has every resource that the node status has ever shown. Without a kubelet, and for those that have run out, the numbers are 0.
	Resources map[string]Resource
	// Sessions has every ListAndWatch call in order of opening; Sessions[i].Number is i+1.
	Sessions []Session
	// Registrations has every Register call in order of arrival, those under way and refused included.
	Registrations []Registration
	// Responses has every message of every ListAndWatch call in order of arrival.
	Responses []Response
	// Allocated has the device IDs that pods hold, sorted, by resource. They survive kubelet by the checkpoint file.
	Allocated map[string][]string
}

// Bind is one binding of kubelet.sock, made by a start or by Rebind: what a plugin sees as a kubelet generation.
type Bind struct {
	Number int // from 1
	Boot   int // the kubelet process
	At     time.Time
}

// Resource is a resource as kubelet reports it to the node status.
type Resource struct {
	// Capacity counts all devices, Allocatable the healthy ones.
	Capacity, Allocatable int
	// Stopped tells that Allocate would fail because the current endpoint is stopped, whatever the numbers say.
	Stopped bool
	// Endpoint is the socket path that Allocate goes to; empty when there is none.
	Endpoint string
	// Devices is the list that was received last, as it was sent. After the end of a session it still says what the plugin said;
	// kubelet's own judgement is in Healthy and Unhealthy.
	Devices []Device
	// Healthy and Unhealthy are the IDs that kubelet counts, sorted.
	Healthy, Unhealthy []string
}

// Device is one device of a list.
type Device struct {
	ID        string
	Health    string // as sent: "Healthy" or anything else
	NUMANodes []int64
}

// Healthy tells whether kubelet takes the device for healthy.
func (d Device) Healthy() bool { return d.Health == pluginapi.Healthy }

func (d Device) equal(o Device) bool {
	return d.ID == o.ID && d.Health == o.Health && slices.Equal(d.NUMANodes, o.NUMANodes)
}

// Session is one ListAndWatch call.
type Session struct {
	Number   int    // from 1, in order of opening over the whole life of the node
	Resource string // as registered
	Endpoint string // path of the plugin's socket
	Boot     int    // the kubelet process that called
	Opened   time.Time
	// PluginEnded is when the plugin's end of the stream or connection was seen on the wire, also in a Blackhole. It stays zero when
	// kubelet ended the call first.
	PluginEnded time.Time
	// Ended is when kubelet noticed the end, and Err is why.
	Ended time.Time
	Err   error
	// Reaped is when kubelet had done all that it does about the end; a Register before that may meet the races of its book-keeping.
	Reaped time.Time
	// Responses counts the messages.
	Responses int
	// Blackholed tells that the stream is not read at the moment.
	Blackholed bool
}

// Live tells that neither side has ended the call.
func (s Session) Live() bool { return s.Ended.IsZero() && s.PluginEnded.IsZero() }

// Registration is one Register call, or one try of the watcher route to register a socket.
type Registration struct {
	// Watcher tells that kubelet came by the watcher route. Then Endpoint is the socket's path, Resource is empty until GetInfo is answered, and
	// Bind says only when it was.
	Watcher                     bool
	Resource, Endpoint, Version string
	Boot, Bind                  int // the kubelet process and the kubelet.sock that it came through
	At                          time.Time
	Answered                    time.Time // zero while it is under way
	Err                         error     // what the plugin was told, nil when accepted
}

// Accepted tells that the call was answered without an error.
func (r Registration) Accepted() bool { return !r.Answered.IsZero() && r.Err == nil }

// Refused tells that the call was answered with an error.
func (r Registration) Refused() bool { return r.Err != nil }

// Response is one received list.
type Response struct {
	Session  int // Session.Number
	Resource string
	Boot     int
	At       time.Time
	Devices  []Device
}

// Healthy counts the healthy devices of the list.
func (r Response) Healthy() int {
	n := 0
	for _, d := range r.Devices {
		if d.Healthy() {
			n++
		}
	}
	return n
}

// Capacity returns the resource's capacity, 0 for an unknown one.
func (s State) Capacity(resource string) int { return s.Resources[resource].Capacity }

// Allocatable returns how many devices of the resource are healthy, 0 for an unknown one.
func (s State) Allocatable(resource string) int { return s.Resources[resource].Allocatable }

// Bind returns the number of the newest bind of kubelet.sock, 0 before the first.
func (s State) Bind() int { return len(s.Binds) }

// SessionsOf returns the resource's sessions, ended ones included.
func (s State) SessionsOf(resource string) []Session {
	return filter(s.Sessions, func(x Session) bool { return x.Resource == resource })
}

// LiveSessions returns the resource's sessions that nobody has ended, those with superseded kubelets included.
func (s State) LiveSessions(resource string) []Session {
	return filter(s.Sessions, func(x Session) bool { return x.Resource == resource && x.Live() })
}

// RegistrationsOf returns the resource's Register calls.
func (s State) RegistrationsOf(resource string) []Registration {
	return filter(s.Registrations, func(x Registration) bool { return x.Resource == resource })
}

// RegistrationsAt returns the resource's Register calls through one bind of kubelet.sock.
func (s State) RegistrationsAt(resource string, bind int) []Registration {
	return filter(s.Registrations, func(x Registration) bool { return x.Resource == resource && x.Bind == bind })
}

// ResponsesOf returns the lists received for the resource.
func (s State) ResponsesOf(resource string) []Response {
	return filter(s.Responses, func(x Response) bool { return x.Resource == resource })
}

// ResponsesIn returns the lists received in one session.
func (s State) ResponsesIn(session int) []Response {
	return filter(s.Responses, func(x Response) bool { return x.Session == session })
}

func filter[T any](all []T, keep func(T) bool) []T {
	var kept []T
	for _, x := range all {
		if keep(x) {
			kept = append(kept, x)
		}
	}
	return kept
}

// String tells the state in a few lines, for the message of a test that waited in vain.
func (s State) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "running=%t boot=%d bind=%d", s.Running, s.Boot, s.Bind())
	for _, name := range sortedKeys(s.Resources) {
		r := s.Resources[name]
		fmt.Fprintf(&b, "\n%s: capacity=%d allocatable=%d stopped=%t endpoint=%q", name, r.Capacity, r.Allocatable, r.Stopped, r.Endpoint)
	}
	const newest = 12
	for _, r := range s.Registrations[max(0, len(s.Registrations)-newest):] {
		fmt.Fprintf(&b, "\nregister %s at %q bind=%d answered=%t error=%v", r.Resource, r.Endpoint, r.Bind, !r.Answered.IsZero(), r.Err)
	}
	for _, x := range s.Sessions[max(0, len(s.Sessions)-newest):] {
		fmt.Fprintf(&b, "\nsession %d of %s at %q boot=%d responses=%d live=%t error=%v", x.Number, x.Resource, x.Endpoint, x.Boot, x.Responses, x.Live(), x.Err)
	}
	return b.String()
}
