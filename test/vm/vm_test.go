// Package vm runs the two programs on a real Linux kernel with RDMA devices, in a
// virtual machine. The tests themselves are those of test/vm/guest; here is what boots
// the machine and tells their results.
//
// SPDX-License-Identifier: Apache-2.0
package vm

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/rdma-relay/rdma-relay/test/vm/image"
)

// What make e2e-rdma sets in the environment, and what people may set besides.
const (
	enable = "RDMA_RELAY_VM"       // not empty: boot
	filter = "RDMA_RELAY_VM_RUN"   // picks tests of the guest as go test -run does
	handed = "RDMA_RELAY_VM_FILES" // where to write the recording of the guest
)

// patience bounds one boot with all tests, on a machine that has other things to do.
const patience = 9*time.Minute + 30*time.Second

// TestGuest boots the machine once. Each test of the guest is a subtest here.
func TestGuest(t *testing.T) {
	if os.Getenv(enable) == "" {
		t.Skip("needs a virtual machine: make e2e-rdma")
	}
	ctx := t.Context()
	img, err := prepare(ctx)
	if unavailable := (*image.Unavailable)(nil); errors.As(err, &unavailable) && os.Getenv("CI") == "" {
		note("skipped: %v", unavailable)
		t.Skip(unavailable)
	}
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	m := &machine{image: img, initramfs: filepath.Join(dir, "initramfs"), run: cmp.Or(os.Getenv(filter), "."), dir: shortDir(t)}
	if err := pack(img.Initramfs, m.initramfs, programs(t, dir)); err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("not finished within %v", patience))
	defer cancel()
	results := newReplay(t)
	var files bytes.Buffer
	begin := time.Now()
	err = m.boot(ctx, t, results, &files)
	results.end()
	note("kernel %s, all in %.0f s", img.Release, time.Since(begin).Seconds())
	if err != nil {
		t.Error(err)
	}
	if err := results.complete(); err != nil {
		t.Error(err)
	}
	if t.Failed() {
		t.Logf("the end of the console:\n%s", m.console.String())
	}
	if out := os.Getenv(handed); out != "" && files.Len() > 0 {
		if err := os.WriteFile(out, files.Bytes(), 0o644); err != nil {
			t.Error(err)
		}
	}
}

func prepare(ctx context.Context) (image.Image, error) {
	progress := func(what string) { note("%s", what) }
	if err := image.InstallQEMU(ctx, progress); err != nil {
		return image.Image{}, err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return image.Image{}, err
	}
	return image.Make(ctx, filepath.Join(cache, "rdma-relay", "vm"), progress)
}

// note tells the reader what is going on; test/testsum shows such lines.
func note(format string, args ...any) {
	fmt.Printf("NOTE vm: "+format+"\n", args...)
}

// programs are what the guest runs. The tests are its init, too.
func programs(t *testing.T, dir string) map[string]string {
	t.Helper()
	guest := filepath.Join(dir, "guest.test")
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-tags", "grpcnotrace", "-ldflags", "-s -w", "-o", guest, "./guest")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the guest's tests: %v\n%s", err, out)
	}
	programs := map[string]string{"/init": guest}
	for _, name := range []string{"discoveryd", "pluginproxy"} {
		program := filepath.Join(cmp.Or(os.Getenv("RDMA_RELAY_BIN"), "../../bin"), name)
		if _, err := os.Stat(program); err != nil {
			t.Fatalf("%v: run 'make build' first", err)
		}
		programs["/bin/"+name] = program
	}
	return programs
}

// shortDir is a directory whose path leaves room for the name of a socket.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "vm")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
