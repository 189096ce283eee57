// The cgroup below which kubelet keeps its pods' groups: made and removed by us, in
// each hierarchy (cgroup v1, cgroups(7)) or in the one (v2).
//
// SPDX-License-Identifier: Apache-2.0

//go:build cluster

package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const cgroups = "/sys/fs/cgroup"

// cgroupDirs are the places of the group with that name.
func cgroupDirs(name string) ([]string, error) {
	if _, err := os.Stat(filepath.Join(cgroups, "cgroup.controllers")); err == nil {
		return []string{filepath.Join(cgroups, name)}, nil
	}
	entries, err := os.ReadDir(cgroups)
	if err != nil {
		return nil, err
	}
	var dirs []string
	for _, e := range entries {
		if e.IsDir() {
			dirs = append(dirs, filepath.Join(cgroups, e.Name(), name))
		}
	}
	return dirs, nil
}

func makeCgroup(name string) error {
	dirs, err := cgroupDirs(name)
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return fmt.Errorf("make cgroup: %w", err)
		}
		// In v1 a new group of cpuset has neither CPUs nor memory nodes; in v2 the
		// files take their default from above, and these are harmless.
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			parent, err := os.ReadFile(filepath.Join(filepath.Dir(dir), file))
			if err != nil {
				continue
			}
			if err := os.WriteFile(filepath.Join(dir, file), parent, 0o644); err != nil {
				return fmt.Errorf("make cgroup: %w", err)
			}
		}
	}
	return nil
}

// removeCgroup removes the group and those below it; all their processes have ended.
// The kernel may need a moment to notice.
func removeCgroup(name string) error {
	dirs, err := cgroupDirs(name)
	if err != nil {
		return err
	}
	var errs []error
	for _, dir := range dirs {
		deadline := time.Now().Add(10 * time.Second)
		for {
			err := removeTree(dir)
			if err == nil {
				break
			}
			if time.Now().After(deadline) {
				errs = append(errs, fmt.Errorf("remove cgroup: %w", err))
				break
			}
			<-time.After(50 * time.Millisecond)
		}
	}
	return errors.Join(errs...)
}

// removeTree removes directories only: the files of a cgroup go with it.
func removeTree(root string) error {
	var dirs []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}
	slices.SortFunc(dirs, func(a, b string) int { return strings.Count(b, "/") - strings.Count(a, "/") })
	for _, dir := range dirs {
		if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
