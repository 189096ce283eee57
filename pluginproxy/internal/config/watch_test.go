// The file changes, in each way in which files are changed.
//
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const within = 10 * time.Second

// watched is a file that a Watcher follows.
type watched struct {
	*Watcher
	t    *testing.T
	path string
	logs *logBuffer
}

// sized is a good file whose resource has so many slots.
func sized(slots string) string {
	return entry(`"rdmaHcaMax":` + slots + `,"selectors":{"vendors":["15b3"]}`)
}

// watch follows the file at path until the test ends. The poll is so slow that only
// file events can be in time, unless another is given.
func watch(t *testing.T, path string, poll time.Duration) *watched {
	t.Helper()
	w := &watched{t: t, path: path, logs: &logBuffer{}}
	var err error
	w.Watcher, err = Watch(path, poll, slog.New(slog.NewTextHandler(w.logs, nil)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); w.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	return w
}

// until waits for a condition.
func (w *watched) until(what string, cond func(State) bool) State {
	w.t.Helper()
	deadline := time.After(within)
	for {
		s, changed := w.Get()
		if cond(s) {
			return s
		}
		select {
		case <-changed:
		case <-deadline:
			w.t.Fatalf("not seen: %s\nstate: %+v\nlog:\n%s", what, s, w.logs)
		}
	}
}

// in is the condition that a good file with so many slots is in force.
func in(slots int) func(State) bool {
	return func(s State) bool { return s.Problem == "" && s.Config.Resources[0].Max == slots }
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// put replaces the file in one step, so that a poll finds the old or the new one.
func put(t *testing.T, path, text string) {
	t.Helper()
	write(t, path+".new", text)
	rename(t, path+".new", path)
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

// configMap lays a file out as kubelet does a ConfigMap volume: config.json leads to
// ..data/config.json, and ..data to a directory with a time stamp for a name.
func configMap(t *testing.T, dir, stamp, text string) {
	t.Helper()
	must(t, os.Mkdir(filepath.Join(dir, stamp), 0o700))
	write(t, filepath.Join(dir, stamp, "config.json"), text)
	must(t, os.Symlink(stamp, filepath.Join(dir, "..data_tmp")))
	rename(t, filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data"))
}

func TestChangedFileIsTakenAtOnce(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, path, text string){
		"overwritten": write,
		"renamed over, as editors do": func(t *testing.T, path, text string) {
			write(t, path+".swp", text)
			rename(t, path, path+"~")
			rename(t, path+".swp", path)
		},
		"removed and made anew": func(t *testing.T, path, text string) {
			must(t, os.Remove(path))
			write(t, path, text)
		},
		"written in pieces": func(t *testing.T, path, text string) {
			f, err := os.Create(path)
			must(t, err)
			for i := range len(text) {
				_, err := f.WriteString(text[i : i+1])
				must(t, err)
			}
			must(t, f.Close())
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "config.json")
			write(t, path, sized("1"))
			w := watch(t, path, time.Hour)
			for _, slots := range []int{2, 3} {
				change(t, path, sized([]string{2: "2", 3: "3"}[slots]))
				w.until("the new file", in(slots))
			}
			if got := w.logs.count("configuration changed"); got != 2 {
				t.Errorf("%d lines, want 2:\n%s", got, w.logs)
			}
		})
	}
}

func TestConfigMapSwapIsTakenAtOnce(t *testing.T) {
	dir := t.TempDir()
	configMap(t, dir, "..2026_11_30_01", sized("1"))
	path := filepath.Join(dir, "config.json")
	must(t, os.Symlink(filepath.Join("..data", "config.json"), path))
	w := watch(t, path, time.Hour)
	for i, stamp := range []string{"..2026_11_30_02", "..2026_11_30_03"} {
		configMap(t, dir, stamp, sized([]string{"2", "3"}[i]))
		must(t, os.RemoveAll(filepath.Join(dir, []string{"..2026_11_30_01", "..2026_11_30_02"}[i])))
		w.until("the new ConfigMap", in(i+2))
	}
	if strings.Contains(w.logs.String(), "level=ERROR") {
		t.Errorf("log:\n%s", w.logs)
	}
}

func TestBadFileIsRefusedAndTheOldOneStands(t *testing.T) {
	for name, bad := range map[string]func(t *testing.T, path string){
		"syntax":  func(t *testing.T, path string) { put(t, path, `{"configList": [`) },
		"a rule":  func(t *testing.T, path string) { put(t, path, sized("-1")) },
		"empty":   func(t *testing.T, path string) { put(t, path, "") },
		"removed": func(t *testing.T, path string) { must(t, os.Remove(path)) },
		"directory": func(t *testing.T, path string) {
			must(t, os.Mkdir(path+".new", 0o700))
			must(t, unix.Renameat2(unix.AT_FDCWD, path+".new", unix.AT_FDCWD, path, unix.RENAME_EXCHANGE))
			must(t, os.Remove(path+".new"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "config.json")
			put(t, path, sized("1"))
			w := watch(t, path, 20*time.Millisecond) // it is read over and over
			before := w.until("the first", in(1))
			bad(t, path)
			s := w.until("the refusal", func(s State) bool { return s.Problem != "" })
			if s.Config != before.Config || !s.LoadedAt.Equal(before.LoadedAt) {
				t.Error("the old configuration is gone")
			}
			if !strings.Contains(s.Problem, path) {
				t.Errorf("problem %q does not name the file", s.Problem)
			}
			w.reads(5)
			if got := w.logs.count("configuration refused"); got != 1 {
				t.Errorf("%d lines, want 1:\n%s", got, w.logs)
			}
			must(t, os.RemoveAll(path))
			put(t, path, sized("1")) // the same again
			s = w.until("the good file", in(1))
			if s.Config != before.Config || w.logs.count("good again") != 1 || w.logs.count("configuration changed") != 0 {
				t.Errorf("the return of the old content is no change:\n%s", w.logs)
			}
			bad(t, path)
			w.until("the second refusal", func(s State) bool { return s.Problem != "" })
			must(t, os.RemoveAll(path))
			put(t, path, sized("7"))
			s = w.until("the next good file", in(7))
			if s.LoadedAt.Equal(before.LoadedAt) {
				t.Error("LoadedAt is that of the old file")
			}
		})
	}
}

// reads waits until the poll has looked at the file about so many times.
func (w *watched) reads(times int) {
	tick := time.NewTicker(w.poll)
	defer tick.Stop()
	for range times {
		<-tick.C
	}
}

func TestTouchedFileIsNoChange(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.json")
	put(t, path, sized("1"))
	w := watch(t, path, 10*time.Millisecond)
	_, changed := w.Get()
	for i := range 5 {
		now := time.Now().Add(time.Duration(i) * time.Second)
		must(t, os.Chtimes(path, now, now))
		put(t, path, sized("1"))
		put(t, path, strings.ReplaceAll(sized("1"), ",", " ,\n  ")) // another spelling of the same
		w.reads(5)
	}
	select {
	case <-changed:
		t.Errorf("a change was told:\n%s", w.logs)
	default:
	}
	if got := w.logs.count("configuration changed"); got != 0 {
		t.Errorf("%d changes in the log:\n%s", got, w.logs)
	}
}

func TestOtherFilesOfTheDirectoryDoNotMatter(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "config.json")
	write(t, path, sized("1"))
	w := watch(t, path, 100*time.Millisecond)
	stopped, done := make(chan struct{}), make(chan struct{})
	go func() { // never quiet for long enough: the poll must do
		defer close(done)
		for {
			select {
			case <-stopped:
				return
			default:
				_ = os.WriteFile(filepath.Join(dir, "noise"), nil, 0o600)
			}
		}
	}()
	write(t, path, sized("2"))
	w.until("the change", in(2))
	close(stopped)
	<-done
}

