// The nearest right name for a misspelt one, and values cut down for messages.
//
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"slices"
	"strconv"
	"strings"
)

// maxQuoted is how many bytes of a value are shown in a message.
const maxQuoted = 64

// quote shows a value of the file in a message.
func quote(s string) string { return strconv.Quote(clip(s)) }

// clip cuts a value that is too long to be shown.
func clip(s string) string {
	if len(s) <= maxQuoted {
		return s
	}
	return strings.ToValidUTF8(s[:maxQuoted], "") + "…"
}

// nearest gives the known name that needs the fewest edits, or "" when none needs
// few enough to be what was meant.
func nearest(name string, known []string) string {
	if len(name) > maxQuoted {
		return ""
	}
	best, least := "", len(name)/3+2
	for _, k := range known {
		if n := edits(strings.ToLower(name), strings.ToLower(k)); n < least {
			best, least = k, n
		}
	}
	return best
}

// edits is the Levenshtein distance in bytes.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}

// otherHome says which object a key that is unknown here belongs into.
func otherHome(key string, known []string) string {
	switch {
	case slices.Contains(known, keySelectors) && slices.Contains(selectorKeys, key):
		return keySelectors
	case !slices.Contains(known, keySelectors) && slices.Contains(resourceKeys, key):
		return "an entry of " + keyConfigList
	}
	return ""
}
