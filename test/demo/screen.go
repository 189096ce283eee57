// What the demo prints: headings, sentences, aligned tables, output of commands.
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/sys/unix"
)

// screen is where the story is told. Write errors don't matter to it.
type screen struct {
	w           io.Writer
	steps       int
	bold, plain string // terminal codes; empty where there is no terminal
	dim         string
}

// newScreen uses bold and dim on a terminal, unless NO_COLOR asks not to.
func newScreen(f *os.File) *screen {
	s := &screen{w: f}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	if err == nil && os.Getenv("NO_COLOR") == "" {
		s.bold, s.dim, s.plain = "\x1b[1m", "\x1b[2m", "\x1b[0m"
	}
	return s
}

// step begins a numbered part of the story.
func (s *screen) step(title string) {
	s.steps++
	_, _ = fmt.Fprintf(s.w, "\n%s%d. %s%s\n", s.bold, s.steps, title, s.plain)
}

// say prints a paragraph, line by line as it is given.
func (s *screen) say(lines ...string) {
	for _, line := range lines {
		_, _ = fmt.Fprintln(s.w, strings.TrimRight("   "+line, " "))
	}
}

// lines prints text of others: commands, output.
func (s *screen) lines(lines ...string) {
	for _, line := range lines {
		if line != "" {
			line = "     " + s.dim + line + s.plain
		}
		_, _ = fmt.Fprintln(s.w, line)
	}
}

// table prints rows with aligned columns.
func (s *screen) table(rows ...[]string) {
	var b strings.Builder
	tw := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
	for _, row := range rows {
		_, _ = fmt.Fprintln(tw, strings.Join(row, "\t"))
	}
	_ = tw.Flush()
	for line := range strings.Lines(b.String()) {
		s.say("  " + strings.TrimRight(line, " \n"))
	}
}

// command prints a command and what it answered.
func (s *screen) command(command, output string) {
	_, _ = fmt.Fprintf(s.w, "\n     %s$ %s%s\n", s.bold, command, s.plain)
	s.lines(strings.Split(strings.TrimRight(output, "\n"), "\n")...)
}

// took prints a time with as much precision as a reader can use.
func took(d time.Duration) string {
	switch {
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(d)/1e6)
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	default:
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
}
