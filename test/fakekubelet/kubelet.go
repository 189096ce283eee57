// SPDX-License-Identifier: Apache-2.0

package fakekubelet

// This file holds the node that outlives its kubelet processes, its settings and its end.

import (
	"errors"
	"log/slog"
	"path/filepath"
	"sync"
	"time"
)

// Bookkeeping says by which key kubelet remembers a plugin.
type Bookkeeping int

const (
	// ByPath is kubelet 1.37: resource name and socket path (endpointStore in devicemanager/manager.go).
	ByPath Bookkeeping = iota
	// ByName is kubelet 1.36 and older: the resource name alone.
	ByName
)

// String returns the name of the constant.
func (b Bookkeeping) String() string {
	if b == ByName {
		return "ByName"
	}
	return "ByPath"
}

const (
	// DefaultDialTimeout is how long kubelet tries to reach a plugin inside Register (plugin/v1beta1/client.go, dial).
	DefaultDialTimeout = 10 * time.Second
	// DefaultStopGrace is how long a resource without a plugin keeps its capacity (devicemanager/types.go, endpointStopGracePeriod).
	DefaultStopGrace = 5 * time.Minute
	// DefaultReconcilePeriod is the loop of the plugin manager (pluginmanager/plugin_manager.go, loopSleepDuration).
	DefaultReconcilePeriod = time.Second

	socketName = "kubelet.sock"
)

// ErrClosed is returned by every method that is called after Close.
var ErrClosed = errors.New("fake kubelet is closed")

// ErrNotRunning is returned by verbs that need a running kubelet.
var ErrNotRunning = errors.New("fake kubelet is not running")

// ErrRunning is returned by verbs that need a stopped kubelet.
var ErrRunning = errors.New("fake kubelet is running")

// Options are the settings of a Kubelet. The zero value is a kubelet 1.37 with the real times.
type Options struct {
	// Bookkeeping is the kubelet version to follow; the zero value is ByPath.
	Bookkeeping Bookkeeping
	// DialTimeout bounds the dial-back inside Register; 0 means DefaultDialTimeout. A test that wants one dial-back to fail soon is
	// steadier with SetDialTimeout before that one.
	DialTimeout time.Duration
	// StopGrace is the time from the loss of a plugin to capacity 0; 0 means DefaultStopGrace.
	StopGrace time.Duration
	// PluginsRegistry is the directory of the watcher route; empty means that kubelet watches none. Start makes it (mode 0755) and wipes
	// nothing in it.
	PluginsRegistry string
	// ReconcilePeriod is how often the watcher route compares sockets and registrations; 0 means DefaultReconcilePeriod. The rest after a failed
	// registration shrinks with it.
	ReconcilePeriod time.Duration
	// Logger hears of each registration, session and list at level Debug; nil means silence.
	Logger *slog.Logger
}

// Kubelet is a node: a device-plugins directory, the kubelet that runs on it or does not, and the record of all that happened.
type Kubelet struct {
	dir  string
	opts Options
	log  *slog.Logger

	// verbs lets one verb that starts or ends processes, or changes the directory, run at a time. Taken before mu.
	verbs sync.Mutex
	// saving lets one checkpoint be written at a time. Never held together with mu, except to copy what is written.
	saving sync.Mutex

	// mu guards all below and the fields of processes, clients and sessions. Nothing blocks while it is held.
	mu            sync.Mutex
	changed       chan struct{} // closed and replaced at each change
	cached        *State        // snapshot of the present state, nil after a change
	closed        bool
	current       *process   // the kubelet that runs; nil when none does
	superseded    []*process // ends of RestartReversed or Replace that are still due
	boots         int
	binds         []Bind
	sessions      []*session
	registrations []*Registration
	responses     []Response
	lastList      map[string][]Device // newest list for each resource, so that equal lists share memory
	nodeStatus    map[string]struct{} // every resource that the node status has ever shown
	pods          podDevices
	reserved      map[string]map[string]struct{} // resource → IDs of Allocate calls under way
	faults        faults
}

// New returns a node over dir whose kubelet has not started yet. It touches no file; Start makes the directory. The path of
// dir/kubelet.sock must fit in 107 bytes. The caller ends it with Close.
func New(dir string, opts Options) *Kubelet {
	if opts.DialTimeout <= 0 {
		opts.DialTimeout = DefaultDialTimeout
	}
	if opts.StopGrace == 0 {
		opts.StopGrace = DefaultStopGrace
	}
	if opts.ReconcilePeriod == 0 {
		opts.ReconcilePeriod = DefaultReconcilePeriod
	}
	log := opts.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Kubelet{
		dir:        dir,
		opts:       opts,
		log:        log,
		changed:    make(chan struct{}),
		lastList:   map[string][]Device{},
		nodeStatus: map[string]struct{}{},
		pods:       podDevices{},
		faults:     faults{dialTimeout: opts.DialTimeout},
		reserved:   map[string]map[string]struct{}{},
	}
}

// Dir returns the device-plugins directory.
func (k *Kubelet) Dir() string { return k.dir }

// SocketPath returns the path of kubelet.sock, which need not exist.
func (k *Kubelet) SocketPath() string { return filepath.Join(k.dir, socketName) }

// Close ends every kubelet process, removes kubelet.sock if one of them still serves it, and returns when all goroutines are gone.
// Waiters get ErrClosed. A second call does nothing.
func (k *Kubelet) Close() error {
	k.verbs.Lock()
	defer k.verbs.Unlock()

	k.mu.Lock()
	if k.closed {
		k.mu.Unlock()
		return nil
	}
	k.mu.Unlock()

	var err error
	if p := k.running(); p != nil {
		err = p.stop()
	}
	k.endSuperseded()
	k.update(func() { k.closed = true })
	return err
}

// running returns the kubelet process of the moment, nil when there is none.
func (k *Kubelet) running() *process {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.current
}

// usable tells whether verbs may still run; the caller holds verbs.
func (k *Kubelet) usable() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return ErrClosed
	}
	return nil
}