func TestDirectoryThatCanNotBeWatchedIsPolled(t *testing.T) {
	old := filepath.Join(t.TempDir(), "etc")
	must(t, os.Mkdir(old, 0o700))
	path := filepath.Join(old, "config.json")
	write(t, path, sized("1"))
	w := watch(t, path, 20*time.Millisecond)
	must(t, os.RemoveAll(old)) // the watch goes with it
	w.until("the refusal", func(s State) bool { return strings.Contains(s.Problem, "no such file") })
	w.reads(10) // all events have been taken
	must(t, os.Mkdir(old, 0o700))
	write(t, path, sized("2"))
	w.until("the new directory's file", in(2))
}

func TestChangeBetweenTheFirstReadingAndRunIsSeen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.json")
	write(t, path, sized("1"))
	w, err := Watch(path, time.Hour, slog.New(slog.DiscardHandler))
	must(t, err)
	write(t, path, sized("2"))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); w.Run(ctx) }()
	(&watched{Watcher: w, t: t, logs: &logBuffer{}}).until("the file of now", in(2))
	cancel()
	<-ended
}

func TestWatchRefusesABadFirstFile(t *testing.T) {
	_, err := Watch(filepath.Join(t.TempDir(), "none.json"), 0, slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), "none.json: no such file") {
		t.Errorf("error %v", err)
	}
}

func TestWarningsAreLoggedWithEachNewFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.json")
	write(t, path, sized("1"))
	w := watch(t, path, time.Hour)
	write(t, path, `{"periodicUpdateInterval":60,`+sized("2")[1:])
	w.until("the new file", in(2))
	if got := w.logs.count("configuration warning"); got != 1 {
		t.Errorf("%d lines, want 1:\n%s", got, w.logs)
	}
}

// logBuffer is a log that may be read while it is written.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *logBuffer) count(text string) int { return strings.Count(l.String(), text) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
