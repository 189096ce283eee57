// The generic tree between the two spellings of a file, JSON and YAML, and the
// decoder, so that every rule on keys and values stands once.
//
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// kind is the type of a value, as both JSON and YAML have it.
type kind uint8

const (
	null kind = iota
	boolean
	number
	text
	list
	object
)

// String names the kind as error messages do.
func (k kind) String() string {
	return [...]string{"empty (null)", "true/false", "a number", "text", "a list", "an object"}[k]
}

// value is one node of the tree. Text holds a number as it was written.
type value struct {
	kind    kind
	text    string
	items   []value
	members []member
}

type member struct {
	key   string
	value value
}

// syntaxError is a fault of JSON or YAML itself: line and column begin at 1, the
// column counts characters. A line of 0 means that the place is unknown.
type syntaxError struct {
	line, column int
	message      string
}

func (e *syntaxError) Error() string {
	if e.line == 0 {
		return e.message
	}
	return fmt.Sprintf("%d:%d: %s", e.line, e.column, e.message)
}

// parseJSON reads exactly one JSON value.
func parseJSON(data []byte) (value, error) {
	// One pass over the whole text first: the stream decoder below counts its
	// offsets from the last token, this one from the start of the file.
	var raw json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		var syntax *json.SyntaxError
		if !errors.As(err, &syntax) {
			return value{}, &syntaxError{message: err.Error()}
		}
		return value{}, jsonFault(data, syntax)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	return jsonValue(dec)
}

// jsonValue reads the next value; the decoder itself limits the nesting.
func jsonValue(dec *json.Decoder) (value, error) {
	token, err := dec.Token()
	if err != nil {
		return value{}, err
	}
	switch t := token.(type) {
	case bool:
		return value{kind: boolean, text: fmt.Sprint(t)}, nil
	case json.Number:
		return value{kind: number, text: t.String()}, nil
	case string:
		return value{kind: text, text: t}, nil
	case json.Delim:
		if t == '[' {
			return jsonList(dec)
		}
		return jsonObject(dec)
	default:
		return value{}, nil
	}
}

func jsonList(dec *json.Decoder) (value, error) {
	v := value{kind: list}
	for dec.More() {
		item, err := jsonValue(dec)
		if err != nil {
			return value{}, err
		}
		v.items = append(v.items, item)
	}
	_, err := dec.Token()
	return v, err
}

func jsonObject(dec *json.Decoder) (value, error) {
	v := value{kind: object}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return value{}, err
		}
		key, ok := token.(string)
		if !ok {
			return value{}, fmt.Errorf("key %v is not text", token)
		}
		item, err := jsonValue(dec)
		if err != nil {
			return value{}, err
		}
		v.members = append(v.members, member{key, item})
	}
	_, err := dec.Token()
	return v, err
}

// jsonFault says where and, for the usual slips, why the text is not JSON.
func jsonFault(data []byte, err *json.SyntaxError) error {
	// Offset counts the bytes read, the offending one among them.
	at := min(max(int(err.Offset)-1, 0), len(data))
	message := err.Error()
	rest := data[at:]
	before := bytes.TrimRight(data[:at], " \t\r\n")
	switch {
	case strings.HasPrefix(message, "unexpected end"):
		at = len(data)
		message = "the text ends too early: a quote or bracket is not closed"
	case bytes.HasSuffix(before, []byte(",")) && len(rest) > 0 && (rest[0] == '}' || rest[0] == ']'):
		message = fmt.Sprintf("a comma stands before the closing %q; remove the comma", rest[0])
	case bytes.HasPrefix(rest, []byte("#")), bytes.HasPrefix(rest, []byte("/")):
		message = "JSON has no comments; remove it, or write the file as YAML"
	case bytes.HasPrefix(rest, []byte("'")):
		message = "JSON wants double quotes"
	}
	line, column := position(data, at)
	return &syntaxError{line: line, column: column, message: message}
}

// position gives the line and column of the byte at the offset.
func position(data []byte, offset int) (line, column int) {
	before := data[:offset]
	start := bytes.LastIndexByte(before, '\n') + 1
	return bytes.Count(before, []byte("\n")) + 1, utf8.RuneCount(before[start:]) + 1
}
