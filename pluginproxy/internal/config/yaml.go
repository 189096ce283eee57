// The YAML spelling of a file.
//
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v2"
)

// parseYAML reads exactly one YAML document. The library, the one below
// sigs.k8s.io/yaml, bounds aliases and nesting; strict mode refuses doubled keys.
func parseYAML(data []byte) (value, []error) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.SetStrict(true)
	var doc any
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return value{}, nil // nothing but comments
	} else if err != nil {
		return value{}, yamlFaults(data, err)
	}
	var next any
	if err := dec.Decode(&next); err == nil {
		return value{}, []error{&syntaxError{message: "holds more than one YAML document; keep one"}}
	} else if !errors.Is(err, io.EOF) {
		return value{}, yamlFaults(data, err)
	}
	return yamlValue(doc), nil
}

func yamlValue(node any) value {
	switch n := node.(type) {
	case nil:
		return value{}
	case bool:
		return value{kind: boolean, text: strconv.FormatBool(n)}
	case int, int64, uint64:
		return value{kind: number, text: fmt.Sprint(n)}
	case float64:
		return value{kind: number, text: floatText(n)}
	case []any:
		v := value{kind: list, items: make([]value, len(n))}
		for i, item := range n {
			v.items[i] = yamlValue(item)
		}
		return v
	case map[any]any:
		v := value{kind: object, members: make([]member, 0, len(n))}
		for key, item := range n {
			v.members = append(v.members, member{fmt.Sprint(key), yamlValue(item)})
		}
		// The library loses the order; errors should come in the same one each time.
		slices.SortStableFunc(v.members, func(a, b member) int { return cmp.Compare(a.key, b.key) })
		return v
	default:
		return value{kind: text, text: fmt.Sprint(n)}
	}
}

// floatText keeps a float from looking like a whole number: 1e9 was written as
// a float and is refused as one.
func floatText(f float64) string {
	s := strconv.FormatFloat(f, 'g', -1, 64)
	if !strings.ContainsAny(s, ".eEIN") {
		s += ".0"
	}
	return s
}

var (
	yamlLine    = regexp.MustCompile(`^(?:yaml: )?(?:\s*)line (\d+): (.*)$`)
	yamlDoubled = regexp.MustCompile(`^key (.*) already set in map$`)
)

// yamlFaults gives each of the library's complaints its place. The library knows
// the line only; the column is that of the line's first character.
func yamlFaults(data []byte, err error) []error {
	complaints := []string{err.Error()}
	var types *yaml.TypeError
	if errors.As(err, &types) {
		complaints = types.Errors
	}
	faults := make([]error, 0, len(complaints))
	lines := bytes.Split(data, []byte("\n"))
	for i, complaint := range complaints {
		if i >= maxFaults { // counted, not told
			faults = append(faults, err)
			continue
		}
		fault := &syntaxError{message: strings.TrimPrefix(complaint, "yaml: ")}
		if m := yamlLine.FindStringSubmatch(complaint); m != nil {
			fault.message = m[2]
			if line, err := strconv.Atoi(m[1]); err == nil {
				fault.line, fault.column = line, firstColumn(lines, line)
			}
		}
		if m := yamlDoubled.FindStringSubmatch(fault.message); m != nil {
			fault.message = fmt.Sprintf("key %s stands twice; keep one", m[1])
		}
		fault.message = strings.ReplaceAll(fault.message, "\n", " ")
		faults = append(faults, fault)
	}
	return faults
}

// firstColumn is the column of the first character of the line that is no space.
func firstColumn(lines [][]byte, line int) int {
	if line < 1 || line > len(lines) {
		return 1
	}
	l := lines[line-1]
	trimmed := bytes.TrimLeftFunc(l, unicode.IsSpace)
	if len(trimmed) == 0 {
		return 1
	}
	return utf8.RuneCount(l[:len(l)-len(trimmed)]) + 1
}
