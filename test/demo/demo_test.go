// The demo must not claim what did not happen: it ends with an error that names
// the culprit, and leaves nothing behind.
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// programs writes two shell scripts in place of the programs.
func programs(t *testing.T, discoveryd, pluginproxy string) string {
	t.Helper()
	bin := t.TempDir()
	for name, script := range map[string]string{"discoveryd": discoveryd, "pluginproxy": pluginproxy} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return bin
}

// tempDir is short enough for sockets, which t.TempDir is not.
func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "d")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

const (
	waits = `trap 'exit 0' TERM; while :; do sleep 0.01; done`
	fails = `echo "no such thing" >&2; exit 3`
)

func TestDemoFailsWhenAStepDoesNotHappen(t *testing.T) {
	for _, test := range []struct {
		name                    string
		discoveryd, pluginproxy string
		want                    []string
	}{
		{"pluginproxy never registers", waits, waits, []string{"step 1", "not done within 500ms", "log of pluginproxy"}},
		{"discoveryd ends", fails, waits, []string{"discoveryd ended by itself: exit status 3", "no such thing"}},
		{"pluginproxy ends", waits, fails, []string{"pluginproxy ended by itself: exit status 3", "no such thing"}},
		{"pluginproxy ends well but early", waits, "exit 0", []string{"pluginproxy ended by itself: exit status 0"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			temp := tempDir(t)
			o := options{bin: programs(t, test.discoveryd, test.pluginproxy), temp: temp, limit: 20 * time.Second}
			if test.want[0] == "step 1" {
				o.limit = 500 * time.Millisecond
			}
			err := run(t.Context(), o, &screen{w: &bytes.Buffer{}})
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error lacks %q: %v", want, err)
				}
			}
			if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

func TestDemoSaysThatTheProgramsHaveToBeBuilt(t *testing.T) {
	err := run(t.Context(), options{bin: t.TempDir(), temp: tempDir(t), limit: time.Second}, &screen{w: &bytes.Buffer{}})
	if err == nil || !strings.Contains(err.Error(), "make build") {
		t.Errorf("error is %v", err)
	}
}

func TestDemoEndsInOrderWhenInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	temp := tempDir(t)
	err := run(ctx, options{bin: programs(t, waits, waits), temp: temp, limit: 20 * time.Second}, &screen{w: &bytes.Buffer{}})
	if err == nil || !strings.Contains(err.Error(), context.Canceled.Error()) {
		t.Errorf("error is %v", err)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestTimesAreReadable(t *testing.T) {
	for d, want := range map[time.Duration]string{
		1234 * time.Microsecond:  "1.2 ms",
		21400 * time.Microsecond: "21 ms",
		1500 * time.Millisecond:  "1.5 s",
	} {
		if got := took(d); got != want {
			t.Errorf("took(%d) is %q, want %q", d, got, want)
		}
	}
}
