// From a path or bytes to a Config: what can be said of a file before its keys
// are looked at.
//
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"unicode/utf8"
)

const (
	// MaxFileBytes is the size of the biggest file that is read. A ConfigMap holds
	// no more than 1 MiB either.
	MaxFileBytes = 1 << 20
	// maxFaults is how many faults, and how many warnings, of a file are told; the
	// rest are counted.
	maxFaults = 100

	emptySentence = `is empty; it must hold "configList" with at least one resource`
)

// Load reads and checks the file at path, JSON or YAML. Its error names the path
// and joins all faults that were found.
func Load(path string) (*Config, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s: no such file; --config must name the config file", path)
	case err != nil:
		return nil, fmt.Errorf("read config: %w", err)
	case info.IsDir():
		return nil, fmt.Errorf("%s: is a directory; --config must name the file in it", path)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s: is not a regular file; --config must name one", path)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read config: %w", err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, MaxFileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read config: %w", err)
	}
	return Parse(data, path)
}

// Parse checks the bytes of a config file; name stands for it in messages. The
// error joins all faults that were found.
func Parse(data []byte, name string) (*Config, error) {
	root, faults := parseTree(data)
	if len(faults) > 0 {
		return nil, joinFaults(name, faults)
	}
	d := &decoder{}
	cfg := d.config(root)
	if len(d.faults) > 0 {
		return nil, joinFaults(name, d.faults)
	}
	cfg.Warnings = d.warnings
	if more := len(d.warnings) - maxFaults; more > 0 {
		cfg.Warnings = append(slices.Clip(d.warnings[:maxFaults]), fmt.Sprintf("and %d warnings more", more))
	}
	hash, err := cfg.hash()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	cfg.Hash = hash
	return cfg, nil
}

// parseTree turns the text into a tree, or says in one sentence why it can't.
func parseTree(data []byte) (value, []error) {
	if sentence := unfit(data); sentence != "" {
		return value{}, []error{errors.New(sentence)}
	}
	if !looksLikeJSON(data) {
		return parseYAML(data)
	}
	root, err := parseJSON(data)
	if err != nil {
		return value{}, []error{err}
	}
	return root, nil
}

// unfit says why the bytes can't be a config file at all, or nothing.
func unfit(data []byte) string {
	switch {
	case len(data) > MaxFileBytes:
		return fmt.Sprintf("is bigger than %d bytes; a config file must be smaller", MaxFileBytes)
	case bytes.HasPrefix(data, []byte("\xef\xbb\xbf")):
		return "begins with a byte order mark; save it as UTF-8 without BOM"
	case bytes.HasPrefix(data, []byte("\xff\xfe")), bytes.HasPrefix(data, []byte("\xfe\xff")):
		return "is UTF-16; save it as UTF-8"
	case len(bytes.TrimSpace(data)) == 0:
		return emptySentence
	case bytes.IndexByte(data, 0) >= 0:
		return "holds a NUL byte; save it as plain UTF-8 text"
	case !utf8.Valid(data):
		return "is not valid UTF-8; save it as UTF-8"
	}
	return ""
}

// looksLikeJSON tells whether the first character that is neither space nor in a
// line of # comments opens a JSON object or list. A file that begins so is held to
// JSON's rules, so that its faults get a line and a column.
func looksLikeJSON(data []byte) bool {
	for line := range bytes.Lines(data) {
		line = bytes.TrimSpace(line)
		if len(line) > 0 && line[0] != '#' {
			return line[0] == '{' || line[0] == '['
		}
	}
	return false
}

// joinFaults gives each fault the file's name and bounds their number.
func joinFaults(name string, faults []error) error {
	told := make([]error, 0, min(len(faults), maxFaults+1))
	for i, fault := range faults {
		if i == maxFaults {
			told = append(told, fmt.Errorf("%s: and %d faults more", name, len(faults)-i))
			break
		}
		var syntax *syntaxError
		if errors.As(fault, &syntax) && syntax.line > 0 {
			told = append(told, fmt.Errorf("%s:%w", name, fault))
		} else {
			told = append(told, fmt.Errorf("%s: %w", name, fault))
		}
	}
	return errors.Join(told...)
}
