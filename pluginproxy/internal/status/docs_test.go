// docs/metrics.md says of each metric what the registry says, and names no other; the
// chart's alerts and dashboard ask for none that isn't there.
//
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
)

const root = "../../../"

// documented is a row of the table in docs/metrics.md.
type documented struct{ kind, labels, meaning, alerts string }

// gathered are the rows that the registry would make, by name.
func gathered(t *testing.T) map[string]documented {
	t.Helper()
	reg := register(t, sample())
	observe, err := AllocationSeconds(reg)
	must(t, err)
	observe(time.Millisecond)
	families, err := reg.Gather()
	must(t, err)
	rows := map[string]documented{}
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "rdma_relay_") {
			continue
		}
		rows[f.GetName()] = documented{
			kind: strings.ToLower(f.GetType().String()), labels: labelNames(f.GetMetric()[0]), meaning: f.GetHelp(),
		}
	}
	return rows
}

func labelNames(m *dto.Metric) string {
	var names []string
	for _, l := range m.GetLabel() {
		names = append(names, "`"+l.GetName()+"`")
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

func TestDocsTellOfEachMetricWhatTheRegistrySays(t *testing.T) {
	text, err := os.ReadFile(root + "docs/metrics.md")
	must(t, err)
	want := gathered(t)
	alerts := alertsOf(t)
	seen := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		name := strings.Trim(cells[0], "`")
		if !strings.HasPrefix(name, "rdma_relay_") || !strings.HasPrefix(line, "|") {
			continue
		}
		if len(cells) != 5 || seen[name] {
			t.Errorf("row %q: five cells, and each metric once", line)
			continue
		}
		seen[name] = true
		got := documented{cells[1], cells[2], cells[3], cells[4]}
		expected, known := want[name]
		if !known {
			t.Errorf("%s is in the docs only", name)
			continue
		}
		if expected.alerts = strings.Join(alerts[name], ", "); got != expected {
			t.Errorf("%s:\n docs     %q\n registry %q", name, got, expected)
		}
	}
	for name, row := range want {
		if !seen[name] {
			t.Errorf("not in the docs:\n| `%s` | %s | %s | %s | %s |", name, row.kind, row.labels, row.meaning, strings.Join(alerts[name], ", "))
		}
	}
}

var metricName = regexp.MustCompile(`\brdma_relay_[a-z0-9_]+`)

// alertsOf are the alerts of the chart that ask for a metric.
func alertsOf(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(root + "charts/rdma-relay/files/alerts.yaml")
	must(t, err)
	alerts := map[string][]string{}
	for _, rule := range strings.Split(string(text), "- alert: ")[1:] {
		name, rest, _ := strings.Cut(rule, "\n")
		for _, metric := range metricName.FindAllString(rest, -1) {
			if word := "`" + strings.TrimSpace(name) + "`"; !slices.Contains(alerts[metric], word) {
				alerts[metric] = append(alerts[metric], word)
			}
		}
	}
	return alerts
}

func TestNobodyAsksForAMetricThatIsNotThere(t *testing.T) {
	there := gathered(t)
	suffix := regexp.MustCompile(`^(rdma_relay_allocation_seconds)_(bucket|sum|count)$`)
	asked := 0
	for _, dir := range []string{"charts", "docs"} {
		must(t, filepath.WalkDir(root+dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !slices.Contains([]string{".yaml", ".yml", ".json", ".md", ".tpl"}, filepath.Ext(path)) {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return fmt.Errorf("read %s: %w", path, err)
			}
			for _, name := range metricName.FindAllString(string(text), -1) {
				asked++
				if _, ok := there[suffix.ReplaceAllString(name, "$1")]; !ok {
					t.Errorf("%s names %s", path, name)
				}
			}
			return nil
		}))
	}
	if asked < 20 {
		t.Errorf("only %d names found: the pattern or the folders are wrong", asked)
	}
}
