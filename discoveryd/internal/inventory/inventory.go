// Package inventory makes one snapshot of a host's RDMA devices out of its sysfs
// and /dev. It tells facts, and why a device is limited or unusable; what to do
// about it is decided elsewhere.
//
// One strange file or one hung driver spoils its own device only: each device is
// read by itself (device.go), by a reader that may be left hanging (reads.go).
//
// SPDX-License-Identifier: Apache-2.0
package inventory

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdma-relay/rdma-relay/discoveryd/internal/sysfs"
	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

// What a snapshot may hold. What is beyond is left out with REASON_CODE_TOO_MANY.
const (
	// MaxDevices is how many devices a snapshot holds, and MaxBytes about how big it
	// is when encoded. A reader that takes MaxBytes and half as much again is safe.
	MaxDevices = 4096
	MaxBytes   = 16 << 20

	maxPorts      = 256
	maxNetDevices = 1024
	maxUppers     = 256
	maxChars      = 4 * maxPorts
	maxName       = 255
)

// Defaults of Options.
const (
	DefaultDeadline = 5 * time.Second
	DefaultPatience = 250 * time.Millisecond
)

// Options are what a Scanner needs to know.
type Options struct {
	// Root is the directory with sys and dev below it; / on the host itself.
	Root string
	// Deadline is how long a device's driver has to answer before the device is
	// marked REASON_CODE_NOT_ANSWERING; 0 stands for DefaultDeadline.
	Deadline time.Duration
	// Patience is how long a scan waits for a device whose facts are known from an
	// earlier one; 0 stands for DefaultPatience. The facts stand meanwhile.
	Patience time.Duration
	// Due is called when a further scan would tell something new, although nothing
	// on the host has changed: a read that hung has returned, or is overdue now. It
	// must not block. nil is allowed.
	Due func()
	// NetnsMode asks the running kernel; nil stands for the RDMA netlink interface.
	// It is asked on a live host only.
	NetnsMode func() (discoveryv1.NetnsMode, error)
}

// Scanner reads the host. Scan and Poll are for one goroutine at a time; a
// Scanner remembers the last facts of each device for the case that it hangs.
type Scanner struct {
	opts Options

	hosts   reads[host]
	devices reads[*facts]

	last scanned // by the last scan, for looks at parts of it
	// polled are the devices of the last scan whose ports are worth a look.
	polled   []polled
	polls    int // how often that was done
	carriers reads[Stale]
}

var (
	// ErrNoHost is a root without a sys directory.
	ErrNoHost = errors.New("no host there")
	// ErrNotAnswering is a scan that ended without result since the host's own
	// directories could not be read in time.
	ErrNotAnswering = errors.New("host has not answered in time")
)

// New makes a Scanner, or returns ErrNoHost.
func New(opts Options) (*Scanner, error) {
	if opts.Deadline == 0 {
		opts.Deadline = DefaultDeadline
	}
	if opts.Patience == 0 {
		opts.Patience = DefaultPatience
	}
	if opts.Due == nil {
		opts.Due = func() {}
	}
	if opts.NetnsMode == nil {
		opts.NetnsMode = netnsMode
	}
	s := &Scanner{opts: opts}
	s.hosts.set(opts)
	s.hosts.patience = opts.Deadline // there is nothing that could stand for it
	s.devices.set(opts)
	s.carriers.set(opts)
	v, err := openView(opts.Root)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoHost, err)
	}
	v.release()
	return s, nil
}

// set takes over the times to wait.
func (r *reads[T]) set(opts Options) {
	r.patience, r.deadline, r.due = opts.Patience, opts.Deadline, opts.Due
}

// Live tells whether Root has the running kernel's sysfs, not a recorded tree.
func (s *Scanner) Live() (bool, error) {
	v, err := openView(s.opts.Root)
	if err != nil {
		return false, err
	}
	defer v.release()
	return v.live, nil
}

// view is the host's trees as opened for one scan. It is closed when the scan and
// all reads it has started are done, so that a late reader never meets another
// scan's descriptors.
type view struct {
	root   string
	sys    *sysfs.Root
	dev    *sysfs.Dir // dev/infiniband; nil where devErr says why
	devErr error
	live   bool
	refs   atomic.Int32

	pfs sync.Map // path of a physical function → *physical
}

func openView(root string) (*view, error) {
	sys, err := sysfs.Open(filepath.Join(root, "sys"))
	if err != nil {
		return nil, err
	}
	live, err := sys.Live()
	if err != nil {
		return nil, errors.Join(err, sys.Close())
	}
	v := &view{root: root, sys: sys, live: live}
	v.refs.Store(1)
	v.dev, v.devErr = openDev(filepath.Join(root, "dev"))
	if sysfs.Starving(v.devErr) {
		return nil, errors.Join(v.devErr, sys.Close())
	}
	return v, nil
}

func openDev(path string) (*sysfs.Dir, error) {
	root, err := sysfs.Open(path)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return root.OpenDir(devDir)
}

func (v *view) hold() { v.refs.Add(1) }

func (v *view) release() {
	if v.refs.Add(-1) > 0 {
		return
	}
	_ = v.sys.Close()
	if v.dev != nil {
		v.dev.Close()
	}
}

// kernelRelease names the kernel that the facts are of: the running one's for a live
// host, the recorded one's otherwise, if it was recorded.
func (v *view) kernelRelease() string {
	if v.live {
		var u unix.Utsname
		if unix.Uname(&u) != nil {
			return ""
		}
		return unix.ByteSliceToString(u.Release[:])
	}
	proc, err := sysfs.Open(filepath.Join(v.root, "proc"))
	if err != nil {
		return ""
	}
	defer proc.Close()
	dir, err := proc.OpenDir("sys/kernel")
	if err != nil {
		return ""
	}
	defer dir.Close()
	text, err := dir.Text("osrelease")
	if err != nil {
		return ""
	}
	return text
}

// parallel calls fn for 0 to n-1, several at a time: reads of sysfs cost the CPU,
// and those that hang cost a place until patience is over.
func parallel(n int, fn func(i int)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(n, max(16, 2*runtime.GOMAXPROCS(0))) {
		wg.Go(func() {
			for i := int(next.Add(1) - 1); i < n; i = int(next.Add(1) - 1) {
				fn(i)
			}
		})
	}
	wg.Wait()
}

// wrap names the scan in an error.
func wrap(err error) error { return fmt.Errorf("scan host: %w", err) }
