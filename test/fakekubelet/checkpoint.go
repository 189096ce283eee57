// SPDX-License-Identifier: Apache-2.0

package fakekubelet

// This file holds the checkpoint: what one kubelet process leaves to the next. It lies in the plugins' directory, and is replaced there at each
// list that arrives, so a plugin that watches the directory sees the same stir as beside a real kubelet.

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// checkpointName is kubeletDeviceManagerCheckpoint of devicemanager/types.go.
const checkpointName = "kubelet_internal_checkpoint"

// podDevices has the grants of each pod by its UID.
type podDevices map[string][]Grant

// byResource returns all IDs that pods hold, sorted.
func (p podDevices) byResource() map[string][]string {
	ids := map[string][]string{}
	for _, grants := range p {
		for _, g := range grants {
			ids[g.Resource] = append(ids[g.Resource], g.DeviceIDs...)
		}
	}
	for _, held := range ids {
		slices.Sort(held)
	}
	return ids
}

// checkpoint is the file's content. The real one also has the IDs of each resource, which kubelet never reads back, and a checksum.
type checkpoint struct {
	Pods      podDevices
	Resources []string
}

// saveCheckpoint writes what the process knows now; nothing when it is not the node's kubelet any more.
func (k *Kubelet) saveCheckpoint(p *process) error {
	k.saving.Lock()
	defer k.saving.Unlock()
	k.mu.Lock()
	if k.current != p {
		k.mu.Unlock()
		return nil
	}
	data, err := json.Marshal(checkpoint{Pods: k.pods, Resources: sortedKeys(p.books.healthy)})
	k.mu.Unlock()
	if err != nil {
		return fmt.Errorf("write checkpoint: %w", err)
	}
	tmp := filepath.Join(k.dir, "."+checkpointName)
	if err := os.WriteFile(tmp, data, 0o600); err != nil {
		return fmt.Errorf("write checkpoint: %w", err)
	}
	if err := os.Rename(tmp, filepath.Join(k.dir, checkpointName)); err != nil {
		return fmt.Errorf("write checkpoint: %w", err)
	}
	return nil
}

// loadCheckpoint makes the file's pods the node's and returns the names of the resources that were registered. Without a
// file, or with a bad one, no pod holds anything.
func (k *Kubelet) loadCheckpoint() (registered []string, err error) {
	var c checkpoint
	data, err := os.ReadFile(filepath.Join(k.dir, checkpointName))
	if err == nil {
		err = json.Unmarshal(data, &c)
	}
	if err != nil {
		c = checkpoint{}
	}
	k.update(func() {
		k.pods = c.Pods
		if k.pods == nil {
			k.pods = podDevices{}
		}
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read checkpoint: %w", err)
	}
	return c.Resources, nil
}
