// A recorded tree that changes.
//
// SPDX-License-Identifier: Apache-2.0

package notice

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// watchTree watches a new tree on a file system that tells of changes, and returns
// when it does.
func watchTree(t *testing.T) (root string, n *Notice) {
	t.Helper()
	root, err := os.MkdirTemp("/dev/shm", "tree")
	if err != nil {
		root = t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	must(t, os.MkdirAll(filepath.Join(root, "sys/class/infiniband"), 0o755))
	n = New()
	ctx, cancel := context.WithCancel(context.Background())
	tree := &Tree{Root: root, Dirs: []string{"sys", "dev/infiniband"}, Log: slog.New(slog.DiscardHandler)}
	done := make(chan error, 1)
	go func() { done <- tree.Run(ctx, n, n.Hint) }()
	t.Cleanup(func() {
		cancel()
		must(t, <-done)
	})
	due(t, n) // watching
	return root, n
}

func due(t *testing.T, n *Notice, what ...string) {
	t.Helper()
	select {
	case <-n.Due():
	case <-time.After(30 * time.Second):
		t.Fatal("no scan is due", what)
	}
}

func TestEveryChangeOfATreeIsNoticed(t *testing.T) {
	root, n := watchTree(t)
	at := func(name string) string { return filepath.Join(root, name) }
	for _, step := range []struct {
		what   string
		change func() error
	}{
		{"a directory with a file is made", func() error {
			return errorOf(os.MkdirAll(at("sys/devices/a/b"), 0o755), os.WriteFile(at("sys/devices/a/b/state"), nil, 0o600))
		}},
		{"a file in it is written", func() error { return os.WriteFile(at("sys/devices/a/b/state"), []byte("4: ACTIVE\n"), 0o600) }},
		{"a link is made", func() error { return os.Symlink("../../devices/a", at("sys/class/infiniband/a")) }},
		{"a directory is moved", func() error { return os.Rename(at("sys/devices/a"), at("sys/devices/c")) }},
		{"a file in the moved one is written", func() error { return os.WriteFile(at("sys/devices/c/b/state"), []byte("1: DOWN\n"), 0o600) }},
		{"dev appears", func() error { return os.MkdirAll(at("dev/infiniband"), 0o755) }},
		{"a device appears", func() error { return os.WriteFile(at("dev/infiniband/uverbs0"), nil, 0o600) }},
		{"dev goes", func() error { return os.RemoveAll(at("dev")) }},
		{"dev comes back", func() error { return os.MkdirAll(at("dev/infiniband"), 0o755) }},
		{"a device appears again", func() error { return os.WriteFile(at("dev/infiniband/uverbs0"), nil, 0o600) }},
		{"all goes", func() error { return os.RemoveAll(at("sys")) }},
		{"all comes back", func() error { return os.MkdirAll(at("sys/class"), 0o755) }},
		{"and changes", func() error { return os.WriteFile(at("sys/class/x"), nil, 0o600) }},
	} {
		before := n.Events()
		must(t, step.change())
		due(t, n, step.what)
		if n.Events() != before+1 {
			t.Errorf("%s: %d events", step.what, n.Events()-before)
		}
	}
}

func errorOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func TestChangesBesideTheTreeAreNone(t *testing.T) {
	root, n := watchTree(t)
	must(t, os.WriteFile(filepath.Join(root, "s.sock"), nil, 0o600))
	must(t, os.MkdirAll(filepath.Join(root, "dev/other"), 0o755))
	must(t, os.WriteFile(filepath.Join(root, "sys/last"), nil, 0o600))
	due(t, n)
	if n.Events() != 1 {
		t.Errorf("%d events", n.Events())
	}
}

func TestStormOfChangesDoesNotPutOffTheScan(t *testing.T) {
	root, n := watchTree(t)
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				_ = os.WriteFile(filepath.Join(root, "sys/state"), []byte("x"), 0o600)
			}
		}
	}()
	due(t, n)
	due(t, n)
	close(stop)
	<-done
}

func TestTreeThatCanNotBeWatchedIsLookedAt(t *testing.T) {
	root := t.TempDir()
	must(t, os.Symlink(t.TempDir(), filepath.Join(root, "sys")))
	n := New()
	var out text
	ctx, cancel := context.WithCancel(t.Context())
	tree := &Tree{Root: root, Dirs: []string{"sys"}, Log: slog.New(slog.NewTextHandler(&out, nil))}
	done := make(chan error, 1)
	go func() { done <- tree.Run(ctx, n, n.Hint) }()
	due(t, n)
	due(t, n)
	cancel()
	must(t, <-done)
	if out.String() == "" {
		t.Error("nothing was said")
	}
}
