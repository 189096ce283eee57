// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/spf13/cobra"
)

func TestExitCodeTellsWhoseFaultItWas(t *testing.T) {
	boom := errors.New("boom")
	for name, tc := range map[string]struct {
		args []string
		err  error
		want int
	}{
		"success":                  {args: []string{"do"}, want: ExitGood},
		"failure while running":    {args: []string{"do"}, err: boom, want: ExitFailed},
		"wrong configuration":      {args: []string{"do"}, err: Usage(boom), want: ExitUsage},
		"wrapped usage error":      {args: []string{"do"}, err: fmt.Errorf("read: %w", Usage(boom)), want: ExitUsage},
		"unknown flag":             {args: []string{"do", "--nope"}, want: ExitUsage},
		"unknown command":          {args: []string{"dont"}, want: ExitUsage},
		"argument where none goes": {args: []string{"do", "it"}, want: ExitUsage},
	} {
		t.Run(name, func(t *testing.T) {
			root := &cobra.Command{Use: "prog"}
			root.AddCommand(&cobra.Command{Use: "do", Args: NoArgs, RunE: func(*cobra.Command, []string) error { return tc.err }})
			root.SetArgs(tc.args)
			stderr := os.Stderr
			os.Stderr, _ = os.Open(os.DevNull)
			defer func() { os.Stderr = stderr }()
			if got := Run(root); got != tc.want {
				t.Errorf("Run(%v) = %d, want %d", tc.args, got, tc.want)
			}
		})
	}
}

func TestLogFlagsRefuseUnknownWords(t *testing.T) {
	for _, args := range [][]string{{"--log-level=loud"}, {"--log-format=xml"}} {
		var f LogFlags
		cmd := &cobra.Command{Use: "prog"}
		f.Register(cmd)
		if err := cmd.ParseFlags(args); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Logger(&bytes.Buffer{}); !errors.As(err, new(usageError)) {
			t.Errorf("%v: error %v, want a usage error", args, err)
		}
	}
}
