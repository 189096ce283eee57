// The network devices of the name space that the daemon runs in, and whether these
// are the host's.
//
// SPDX-License-Identifier: Apache-2.0

package notice

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"syscall"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/rdma-relay/rdma-relay/discoveryd/internal/sysfs"
)

// Links is the source of changes of network devices (rtnetlink). It needs no
// capability. The kernel tells of one network name space only, and it is not asked
// about another.
type Links struct {
	// Sys is the host's sysfs. It shows the name space in which it was mounted.
	Sys string
	Log *slog.Logger

	buffer int // of the socket, in tests

	mu    sync.Mutex
	up    bool // the table is complete, and kept up to date
	table table
	space space
	again bool // the table has changed since space was found out
	said  bool
}

// space tells whose name space it is.
type space int

const (
	unknownSpace space = iota // there is nothing to compare yet
	hostSpace                 // which a process can't leave unnoticed
	otherSpace
)

// Name implements Source.
func (*Links) Name() string { return "rtnetlink" }

// Run implements Source.
func (l *Links) Run(ctx context.Context, n *Notice, listening func()) error {
	s, err := listen(ctx, unix.NETLINK_ROUTE, unix.RTNLGRP_LINK, l.buffer)
	if err != nil {
		return err
	}
	defer s.close()
	l.mu.Lock()
	l.table = table{}
	l.mu.Unlock()
	defer l.setUp(false)
	request := nl.NewNetlinkRequest(unix.RTM_GETLINK, unix.NLM_F_DUMP)
	request.AddData(nl.NewIfInfomsg(unix.AF_UNSPEC))
	if err := s.send(request.Serialize()); err != nil {
		return err
	}
	listed := false
	for {
		message, err := s.receive()
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, errLost):
			// What was lost may be what makes the next message a change.
			l.mu.Lock()
			l.table.doubt()
			l.mu.Unlock()
			n.Event()
			continue
		case err != nil:
			return err
		}
		changed, done, err := l.take(message)
		if err != nil {
			return err
		}
		if done && !listed {
			listed = true
			l.setUp(true)
			l.Heard()
			listening()
		} else if listed && len(changed) > 0 {
			n.Links(changed...)
		}
	}
}

func (l *Links) setUp(up bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.up = up
}

// take brings the table up to date. It returns the names of the devices that have
// changed, and whether the list that was asked for has ended.
func (l *Links) take(message []byte) (changed []string, done bool, err error) {
	parts, err := syscall.ParseNetlinkMessage(message)
	if err != nil {
		return nil, false, fmt.Errorf("parse netlink message: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range parts {
		switch m.Header.Type {
		case unix.NLMSG_DONE:
			done = true
		case unix.NLMSG_ERROR:
			if len(m.Data) >= 4 {
				if code := int32(nl.NativeEndian().Uint32(m.Data)); code != 0 {
					return nil, false, fmt.Errorf("list network devices: %w", unix.Errno(-code))
				}
			}
		case unix.RTM_NEWLINK, unix.RTM_DELLINK:
			changed = append(changed, l.table.take(m.Header.Type == unix.RTM_DELLINK, m.Data)...)
		}
	}
	l.again = l.again || len(changed) > 0
	return changed, done, nil
}

// Heard tells whether every change of the host's network devices is heard: the
// source works, and runs in the name space that Sys shows.
func (l *Links) Heard() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.up {
		return false
	}
	if l.space == unknownSpace || l.space == otherSpace && l.again {
		l.space, l.again = l.table.spaceOf(l.Sys), false
		if l.space == otherSpace && !l.said {
			l.said = true
			l.Log.Info("the host's link changes are not heard, and carriers are read every second instead: this is not the host's network name space",
				"known_by", "none of its network devices is in "+l.Sys+"/class/net", "remedy", "hostNetwork, if a second is too long")
		}
	}
	return l.space == hostSpace
}

// spaceOf compares with the network devices that the sysfs at sys shows. One device
// that is the same in everything that tells it apart is proof enough.
func (t table) spaceOf(sys string) space {
	root, err := sysfs.Open(sys)
	if err != nil {
		return unknownSpace
	}
	defer root.Close()
	for index, l := range t {
		if l.unique(index) && shown(root, index, l) {
			return hostSpace
		}
	}
	names, _ := root.Names("class/net")
	for _, name := range names {
		// The loopback device is the same everywhere, and the other one is a file.
		if name != "lo" && name != "bonding_masters" {
			return otherSpace
		}
	}
	return unknownSpace
}

// shown tells whether the sysfs has this very device.
func shown(root *sysfs.Root, index uint32, l link) bool {
	dir, err := root.Resolve("class/net/" + l.name)
	if err != nil {
		return false
	}
	for name, want := range map[string]string{
		"ifindex": strconv.FormatUint(uint64(index), 10),
		"iflink":  strconv.FormatUint(uint64(l.lowerOr(index)), 10),
		"address": l.address,
	} {
		if text, err := root.Text(dir + "/" + name); err != nil || text != want {
			return false
		}
	}
	return true
}
