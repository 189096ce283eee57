// Lines and aligned columns, coloured or not, of text that comes from the host.
//
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The marks of text beside good, warn and bad.
const (
	good = "good"
	warn = "warn"
	bad  = "bad"
	bold = "bold"
	dim  = "dim"
)

// codes are the ANSI sequences (ECMA-48, SGR) of the marks.
var codes = map[string]string{good: "\x1b[32m", warn: "\x1b[33m", bad: "\x1b[31m", bold: "\x1b[1m", dim: "\x1b[2m"}

// cell is text with a mark.
type cell struct{ text, mark string }

func plain(text string) cell       { return cell{text: text} }
func paint(mark, text string) cell { return cell{text, mark} }

// terminal gathers what is to be written.
type terminal struct {
	colour bool
	b      bytes.Buffer
}

// line writes the cells one after the other.
func (t *terminal) line(cells ...cell) {
	for _, c := range cells {
		t.cell(c)
	}
	t.b.WriteByte('\n')
}

// cell writes one text. Host strings come to somebody's terminal here, so what
// could steer it is taken out.
func (t *terminal) cell(c cell) {
	code := codes[c.mark]
	if t.colour && code != "" {
		t.b.WriteString(code)
	}
	t.b.WriteString(printable(c.text))
	if t.colour && code != "" {
		t.b.WriteString("\x1b[0m")
	}
}

// table writes rows whose columns are aligned, each after the indent.
func (t *terminal) table(indent string, rows [][]cell) {
	var widths []int
	for _, row := range rows {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], width(c.text))
		}
	}
	for _, row := range rows {
		t.b.WriteString(indent)
		for i, c := range row {
			t.cell(c)
			if i < len(row)-1 {
				t.b.WriteString(strings.Repeat(" ", widths[i]-width(c.text)+2))
			}
		}
		t.b.WriteByte('\n')
	}
}

func width(text string) int { return utf8.RuneCountInString(printable(text)) }

// printable replaces what is no graphic character: a line break, an escape
// sequence, a direction mark.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsGraphic(r) {
			return r
		}
		return '\uFFFD'
	}, text)
}
