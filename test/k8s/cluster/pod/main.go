// Command pod is the only program of the pods that the tests make, and of the pause
// image. It waits to be ended; on port 8080 it tells at any time what the container
// has: GET / gives a report as JSON.
//
// SPDX-License-Identifier: Apache-2.0
package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// report is what a container can see of itself.
type report struct {
	// Boot tells one start of the container from another.
	Boot string
	Env  []string
	// Devices are the files below /dev/infiniband.
	Devices map[string]device
	// Others are device files that the container was not given, made and opened by
	// itself: MAJOR:MINOR to the error, "" when it was let in.
	Others map[string]string
}

type device struct {
	Number string // major:minor
	// Open is the errno of opening it for reading and writing: ENXIO is a driver that
	// is not there, so the container may; EPERM is the devices cgroup, so it may not.
	Open string
}

func main() {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD)
	if len(os.Args) > 1 {
		boot := strconv.FormatInt(int64(os.Getpid()), 10) + "-" + strconv.FormatInt(startTime(), 10)
		http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(look(boot, r.URL.Query()["other"]))
		})
		go func() {
			_ = http.ListenAndServe(":8080", nil)
			os.Exit(1)
		}()
	}
	for s := range signals {
		if s != syscall.SIGCHLD {
			return
		}
		// As the first process of a sandbox: reap what is handed to it.
		for {
			if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 || err != nil {
				break
			}
		}
	}
}

// startTime is when this process began, in the kernel's ticks since boot (proc_pid_stat(5)).
func startTime() int64 {
	text, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < 20 {
		return 0
	}
	ticks, _ := strconv.ParseInt(fields[19], 10, 64)
	return ticks
}

func look(boot string, others []string) report {
	r := report{Boot: boot, Env: os.Environ(), Devices: map[string]device{}, Others: map[string]string{}}
	paths, _ := filepath.Glob("/dev/infiniband/*")
	for _, path := range paths {
		r.Devices[path] = device{number(path), try(path)}
	}
	for _, number := range others {
		r.Others[number] = tryNumber(number)
	}
	return r
}

func number(path string) string {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return err.Error()
	}
	if st.Mode&unix.S_IFMT != unix.S_IFCHR {
		return "not a character device"
	}
	return strconv.FormatUint(uint64(unix.Major(st.Rdev)), 10) + ":" + strconv.FormatUint(uint64(unix.Minor(st.Rdev)), 10)
}

func try(path string) string {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err == nil {
		_ = f.Close()
		return ""
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return unix.ErrnoName(errno)
	}
	return err.Error()
}

// tryNumber makes a file for a device that the runtime did not, and opens it.
func tryNumber(number string) string {
	major, minor, _ := strings.Cut(number, ":")
	a, errA := strconv.ParseUint(major, 10, 32)
	b, errB := strconv.ParseUint(minor, 10, 32)
	if errA != nil || errB != nil {
		return "not a device number"
	}
	path := "/other-" + major + "-" + minor
	err := unix.Mknod(path, unix.S_IFCHR|0o600, int(unix.Mkdev(uint32(a), uint32(b))))
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return "mknod: " + err.Error()
	}
	return try(path)
}
