// The report on a terminal.
//
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/config"
	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/relay"
	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/resource"
	"github.com/rdma-relay/rdma-relay/test/fakedaemon"
)

func written(t *testing.T, rep *relay.Report, colour bool) string {
	t.Helper()
	var b strings.Builder
	rep.Detail()
	must(t, WriteText(&b, rep, time.Now(), colour))
	return b.String()
}

func TestColumnsStandBelowEachOtherWithColoursAndWithout(t *testing.T) {
	rep := sample().rep
	rep.Resources[0].Name = "example.com/a_long_name"
	bare, coloured := written(t, &rep, false), written(t, &rep, true)
	if strings.Contains(bare, "\x1b") {
		t.Errorf("colours where none are wanted: %q", bare)
	}
	for _, code := range codes {
		coloured = strings.ReplaceAll(coloured, code, "")
	}
	if coloured = strings.ReplaceAll(coloured, "\x1b[0m", ""); coloured != bare {
		t.Errorf("without its colours it is another text:\n%s\n%s", coloured, bare)
	}
	var rows []string
	for line := range strings.Lines(bare) {
		if strings.HasPrefix(line, "RESOURCE") || strings.Contains(line, "  live  ") || strings.Contains(line, "  none  ") {
			rows = append(rows, line)
		}
	}
	if len(rows) != 3 {
		t.Fatalf("rows %q in\n%s", rows, bare)
	}
	at := strings.Index(rows[0], "SESSION")
	if strings.Index(rows[1], "live") != at || strings.LastIndex(rows[2], "none") != at {
		t.Errorf("not aligned:\n%s", strings.Join(rows, ""))
	}
}

// A terminal obeys what is written to it, so host strings must not reach it as they are.
func TestHostStringsCannotSteerTheTerminal(t *testing.T) {
	const evil = "mlx\x1b[2J\x07\r\n\u202e5"
	rep := sample().rep
	rep.Problems, rep.Missing, rep.Node.Name = []string{evil}, []string{evil}, evil
	rep.Config.Warnings = []string{evil}
	rep.Changes = []relay.Change{{Kind: evil, Resource: evil, Text: evil}}
	rep.Resources[0].HCAs = []resource.HCA{{Name: evil, Reason: evil}, {Name: evil, Healthy: true, Reason: evil}}
	rep.Resources[0].LeftOut = []resource.LeftOut{{Device: evil, Rule: evil}}
	rep.Resources[0].Why, rep.Resources[0].Hints = evil, []string{evil}
	if got := written(t, &rep, false); strings.ContainsAny(got, "\x1b\x07\r\u202e") {
		t.Errorf("%q", got)
	}
}

func TestDownPortIsTellableThoughTheDeviceCountsAsHealthy(t *testing.T) {
	rep := sample().rep
	rep.Resources[0].HCAs[1] = resource.HCA{Name: "mlx5_1", Healthy: true}
	if got := written(t, &rep, false); !strings.Contains(got, "  selected: mlx5_1: port 1 is DOWN, no carrier\n  selected: mlx5_0\n") {
		t.Errorf("%s", got)
	}
}

// The grouping takes the rule's text apart, so it is tried with what the rules say.
func TestDevicesLeftOutByOneRuleStandTogether(t *testing.T) {
	const entries = `{"configList":[
		{"resourceName":"a","rdmaHcaMax":1,"selectors":{"ifNames":["ens9","ens8"]}},
		{"resourceName":"b","rdmaHcaMax":1,"selectors":{"rdmaDevices":["mlx5_1"]},"exclude":{"numaNodes":[1]}},
		{"resourceName":"c","rdmaHcaMax":1,"selectors":{"vendors":["15b3"]}}]}`
	cfg, err := config.Parse([]byte(entries), "config.json")
	must(t, err)
	built := resource.Build(cfg, fakedaemon.Snapshot("a", 1, fakedaemon.HCA(0), fakedaemon.HCA(1), fakedaemon.WithoutCM(fakedaemon.HCA(2)), fakedaemon.WithoutCM(fakedaemon.HCA(3))), resource.Options{})
	for i, want := range []string{
		"mlx5_0 (ens0np0), mlx5_1 (ens1np0), mlx5_2 (ens2np0), mlx5_3 (ens3np0): ifNames is not one of ens8, ens9",
		"mlx5_0, mlx5_2, mlx5_3: rdmaDevices is not one of mlx5_1\nmlx5_1: exclude: matches its numaNodes",
		"mlx5_2, mlx5_3: unusable: /dev/infiniband/rdma_cm is missing; load the kernel module rdma_ucm",
	} {
		all, more := groups(built[i].LeftOut)
		var got []string
		for _, g := range all {
			got = append(got, g.who()+": "+g.Rule)
		}
		if strings.Join(got, "\n") != want || more != 0 {
			t.Errorf("%s: %q and %d more, want %q", built[i].Name, got, more, want)
		}
	}
	var text strings.Builder
	must(t, WriteResources(&text, built, false))
	for _, want := range []string{"rdma/b: 0 devices behind 0 HCAs\n", "  selected  mlx5_1  0000:3b:01.0  healthy\n", "  left out: mlx5_0, mlx5_2"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("it lacks %q:\n%s", want, &text)
		}
	}
}

func TestHintThatTheSentenceSaysIsNotSaidTwice(t *testing.T) {
	r := &relay.ResourceReport{Why: "0 devices: one; two", Hints: []string{"one", "two", "three", "all devices are unhealthy; x"}}
	if got := fmt.Sprint(hints(r)); got != "[three]" {
		t.Errorf("%s", got)
	}
}

func TestDurationsForPeople(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 999 * time.Millisecond: "0s", 59 * time.Second: "59s", 61 * time.Second: "1m1s",
		3*time.Hour + 59*time.Minute: "3h59m", 49 * time.Hour: "2d1h",
	} {
		if got := ago(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestWriteErrorsAreTold(t *testing.T) {
	if WriteText(full{}, &relay.Report{}, time.Now(), false) == nil || WriteResources(full{}, nil, false) == nil {
		t.Error("an error was lost")
	}
}
