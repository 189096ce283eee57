// Aligned columns of text.
//
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"cmp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// grid is rows of cells, aligned when printed.
type grid [][]string

// String pads all cells of a column to the same width.
func (g grid) String() string {
	var widths []int
	for _, row := range g {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b, line strings.Builder
	for _, row := range g {
		line.Reset()
		for i, cell := range row {
			line.WriteString(cell)
			line.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2))
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return b.String()
}

// indented puts two spaces before each row.
func (g grid) indented() string {
	var b strings.Builder
	for line := range strings.Lines(g.String()) {
		b.WriteString("  " + line)
	}
	return b.String()
}

// or gives otherwise for an empty text.
func or(text, otherwise string) string { return cmp.Or(text, otherwise) }

// natural orders mlx5_2 before mlx5_10.
func natural(a, b string) int {
	for a != "" && b != "" {
		an, bn := digits(a), digits(b)
		if an > 0 && bn > 0 {
			x, y := strings.TrimLeft(a[:an], "0"), strings.TrimLeft(b[:bn], "0")
			if c := cmp.Or(cmp.Compare(len(x), len(y)), strings.Compare(x, y)); c != 0 {
				return c
			}
			a, b = a[an:], b[bn:]
			continue
		}
		if a[0] != b[0] {
			return cmp.Compare(a[0], b[0])
		}
		a, b = a[1:], b[1:]
	}
	return cmp.Compare(len(a), len(b))
}

// digits is how many digits s begins with.
func digits(s string) int { return len(s) - len(strings.TrimLeft(s, "0123456789")) }

// ranges writes ascending numbers as 0-3,7.
func ranges(numbers []uint64) string {
	var parts []string
	for i := 0; i < len(numbers); {
		j := i
		for j+1 < len(numbers) && numbers[j+1] == numbers[j]+1 {
			j++
		}
		part := strconv.FormatUint(numbers[i], 10)
		if j > i {
			part += "-" + strconv.FormatUint(numbers[j], 10)
		}
		parts, i = append(parts, part), j+1
	}
	return strings.Join(parts, ",")
}
