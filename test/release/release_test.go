// Package release tests what stands between a commit and a release: release.sh, and
// the workflows that run it.
//
// SPDX-License-Identifier: Apache-2.0
package release

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const (
	chartFile = "charts/rdma-relay/Chart.yaml"
	changelog = "# Changelog\n\n## Unreleased\n\n## [1.2.3] - 2026-12-01\n\n### Added\n\n- A thing.\n\n## 1.2.2\n\n- Older.\n\n## 1.0.0-rc.1\n"
)

func TestReleaseIsRefusedInASentence(t *testing.T) {
	for name, test := range map[string]struct {
		version string
		change  func(t *testing.T, dir string)
		want    string // empty: taken
	}{
		"all is well":             {"v1.2.3", nil, ""},
		"without a v":             {"1.2.3", nil, ""},
		"no VERSION":              {"", nil, "VERSION= is no semantic version"},
		"two numbers":             {"v1.2", nil, "VERSION=v1.2 is no semantic version"},
		"leading zero":            {"v1.02.3", nil, "no semantic version"},
		"leading zero afterwards": {"v1.2.3-rc.01", nil, "no semantic version"},
		"what git describe says":  {"1a2b3c4", nil, "no semantic version"},
		"not the chart's":         {"v1.2.2", nil, "Chart.yaml: version and appVersion are 1.2.3, not 1.2.2"},
		"no section": {"v1.2.3", func(t *testing.T, dir string) {
			write(t, dir, "CHANGELOG.md", strings.ReplaceAll(changelog, "[1.2.3]", "1.2.30"))
		}, "CHANGELOG.md has no section 1.2.3"},
		"empty section": {"v1.2.3", func(t *testing.T, dir string) {
			write(t, dir, "CHANGELOG.md", "## 1.2.3\n\n\n## 1.2.2\n\n- x\n")
		}, "the section 1.2.3 is empty"},
		"two sections": {"v1.2.3", func(t *testing.T, dir string) {
			write(t, dir, "CHANGELOG.md", changelog+"## 1.2.3\n")
		}, "two sections 1.2.3"},
		"a heading of words": {"v1.2.3", func(t *testing.T, dir string) {
			write(t, dir, "CHANGELOG.md", changelog+"## Soon\n")
		}, "the heading Soon is neither"},
		"the chart disagrees with itself": {"v1.2.3", func(t *testing.T, dir string) {
			write(t, dir, chartFile, "version: 1.2.3\nappVersion: \"1.2.2\"\n")
		}, "version is 1.2.3 and appVersion 1.2.2"},
		"a file that git does not know": {"v1.2.3", func(t *testing.T, dir string) {
			write(t, dir, "new", "x")
		}, "the work tree is dirty; commit or remove: ?? new"},
		"tagged before": {"v1.2.3", func(t *testing.T, dir string) { git(t, dir, "tag", "v1.2.3") }, "the tag v1.2.3 is on another commit"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := repository(t)
			if test.change != nil {
				test.change(t, dir)
				if !strings.Contains(test.want, "dirty") {
					git(t, dir, "commit", "-q", "--all", "--allow-empty", "-m", "change")
				}
			}
			out, err := script(t, dir, test.version, "check")
			switch {
			case test.want == "" && err != nil:
				t.Errorf("refused: %s", out)
			case test.want != "" && (err == nil || !strings.HasPrefix(out, "release: ") || !strings.Contains(out, test.want)):
				t.Errorf("%v, want %q:\n%s", err, test.want, out)
			}
		})
	}
}

func TestNotesAreTheSectionOfTheVersion(t *testing.T) {
	dir := repository(t)
	for version, want := range map[string]string{"v1.2.3": "### Added\n\n- A thing.\n", "1.2.2": "- Older.\n", "1.0.0-rc.1": ""} {
		if out, err := script(t, dir, version, "notes"); err != nil || out != want {
			t.Errorf("%s: %v, %q, want %q", version, err, out, want)
		}
	}
}

// repository is one that can be released as 1.2.3.
func repository(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, chartFile, "version: 1.2.3\nappVersion: 1.2.3\n")
	write(t, dir, "CHANGELOG.md", changelog)
	text, err := os.ReadFile("release.sh")
	must(t, err)
	write(t, dir, "test/release/release.sh", string(text))
	git(t, dir, "init", "-q")
	git(t, dir, "add", "-A")
	git(t, dir, "commit", "-q", "-m", "first")
	return dir
}

func script(t *testing.T, dir, version string, args ...string) (output string, err error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", append([]string{filepath.Join(dir, "test/release/release.sh")}, args...)...)
	cmd.Env = append(os.Environ(), "VERSION="+version, "GIT_CONFIG_GLOBAL=/dev/null")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func git(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir, "-c", "user.name=x", "-c", "user.email=x@example.com"}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %q: %v\n%s", args, err, out)
	}
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	must(t, os.MkdirAll(filepath.Dir(path), 0o700))
	must(t, os.WriteFile(path, []byte(text), 0o600))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
