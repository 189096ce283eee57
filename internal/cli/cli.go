// Package cli holds what both programs' command lines share: log flags, exit
// codes and the version command.
//
// SPDX-License-Identifier: Apache-2.0
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/rdma-relay/rdma-relay/internal/version"
)

// Exit codes of both programs.
const (
	ExitGood   = 0 // did what it was asked, or ended on SIGTERM or SIGINT
	ExitFailed = 1 // failed while running
	ExitUsage  = 2 // wrong usage or configuration
)

// usageError marks what the caller has to mend in flags or configuration.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// Usage marks err as a fault in flags or configuration, so that Run returns
// ExitUsage for it. A nil err stays nil.
func Usage(err error) error {
	if err == nil {
		return nil
	}
	return usageError{err}
}

// Usagef is Usage around fmt.Errorf.
func Usagef(format string, args ...any) error {
	return usageError{fmt.Errorf(format, args...)}
}

// NoArgs refuses arguments besides flags, as a usage error.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return Usagef("%s takes no arguments, got %q", cmd.CommandPath(), args[0])
	}
	return nil
}

// LogFlags are --log-level and --log-format.
type LogFlags struct{ level, format string }

// Register adds the two flags to cmd and all commands below it.
func (f *LogFlags) Register(cmd *cobra.Command) {
	cmd.PersistentFlags().StringVar(&f.level, "log-level", "info", "least severe level to log: debug, info, warn, error")
	cmd.PersistentFlags().StringVar(&f.format, "log-format", "text", "log as text or json, to standard error")
}

// Logger makes the logger that the flags ask for, or returns a usage error.
func (f *LogFlags) Logger(w io.Writer) (*slog.Logger, error) {
	var level slog.Level
	switch strings.ToLower(f.level) {
	case "debug":
		level = slog.LevelDebug
	case "info":
		level = slog.LevelInfo
	case "warn":
		level = slog.LevelWarn
	case "error":
		level = slog.LevelError
	default:
		return nil, Usagef("--log-level=%s: must be debug, info, warn or error", f.level)
	}
	opts := &slog.HandlerOptions{Level: level}
	switch f.format {
	case "text":
		return slog.New(slog.NewTextHandler(w, opts)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, opts)), nil
	}
	return nil, Usagef("--log-format=%s: must be text or json", f.format)
}

// VersionCommand prints the program's name and version stamp.
func VersionCommand(program string) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), program, version.String())
			return err
		},
	}
}

// Run executes root with os.Args under a context that ends at SIGTERM or SIGINT,
// prints an error once to standard error, and returns the exit code. A second
// signal ends the process at once.
func Run(root *cobra.Command) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	defer context.AfterFunc(ctx, stop)()

	root.SilenceErrors = true
	root.SilenceUsage = true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return Usagef("%w; see '%s --help'", err, cmd.CommandPath())
	})
	err := root.ExecuteContext(ctx)
	if err == nil {
		return ExitGood
	}
	_, _ = fmt.Fprintf(os.Stderr, "%s: %v\n", root.Name(), err)
	if u := (usageError{}); errors.As(err, &u) || unknownCommand(err) {
		return ExitUsage
	}
	return ExitFailed
}

// unknownCommand tells cobra's error for a misspelt command, which has no type.
func unknownCommand(err error) bool {
	return strings.HasPrefix(err.Error(), "unknown command")
}
