// Package kmod knows which kernel modules a module needs, from the module files
// themselves. The machine that makes the image uses it to choose the files, and the
// guest to load them, so neither needs the kmod tools.
//
// SPDX-License-Identifier: Apache-2.0
package kmod

import (
	"debug/elf"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// Dir is where the guest has its modules, uncompressed and without sub-directories.
const Dir = "/lib/modules"

// Path is the file of a module below a directory. Module names have underscores
// where file names may have dashes; here both have underscores.
func Path(dir, name string) string {
	return filepath.Join(dir, strings.ReplaceAll(name, "-", "_")+".ko")
}

// Depends returns the modules that a module file names as needed: its modinfo field
// "depends" (scripts/mod/modpost.c in the kernel).
func Depends(file string) ([]string, error) {
	f, err := elf.Open(file)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	defer f.Close()
	section := f.Section(".modinfo")
	if section == nil {
		return nil, fmt.Errorf("read %s: no .modinfo section", file)
	}
	info, err := section.Data()
	if err != nil {
		return nil, fmt.Errorf("read .modinfo of %s: %w", file, err)
	}
	for field := range strings.SplitSeq(string(info), "\x00") {
		if names, ok := strings.CutPrefix(field, "depends="); ok && names != "" {
			return strings.Split(names, ","), nil
		}
	}
	return nil, nil
}

// Order returns the given modules and all that they need, each after what it needs
// itself. find gives the file of a module.
func Order(find func(name string) (string, error), names ...string) ([]string, error) {
	var order []string
	for _, name := range names {
		name = strings.ReplaceAll(name, "-", "_")
		if slices.Contains(order, name) {
			continue
		}
		file, err := find(name)
		if err != nil {
			return nil, err
		}
		needed, err := Depends(file)
		if err != nil {
			return nil, err
		}
		first, err := Order(find, needed...)
		if err != nil {
			return nil, err
		}
		for _, n := range append(first, name) {
			if !slices.Contains(order, n) {
				order = append(order, n)
			}
		}
	}
	return order, nil
}
