// The guest's results as subtests of the test that has booted it.
//
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"testing"
)

// replay is the writer that the guest's test program writes to (-test.v=test2json).
type replay struct {
	io.Writer
	end func() // returns when all that was written has been told

	ended string // the action that ended the program, "pass" or "fail"
	tests int
}

// event is one line of go tool test2json.
type event struct {
	Action, Test, Output string
	Elapsed              float64
}

func newReplay(t *testing.T) *replay {
	t.Helper()
	convert := exec.Command("go", "tool", "test2json", "-t")
	in, err := convert.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := convert.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := convert.Start(); err != nil {
		t.Fatal(err)
	}
	r := &replay{Writer: in}
	lines := make(chan event)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			var e event
			if json.Unmarshal(s.Bytes(), &e) == nil {
				lines <- e
			}
		}
	}()
	told := make(chan struct{})
	go func() {
		defer close(told)
		r.tell(t, lines)
	}()
	r.end = func() {
		_ = in.Close()
		<-told
		_ = convert.Wait()
	}
	return r
}

// tell makes a subtest of each test, at its end.
func (r *replay) tell(t *testing.T, events <-chan event) {
	output := map[string][]string{}
	for e := range events {
		switch e.Action {
		case "output":
			if strings.HasPrefix(e.Output, "MEASURED ") {
				fmt.Print(e.Output)
				continue
			}
			output[e.Test] = append(output[e.Test], e.Output)
		case "pass", "fail", "skip":
			if e.Test == "" {
				r.ended = e.Action
				if e.Action == "fail" {
					t.Logf("the guest's tests failed:\n%s", strings.Join(output[""], ""))
				}
				continue
			}
			r.tests++
			t.Run(e.Test, func(t *testing.T) {
				t.Logf("in %.1f s:\n%s", e.Elapsed, strings.Join(output[e.Test], ""))
				switch e.Action {
				case "fail":
					t.Fail()
				case "skip":
					t.SkipNow()
				}
			})
		}
	}
}

// complete tells whether the guest has come to an end, and has run anything.
func (r *replay) complete() error {
	switch {
	case r.ended == "":
		return fmt.Errorf("the guest's tests have not ended; %d have", r.tests)
	case r.tests == 0:
		return fmt.Errorf("the guest has run no test")
	}
	return nil
}
