// Getting Debian packages, with Debian's own tools.
//
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// unpack has all packages of the recipe below root; debs keeps the downloads.
func (r recipe) unpack(ctx context.Context, debs, root string, progress func(string)) error {
	for _, tool := range []string{"apt-get", "apt-cache", "dpkg", "xz"} {
		if _, err := exec.LookPath(tool); err != nil {
			return &Unavailable{fmt.Sprintf("no %s: the image is made from Debian packages, on Debian", tool)}
		}
	}
	kernel, err := r.findKernel(ctx, progress)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(debs, 0o755); err != nil {
		return err
	}
	var missing []string
	for _, p := range append([]string{kernel}, r.packages...) {
		if len(files(debs, p)) == 0 {
			missing = append(missing, p)
		}
	}
	if len(missing) > 0 {
		progress("downloading " + strings.Join(missing, " "))
		if out, err := run(ctx, debs, "apt-get", append([]string{"download", "-q", "-o", "APT::Sandbox::User=root"}, missing...)...); err != nil {
			return &Unavailable{fmt.Sprintf("apt-get download: %v\n%s", err, out)}
		}
	}
	for _, p := range append([]string{kernel}, r.packages...) {
		found := files(debs, p)
		if len(found) == 0 {
			return fmt.Errorf("apt-get download has left no file of %s", p)
		}
		progress("unpacking " + p)
		if out, err := run(ctx, debs, "dpkg", "-x", found[len(found)-1], root); err != nil {
			return fmt.Errorf("dpkg -x %s: %w\n%s", found[len(found)-1], err, out)
		}
	}
	return nil
}

// findKernel returns the package with the kernel itself. A fresh machine has no package
// lists; root can get them.
func (r recipe) findKernel(ctx context.Context, progress func(string)) (string, error) {
	if name := r.askKernel(ctx); name != "" {
		return name, nil
	}
	if os.Getuid() == 0 {
		progress("updating the package lists")
		if out, err := run(ctx, ".", "apt-get", "update", "-q"); err != nil {
			return "", &Unavailable{fmt.Sprintf("apt-get update: %v\n%s", err, out)}
		}
		if name := r.askKernel(ctx); name != "" {
			return name, nil
		}
	}
	return "", &Unavailable{fmt.Sprintf("apt knows no package %s; it is in Debian 12's security suite (apt-get update, as root, may help)", r.kernel)}
}

func (r recipe) askKernel(ctx context.Context) string {
	out, err := run(ctx, ".", "apt-cache", "depends", r.kernel)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(out) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "Depends: "); ok && strings.HasPrefix(name, "linux-image-") {
			return name
		}
	}
	return ""
}

// InstallQEMU installs Debian's QEMU if there is none. The error is an *Unavailable where
// that is impossible.
func InstallQEMU(ctx context.Context, progress func(string)) error {
	const program, name = "qemu-system-x86_64", "qemu-system-x86"
	if _, err := exec.LookPath(program); err == nil {
		return nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil || os.Getuid() != 0 {
		return &Unavailable{fmt.Sprintf("no %s, and this is not root on a Debian machine: install the package %s", program, name)}
	}
	progress("installing " + name)
	install := []string{"install", "-q", "-y", "--no-install-recommends", name}
	if _, err := run(ctx, ".", "apt-get", install...); err == nil {
		return nil
	}
	if out, err := run(ctx, ".", "apt-get", "update", "-q"); err != nil {
		return &Unavailable{fmt.Sprintf("apt-get update: %v\n%s", err, out)}
	}
	if out, err := run(ctx, ".", "apt-get", install...); err != nil {
		return &Unavailable{fmt.Sprintf("apt-get install %s: %v\n%s", name, err, out)}
	}
	return nil
}

func files(dir, name string) []string {
	found, _ := filepath.Glob(filepath.Join(dir, name+"_*.deb"))
	return found
}

func run(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}
