// SPDX-License-Identifier: Apache-2.0

package fakekubelet

// This file holds the verbs that start and end kubelet processes.

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Start runs a kubelet: makes the directory (mode 0750), reads the checkpoint, wipes every socket in the directory and listens on
// kubelet.sock. It returns when Register calls are answered.
func (k *Kubelet) Start() error {
	k.verbs.Lock()
	defer k.verbs.Unlock()
	if err := k.usable(); err != nil {
		return err
	}
	if k.running() != nil {
		return ErrRunning
	}
	return k.start()
}

// Stop ends the kubelet gracefully, as devicemanager's Stop does: every stream and connection first, then the server; kubelet.sock is
// unlinked, the sockets of plugins stay. Does nothing when no kubelet runs.
func (k *Kubelet) Stop() error {
	k.verbs.Lock()
	defer k.verbs.Unlock()
	if err := k.usable(); err != nil {
		return err
	}
	if p := k.running(); p != nil {
		return p.stop()
	}
	return nil
}

// Kill ends the kubelet as SIGKILL does (and SIGTERM, which does not stop the device manager): every connection drops at once,
// kubelet.sock stays as a dead file beside the sockets of the plugins. Does nothing when no kubelet runs.
func (k *Kubelet) Kill() error {
	k.verbs.Lock()
	defer k.verbs.Unlock()
	if err := k.usable(); err != nil {
		return err
	}
	if p := k.running(); p != nil {
		p.kill()
	}
	return nil
}

// Restart is Stop and Start: streams end first, then the sockets go, then there is a new kubelet.sock. For the way a real node
// restarts its kubelet call Kill and then Start.
func (k *Kubelet) Restart() error {
	k.verbs.Lock()
	defer k.verbs.Unlock()
	if err := k.usable(); err != nil {
		return err
	}
	if p := k.running(); p != nil {
		if err := p.stop(); err != nil {
			return err
		}
	}
	return k.start()
}

// Replace starts a new kubelet while the connections of the old one live on: the sockets are wiped and kubelet.sock is made anew
// first, the old streams end when the caller calls endOld (or Close). Lists that still come on the old streams are recorded and otherwise lost.
func (k *Kubelet) Replace() (endOld func(), err error) {
	k.verbs.Lock()
	defer k.verbs.Unlock()
	if err := k.usable(); err != nil {
		return nil, err
	}
	old := k.running()
	if old == nil {
		return nil, ErrNotRunning
	}
	k.update(func() {
		k.current = nil
		k.superseded = append(k.superseded, old)
	})
	if old.unwatch != nil {
		old.unwatch()
	}
	endOld = func() {
		old.kill()
		k.update(func() {
			k.superseded = slices.DeleteFunc(k.superseded, func(p *process) bool { return p == old })
		})
	}
	if err := k.start(); err != nil {
		endOld()
		return nil, err
	}
	return endOld, nil
}

// RestartReversed restarts in the wrong order: sockets wiped and kubelet.sock made anew first, the old streams end gap later. It
// returns after that, or at once with the context's error, the old streams being ended in either case.
func (k *Kubelet) RestartReversed(ctx context.Context, gap time.Duration) error {
	endOld, err := k.Replace()
	if err != nil {
		return err
	}
	defer endOld()
	return pause(ctx, gap)
}

// Rebind unlinks kubelet.sock and binds it anew while the process, its books and all sessions go on. Connections that plugins made
// to the old socket still work.
func (k *Kubelet) Rebind() error {
	k.verbs.Lock()
	defer k.verbs.Unlock()
	if err := k.usable(); err != nil {
		return err
	}
	p := k.running()
	if p == nil {
		return ErrNotRunning
	}
	p.closeListener()
	if err := removeIfThere(k.SocketPath()); err != nil {
		return err
	}
	return p.bind()
}

// start runs a new process; the caller holds verbs and has seen that none runs.
func (k *Kubelet) start() error {
	if err := os.MkdirAll(k.dir, 0o750); err != nil {
		return fmt.Errorf("make device-plugins directory: %w", err)
	}
	names, err := k.loadCheckpoint()
	if err != nil {
		// Kubelet goes on without its checkpoint, too.
		k.log.Debug("checkpoint not read", "error", err)
	}
	if err := wipeSockets(k.dir); err != nil {
		return err
	}
	p := newProcess(k, names)
	if err := p.bind(); err != nil {
		p.kill()
		return err
	}
	p.spawn(p.sweep)
	if k.opts.PluginsRegistry == "" {
		return nil
	}
	if err := startWatcher(p, k.opts.PluginsRegistry); err != nil {
		p.kill()
		return err
	}
	return nil
}

// endSuperseded kills the processes that Replace has left over; the caller holds verbs.
func (k *Kubelet) endSuperseded() {
	k.mu.Lock()
	left := k.superseded
	k.superseded = nil
	k.mu.Unlock()
	for _, p := range left {
		p.kill()
	}
}

// wipeSockets removes every socket in dir and no other file, as CleanupPluginDirectory in devicemanager/manager.go does; like there a link
// to a socket counts as one.
func wipeSockets(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("wipe sockets: %w", err)
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		info, err := os.Stat(path)
		if err != nil || info.Mode()&os.ModeSocket == 0 {
			continue
		}
		if err := removeIfThere(path); err != nil {
			return err
		}
	}
	return nil
}

// pause waits for d or for the context's end, whose error it returns.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
