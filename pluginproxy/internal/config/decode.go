// Typed access to the tree: every method notes a fault with the key's path and
// goes on, so that one run finds all faults.
//
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// decoder collects what is wrong with a file.
type decoder struct {
	faults   []error
	warnings []string
}

func (d *decoder) fail(path, format string, args ...any) {
	d.faults = append(d.faults, errors.New(located(path, format, args...)))
}

func (d *decoder) warn(path, format string, args ...any) {
	d.warnings = append(d.warnings, located(path, format, args...))
}

func located(path, format string, args ...any) string {
	message := fmt.Sprintf(format, args...)
	if path == "" {
		return message
	}
	return path + ": " + message
}

// fields are the members of one object under their right names.
type fields struct {
	d      *decoder
	path   string
	values map[string]value
}

// fields checks that v is an object with no other than the known keys.
func (d *decoder) fields(v value, path string, known []string) (fields, bool) {
	f := fields{d: d, path: path, values: make(map[string]value, len(v.members))}
	if v.kind != object {
		d.fail(path, "is %v, not an object", v.kind)
		return f, false
	}
	for _, m := range v.members {
		key := f.rightName(m.key, known)
		if key == "" {
			continue
		}
		if _, doubled := f.values[key]; doubled {
			d.fail(f.join(key), "stands twice; keep one")
			continue
		}
		f.values[key] = m.value
	}
	return f, true
}

// rightName gives the known key that is meant, or notes a fault.
func (f *fields) rightName(key string, known []string) string {
	for _, k := range known {
		if k == key {
			return k
		}
	}
	for _, k := range known {
		// Go's encoding/json, and so the replaced plugin, ignores case.
		if strings.EqualFold(k, key) {
			f.d.warn(f.join(k), "is written %s; write %s", quote(key), quote(k))
			return k
		}
	}
	if near := nearest(key, known); near != "" {
		f.d.fail(f.join(clip(key)), "unknown key; did you mean %s?", quote(near))
	} else if home := otherHome(key, known); home != "" {
		f.d.fail(f.join(clip(key)), "unknown key here; it belongs into %s", home)
	} else {
		f.d.fail(f.join(clip(key)), "unknown key; known are %s", strings.Join(known, ", "))
	}
	return ""
}

func (f *fields) join(key string) string {
	if f.path == "" {
		return key
	}
	return f.path + "." + key
}

// get gives the value of a key that is there and has the kind; another kind is a fault.
func (f *fields) get(key string, want kind) (value, bool) {
	v, ok := f.values[key]
	if !ok {
		return value{}, false
	}
	if v.kind != want {
		switch {
		case v.kind == null:
			f.d.fail(f.join(key), "is empty; give it a value or remove the key")
		case v.kind == text && want != list && want != object:
			f.d.fail(f.join(key), "is the text %s, not %v; write it without quotes", quote(v.text), want)
		case v.kind == number && want == text:
			f.d.fail(f.join(key), "is the number %s, not text; write it in quotes", clip(v.text))
		default:
			f.d.fail(f.join(key), "is %v, not %v", v.kind, want)
		}
		return value{}, false
	}
	return v, true
}

// text gives a key's text, or "" where it is absent or wrong.
func (f *fields) text(key string) string {
	v, _ := f.get(key, text)
	return v.text
}

// flag gives a key's boolean, or the default.
func (f *fields) flag(key string, otherwise bool) bool {
	v, ok := f.get(key, boolean)
	if !ok {
		return otherwise
	}
	return v.text == "true"
}

var wholeNumber = regexp.MustCompile(`^-?[0-9]+$`)

// integer gives a key's whole number within [low, high].
func (f *fields) integer(key string, low, high int64) (int64, bool) {
	v, ok := f.get(key, number)
	if !ok {
		return 0, false
	}
	return f.d.integer(v, f.join(key), low, high)
}

func (d *decoder) integer(v value, path string, low, high int64) (int64, bool) {
	if !wholeNumber.MatchString(v.text) {
		d.fail(path, "is %s; write a whole number in plain digits", clip(v.text))
		return 0, false
	}
	n, err := strconv.ParseInt(v.text, 10, 64)
	switch {
	case err != nil && !strings.HasPrefix(v.text, "-"), err == nil && n > high:
		d.fail(path, "is %s; at most %d is allowed", clip(v.text), high)
	case err != nil, n < low:
		d.fail(path, "is %s; at least %d is needed", clip(v.text), low)
	default:
		return n, true
	}
	return 0, false
}

// word gives a key's text when it is one of the allowed words, else the default.
func (f *fields) word(key, otherwise string, allowed ...string) string {
	v, ok := f.get(key, text)
	if !ok {
		return otherwise
	}
	return f.d.word(v.text, f.join(key), otherwise, allowed)
}

func (d *decoder) word(got, path, otherwise string, allowed []string) string {
	for _, w := range allowed {
		if w == got {
			return w
		}
	}
	if near := nearest(got, allowed); near != "" {
		d.fail(path, "%s is unknown; did you mean %s?", quote(got), quote(near))
	} else {
		d.fail(path, "%s is unknown; allowed are %s", quote(got), strings.Join(allowed, ", "))
	}
	return otherwise
}

// duration gives a key's duration such as "30s" within [0, high].
func (f *fields) duration(key string, high time.Duration) time.Duration {
	v, ok := f.get(key, text)
	if !ok {
		return 0
	}
	d, err := time.ParseDuration(v.text)
	switch {
	case err != nil:
		f.d.fail(f.join(key), `%s is no duration; write one such as "30s" or "2m"`, quote(v.text))
	case d < 0 || d > high:
		f.d.fail(f.join(key), "is %s; it must lie between 0s and %v", clip(v.text), high)
	default:
		return d
	}
	return 0
}

// items gives the entries of a list of at most maxEntries values.
func (f *fields) items(key string) []value {
	v, ok := f.get(key, list)
	if !ok {
		return nil
	}
	if len(v.items) > maxEntries {
		f.d.fail(f.join(key), "has %d entries; at most %d are allowed", len(v.items), maxEntries)
		return nil
	}
	return v.items
}

// each calls take with every text of the list at key, and notes a fault with the
// entry's path where take gives a message or the entry is no text.
func (f *fields) each(key string, take func(entry string) (fault string)) {
	for i, item := range f.items(key) {
		path := fmt.Sprintf("%s[%d]", f.join(key), i)
		switch item.kind {
		case text:
			if fault := take(item.text); fault != "" {
				f.d.fail(path, "%s", fault)
			}
		case number:
			f.d.fail(path, "is the number %s, not text; write it in quotes", clip(item.text))
		default:
			f.d.fail(path, "is %v, not text", item.kind)
		}
	}
}
