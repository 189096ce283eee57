// SPDX-License-Identifier: Apache-2.0

package release

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// workflow is as much of GitHub's workflow syntax as is looked at here.
type workflow struct {
	On          map[string]any
	Permissions map[string]string
	Jobs        map[string]struct {
		TimeoutMinutes any `json:"timeout-minutes"`
		Strategy       struct {
			Matrix struct {
				Include []struct{ Target string }
			}
		}
		Steps []struct{ Uses, Run string }
	}
}

// Workflows run what anybody can run, only actions that nobody can exchange, and have
// no rights but those that a job names.
func TestWorkflowsRunMakeTargetsAndPinnedActions(t *testing.T) {
	pinned := regexp.MustCompile(`^[\w.-]+/[\w./-]+@[0-9a-f]{40}$`)
	called := regexp.MustCompile(`\bmake ([a-z][a-z0-9-]*)`)
	targets, err := os.ReadFile("../../Makefile")
	must(t, err)
	files, err := filepath.Glob("../../.github/workflows/*.yml")
	must(t, err)
	if len(files) != 2 {
		t.Fatalf("workflows: %v", files)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		must(t, err)
		var w workflow
		must(t, yaml.Unmarshal(text, &w))
		if len(w.On) == 0 || len(w.Jobs) == 0 || len(w.Permissions) != 1 || w.Permissions["contents"] != "read" {
			t.Errorf("%s: %+v", file, w)
		}
		made := 0
		for name, job := range w.Jobs {
			if job.TimeoutMinutes == nil {
				t.Errorf("%s: job %s may run for ever", file, name)
			}
			runs := []string{}
			for _, step := range job.Steps {
				if step.Uses != "" && !pinned.MatchString(step.Uses) {
					t.Errorf("%s: %s is not pinned by a commit", file, step.Uses)
				}
				runs = append(runs, step.Run)
			}
			for _, one := range job.Strategy.Matrix.Include {
				runs = append(runs, "make "+one.Target)
			}
			for _, m := range called.FindAllStringSubmatch(strings.Join(runs, "\n"), -1) {
				made++
				if !strings.Contains(string(targets), "\n"+m[1]+":") {
					t.Errorf("%s: the Makefile has no target %s", file, m[1])
				}
			}
		}
		if made == 0 {
			t.Errorf("%s runs no make target", file)
		}
	}
}
