// The command capture.
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/rdma-relay/rdma-relay/discoveryd/internal/capture"
	"github.com/rdma-relay/rdma-relay/internal/cli"
)

func captureCommand() *cobra.Command {
	var output string
	var force bool
	var opts capture.Options
	cmd := &cobra.Command{
		Use:   "capture",
		Short: "Record what the scan reads of this host, for a bug report",
		Long: `Record what the scan reads of this host into a small archive (tar.gz).

GUIDs, MAC addresses, GIDs and the IP addresses in them are replaced; names of
network interfaces and RDMA devices, PCI addresses and the kernel's release are
not. Serial numbers and the host's name are never read.

Unpacked, the archive can be used as --host-root of list and serve.`,
		Example: `  discoveryd capture -o host.tar.gz
  mkdir host && tar xf host.tar.gz -C host && discoveryd list --host-root=host`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			stdout := output == "-"
			switch {
			case output == "":
				return cli.Usagef("-o: give the file to write, or - for the standard output")
			case stdout && isTerminal(cmd.OutOrStdout()):
				return cli.Usagef("-o -: the standard output is a terminal, and an archive is not for reading")
			case !stdout:
				if err := capture.CheckFile(output, force); err != nil {
					return outputError(err)
				}
			}
			recording, err := capture.Take(cmd.Context(), opts)
			if err != nil {
				return settingsError(err)
			}
			if stdout {
				err = recording.Write(cmd.OutOrStdout())
			} else {
				err = capture.WriteFile(output, force, recording.Write)
			}
			if err != nil {
				return outputError(err)
			}
			return summarize(cmd.ErrOrStderr(), recording, output)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&output, "output", "o", "", "file to write, or - for the standard output")
	flags.BoolVar(&force, "force", false, "replace the file if it is there")
	flags.StringVar(&opts.Root, "host-root", "/", "directory with the host's sys and dev")
	return cmd
}

// outputError marks what another -o or --force would mend.
func outputError(err error) error {
	if errors.Is(err, capture.ErrExists) {
		return cli.Usagef("-o %w; --force replaces a regular file", err)
	}
	return err
}

// summarize tells people what they are about to send.
func summarize(w io.Writer, r *capture.Recording, output string) error {
	text := fmt.Sprintf("%d RDMA devices, %d files\nreplaced: %d GUIDs, %d MAC addresses, %d GIDs\nkept: names of interfaces and RDMA devices, PCI addresses, the kernel's release\n",
		r.Devices, r.Files, r.Replaced.GUIDs, r.Replaced.MACs, r.Replaced.GIDs)
	for _, note := range r.Notes {
		text += "not recorded as it is: " + note + "\n"
	}
	if output == "-" {
		output = "the archive"
	}
	text += "Look into it before you send it: tar xzOf " + output + " capture.txt\n"
	_, err := io.WriteString(w, text)
	return err
}

// isTerminal tells whether what is written to w would come on a screen.
func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(file.Fd()), unix.TCGETS)
	return err == nil
}
