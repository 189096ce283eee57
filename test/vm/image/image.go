// Package image makes what a virtual machine with a real RDMA kernel boots from:
// Debian's kernel, and an initramfs with the modules and tools that the guest's tests
// need. Both come out of Debian packages, which are unpacked and never installed, and
// stay in a cache.
//
// SPDX-License-Identifier: Apache-2.0
package image

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// recipe is what goes into the image. A change of it makes another image.
type recipe struct {
	// kernel is the package that depends on the newest kernel of its series.
	kernel string
	// packages have the tools and their libraries.
	packages []string
	// modules are loaded by the guest, in what order it likes; what they need comes along.
	modules []string
	// optional are modules that not every kernel has.
	optional []string
	// tools are programs; their libraries come along.
	tools []string
	// files are taken as they are, directories with all below them.
	files []string
}

var debian = recipe{
	kernel: "linux-image-6.12-amd64",
	packages: []string{
		"ibverbs-providers", "ibverbs-utils", "iproute2", "libbpf1", "libbsd0", "libc6", "libcap2", "libelf1",
		"libibverbs1", "libmd0", "libmnl0", "libnl-3-200", "libnl-route-3-200", "zlib1g",
	},
	modules: []string{
		"ib_core", "ib_uverbs", "ib_umad", "rdma_cm", "rdma_ucm", "rdma_rxe", "crc32_generic",
		"dummy", "veth", "virtio_net", "e1000e", "igb", "igbvf",
	},
	optional: []string{"siw"},
	tools:    []string{"usr/bin/ibv_devinfo", "usr/bin/ibv_rc_pingpong", "usr/bin/rdma"},
	files:    []string{"etc/libibverbs.d/rxe.driver", "usr/lib/x86_64-linux-gnu/libibverbs"},
}

// Image is what to boot.
type Image struct {
	Kernel    string // path of the kernel
	Initramfs string // path of an archive without /init
	Release   string // the kernel's, as uname -r says
}

// Unavailable is the error of a machine on which no image can be made, because it is not
// Debian, or not root's, or without a network.
type Unavailable struct{ Reason string }

func (e *Unavailable) Error() string { return e.Reason }

// Make returns the image in the cache directory and makes it if need be; progress hears
// what takes time. The error is an *Unavailable where that is impossible.
func Make(ctx context.Context, cache string, progress func(string)) (Image, error) {
	return debian.make(ctx, cache, progress)
}

func (r recipe) make(ctx context.Context, cache string, progress func(string)) (Image, error) {
	sum := sha256.Sum256([]byte(fmt.Sprintf("1 %+v", r)))
	dir := filepath.Join(cache, hex.EncodeToString(sum[:6]))
	release, err := os.ReadFile(filepath.Join(dir, "release"))
	image := Image{Kernel: filepath.Join(dir, "vmlinuz"), Initramfs: filepath.Join(dir, "initramfs.gz"), Release: string(release)}
	if err == nil {
		return image, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return Image{}, err
	}
	work, err := os.MkdirTemp(cache, "making-")
	if err != nil {
		return Image{}, err
	}
	defer os.RemoveAll(work)
	root, made := filepath.Join(work, "root"), filepath.Join(work, "image")
	if err := os.Mkdir(made, 0o755); err != nil {
		return Image{}, err
	}
	if err := r.unpack(ctx, filepath.Join(cache, "debs"), root, progress); err != nil {
		return Image{}, err
	}
	progress("making the initramfs")
	image.Release, err = r.build(ctx, root, made)
	if err != nil {
		return Image{}, err
	}
	// Another process may have been quicker; its image is as good.
	if err := os.Rename(made, dir); err != nil && !errors.Is(err, os.ErrExist) {
		return Image{}, err
	}
	return image, nil
}

// build makes the files of an image out of unpacked packages. The release is written
// last: it says that the others are there.
func (r recipe) build(ctx context.Context, root, to string) (release string, err error) {
	kernels, err := filepath.Glob(filepath.Join(root, "boot/vmlinuz-*"))
	if err != nil || len(kernels) != 1 {
		return "", fmt.Errorf("one kernel expected in the packages, found %v", kernels)
	}
	release = strings.TrimPrefix(filepath.Base(kernels[0]), "vmlinuz-")
	var packed bytes.Buffer
	compress, err := gzip.NewWriterLevel(&packed, gzip.BestSpeed)
	if err != nil {
		return "", err
	}
	archive := NewArchive(compress)
	for _, dir := range []string{"/dev", "/proc", "/sys", "/run", "/tmp", "/var/lib"} {
		archive.Dir(dir)
	}
	err = errors.Join(
		r.addModules(ctx, archive, filepath.Join(root, "lib/modules", release)),
		r.addTools(archive, root),
		archive.Close(), compress.Close(),
		os.Rename(kernels[0], filepath.Join(to, "vmlinuz")),
		os.WriteFile(filepath.Join(to, "initramfs.gz"), packed.Bytes(), 0o644),
	)
	if err != nil {
		return "", err
	}
	return release, os.WriteFile(filepath.Join(to, "release"), []byte(release), 0o644)
}
