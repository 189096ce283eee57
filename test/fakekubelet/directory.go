// SPDX-License-Identifier: Apache-2.0

package fakekubelet

// This file holds the faults of the device-plugins directory and the files in it.

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
)

// RecreateDirectory removes the directory with all that is in it, the checkpoint included, and makes an empty one of the same name. A running
// kubelet keeps its sessions but nobody can reach it before Rebind or a restart.
func (k *Kubelet) RecreateDirectory() error {
	if err := k.RemoveDirectory(); err != nil {
		return err
	}
	k.verbs.Lock()
	defer k.verbs.Unlock()
	if err := os.MkdirAll(k.dir, 0o750); err != nil {
		return fmt.Errorf("recreate directory: %w", err)
	}
	return nil
}

// RemoveDirectory removes the directory with all that is in it.
func (k *Kubelet) RemoveDirectory() error {
	k.verbs.Lock()
	defer k.verbs.Unlock()
	if err := k.usable(); err != nil {
		return err
	}
	if err := removeAll(k.dir); err != nil {
		return fmt.Errorf("remove directory: %w", err)
	}
	return nil
}

// removeAll is os.RemoveAll of a directory in which a plugin may be making a socket just now.
func removeAll(dir string) (err error) {
	for range 100 {
		if err = os.RemoveAll(dir); !errors.Is(err, syscall.ENOTEMPTY) {
			return err
		}
	}
	return err
}

// CleanDirectory removes everything in the directory, kubelet.sock and checkpoint included, and leaves the directory itself. A running
// kubelet keeps its sessions.
func (k *Kubelet) CleanDirectory() error {
	return k.removeFiles(func(string) bool { return true })
}

// RemovePluginSockets removes every socket except kubelet.sock. Sessions go on.
func (k *Kubelet) RemovePluginSockets() error {
	return k.removeFiles(func(path string) bool {
		info, err := os.Stat(path)
		return err == nil && info.Mode()&os.ModeSocket != 0 && path != k.SocketPath()
	})
}

func (k *Kubelet) removeFiles(which func(path string) bool) error {
	k.verbs.Lock()
	defer k.verbs.Unlock()
	if err := k.usable(); err != nil {
		return err
	}
	entries, err := os.ReadDir(k.dir)
	if err != nil {
		return fmt.Errorf("clean directory: %w", err)
	}
	for _, e := range entries {
		path := filepath.Join(k.dir, e.Name())
		if !which(path) {
			continue
		}
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("clean directory: %w", err)
		}
	}
	return nil
}

// StaleSocket leaves a kubelet.sock that nobody listens on, as a killed kubelet does, and makes the directory where it is missing. ErrRunning
// while a kubelet runs.
func (k *Kubelet) StaleSocket() error {
	k.verbs.Lock()
	defer k.verbs.Unlock()
	if err := k.usable(); err != nil {
		return err
	}
	if k.running() != nil {
		return ErrRunning
	}
	if err := os.MkdirAll(k.dir, 0o750); err != nil {
		return fmt.Errorf("make device-plugins directory: %w", err)
	}
	if err := removeIfThere(k.SocketPath()); err != nil {
		return err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: k.SocketPath(), Net: "unix"})
	if err != nil {
		return fmt.Errorf("make stale kubelet.sock: %w", err)
	}
	l.SetUnlinkOnClose(false)
	return l.Close()
}
