// Colours: on a terminal only, and not where NO_COLOR or TERM asks for none.
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// terminal makes a pseudo terminal (pty(7)): what is written to the program's side
// can be read from ours.
func terminal(t *testing.T) (ours, programs *os.File) {
	t.Helper()
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no pseudo terminals here: %v", err)
	}
	t.Cleanup(func() { _ = ours.Close() })
	must(t, unix.IoctlSetPointerInt(int(ours.Fd()), unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(int(ours.Fd()), unix.TIOCGPTN)
	must(t, err)
	programs, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo terminals here: %v", err)
	}
	return ours, programs
}

func TestColoursAreForTerminalsWhoseUserWantsThem(t *testing.T) {
	body, err := json.Marshal(sample())
	must(t, err)
	address := answering(t, http.StatusOK, body)
	for name, test := range map[string]struct {
		env  string
		want bool
	}{
		"a terminal":       {"TERM=xterm", true},
		"NO_COLOR":         {"NO_COLOR=1", false},
		"NO_COLOR, empty":  {"NO_COLOR=", true},
		"a plain terminal": {"TERM=dumb", false},
	} {
		t.Run(name, func(t *testing.T) {
			ours, programs := terminal(t)
			cmd := exec.Command(os.Args[0], "status", "--metrics-address", address)
			cmd.Env = append(os.Environ(), asProgram+"=1", "GORACE=atexit_sleep_ms=0", "TERM=xterm", "NO_COLOR=", test.env)
			cmd.Stdout = programs
			must(t, cmd.Start())
			_ = programs.Close()
			text, buffer := "", make([]byte, 4096)
			for { // it ends with EIO when the program has ended
				n, err := ours.Read(buffer)
				text += string(buffer[:n])
				if err != nil {
					break
				}
			}
			must(t, cmd.Wait())
			if got := strings.Contains(text, "\x1b["); got != test.want || !strings.Contains(text, "NOT READY") {
				t.Errorf("colours: %t, want %t\n%q", got, test.want, text)
			}
		})
	}
	if _, stdout, _ := run(t, "status", "--metrics-address", address); strings.Contains(stdout, "\x1b") {
		t.Errorf("colours in a pipe: %q", stdout)
	}
}
