// Command testsum reads the output of "go test -json" and prints what a person
// wants to read of it: the output of failed tests, a line for each package, and
// at the end one line of counts. Its exit code is 1 when a test or a build failed
// or no test ran.
//
// SPDX-License-Identifier: Apache-2.0
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
)

// event is one line of go test -json (go doc test2json).
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
	Elapsed float64
	// ImportPath is set on build output.
	ImportPath string
}

func main() {
	sum, err := summarise(os.Stdin, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testsum:", err)
		os.Exit(1)
	}
	fmt.Printf("%d passed, %d failed, %d skipped\n", sum.passed, sum.failed, sum.skipped)
	if sum.failed > 0 || sum.passed == 0 || sum.broken {
		os.Exit(1)
	}
}

type counts struct {
	passed, failed, skipped int
	broken                  bool // a package failed outside its tests
}

func summarise(r io.Reader, w io.Writer) (sum counts, err error) {
	output := map[string][]string{} // of each test and package that runs
	in := bufio.NewScanner(r)
	in.Buffer(nil, 16<<20)
	for in.Scan() {
		line := in.Text()
		var e event
		if !strings.HasPrefix(line, "{") || json.Unmarshal([]byte(line), &e) != nil {
			_, _ = fmt.Fprintln(w, line)
			continue
		}
		key := e.Package + " " + e.Test
		switch e.Action {
		case "output":
			// What a test prints for the reader: figures to keep, and what it is at.
			if strings.HasPrefix(e.Output, "MEASURED ") || strings.HasPrefix(e.Output, "NOTE ") {
				_, _ = fmt.Fprint(w, e.Output)
			}
			output[key] = append(output[key], e.Output)
		case "build-output":
			_, _ = fmt.Fprint(w, e.Output)
		case "build-fail":
			sum.broken = true
		case "pass", "fail", "skip":
			if e.Action == "fail" {
				_, _ = fmt.Fprint(w, strings.Join(output[key], ""))
			}
			delete(output, key)
			sum.add(e, w)
		}
	}
	return sum, in.Err()
}

func (s *counts) add(e event, w io.Writer) {
	if e.Test == "" {
		if e.Action != "skip" { // a package without tests
			_, _ = fmt.Fprintf(w, "%-4s  %s  %.1fs\n", e.Action, e.Package, e.Elapsed)
		}
		s.broken = s.broken || e.Action == "fail"
		return
	}
	switch e.Action {
	case "pass":
		s.passed++
	case "fail":
		s.failed++
	case "skip":
		s.skipped++
	}
}
