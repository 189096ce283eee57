// Picking modules and tools out of unpacked packages.
//
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/rdma-relay/rdma-relay/test/vm/kmod"
)

// addModules adds the recipe's modules and all that they need.
func (r recipe) addModules(ctx context.Context, archive *Archive, dir string) error {
	packed := map[string]string{} // module → file
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if name, _, ok := strings.Cut(filepath.Base(path), ".ko"); ok {
			packed[strings.ReplaceAll(name, "-", "_")] = path
		}
		return err
	})
	if err != nil {
		return err
	}
	plain := filepath.Join(dir, "plain")
	if err := os.Mkdir(plain, 0o755); err != nil {
		return err
	}
	find := func(name string) (string, error) {
		if packed[name] == "" {
			return "", fmt.Errorf("the kernel has no module %s", name)
		}
		return uncompressed(ctx, packed[name], kmod.Path(plain, name))
	}
	wanted := r.modules
	for _, name := range r.optional {
		if packed[name] != "" {
			wanted = append(wanted, name)
		}
	}
	order, err := kmod.Order(find, wanted...)
	if err != nil {
		return err
	}
	for _, name := range order {
		archive.Copy(kmod.Path(kmod.Dir, name), 0o644, kmod.Path(plain, name))
	}
	return nil
}

func uncompressed(ctx context.Context, from, to string) (string, error) {
	if _, err := os.Stat(to); err == nil {
		return to, nil
	}
	if strings.HasSuffix(from, ".ko") {
		return to, os.Rename(from, to)
	}
	if out, err := run(ctx, ".", "xz", "-d", from); err != nil {
		return "", fmt.Errorf("xz -d %s: %w\n%s", from, err, out)
	}
	return to, os.Rename(strings.TrimSuffix(from, ".xz"), to)
}

// addTools adds programs with their libraries, and other files.
func (r recipe) addTools(archive *Archive, root string) error {
	var names []string
	for _, f := range r.files {
		err := filepath.WalkDir(filepath.Join(root, f), func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				names = append(names, strings.TrimPrefix(path, root+"/"))
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	names = append(names, r.tools...)
	added := map[string]bool{}
	for i := 0; i < len(names); i++ { // grows while libraries are found
		if added[names[i]] {
			continue
		}
		added[names[i]] = true
		file, err := inside(root, names[i])
		if err != nil {
			return err
		}
		archive.Copy("/"+names[i], 0o755, file)
		needed, err := libraries(root, file)
		if err != nil {
			return err
		}
		names = append(names, needed...)
	}
	return nil
}

// libraries are the shared libraries of a program, below root. What is no program has none.
func libraries(root, file string) ([]string, error) {
	f, err := elf.Open(file)
	if err != nil {
		return nil, nil // a text file
	}
	defer f.Close()
	var names []string
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			path := make([]byte, p.Filesz)
			if _, err := p.ReadAt(path, 0); err != nil {
				return nil, err
			}
			names = append(names, strings.Trim(string(path), "/\x00"))
		}
	}
	needed, err := f.ImportedLibraries()
	if err != nil {
		return nil, err
	}
	for _, lib := range needed {
		name, err := findLibrary(root, lib)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		names = append(names, name)
	}
	return names, nil
}

func findLibrary(root, lib string) (string, error) {
	for _, dir := range []string{"lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu", "lib64"} {
		if _, err := os.Lstat(filepath.Join(root, dir, lib)); err == nil {
			return filepath.Join(dir, lib), nil
		}
	}
	return "", fmt.Errorf("library %s: %w", lib, os.ErrNotExist)
}

// inside follows the links of a name to a file, all taken as below root.
func inside(root, name string) (string, error) {
	for range 10 {
		path := filepath.Join(root, name)
		target, err := os.Readlink(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return "", err
		case err != nil:
			return path, nil //nolint:nilerr // no link
		case filepath.IsAbs(target):
			name = target
		default:
			name = filepath.Join(filepath.Dir(name), target)
		}
	}
	return "", fmt.Errorf("too many links at %s", name)
}
