// Sources that fail.
//
// SPDX-License-Identifier: Apache-2.0

package notice

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// script is a source that listens for a while, says so in an event, and fails.
type script struct {
	// lives are how long it listens each time; less than 0 stands for not at all.
	// After the last one it listens for ever.
	lives []time.Duration
	tries []time.Time
}

func (*script) Name() string { return "script" }

func (s *script) Run(ctx context.Context, n *Notice, listening func()) error {
	try := len(s.tries)
	s.tries = append(s.tries, time.Now())
	if try >= len(s.lives) {
		listening()
		<-ctx.Done()
		return nil
	}
	if s.lives[try] < 0 {
		return errors.New("no permission")
	}
	listening()
	n.Event()
	<-time.After(s.lives[try])
	return errors.New("closed")
}

// play runs the script for a time, and returns the log and how many looks at
// everything there were.
func play(t *testing.T, s *script, long time.Duration) (log string, looks int, n *Notice) {
	t.Helper()
	var out text
	n = New()
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		n.Run(ctx, slog.New(slog.NewTextHandler(&out, nil)), s)
	}()
	for ctx.Err() == nil {
		select {
		case <-n.Due():
			if n.Take().All {
				looks++
			}
		case <-ctx.Done():
		}
	}
	<-done
	return out.String(), looks, n
}

func TestSourceThatFailsIsTriedAgainEverMoreRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{lives: []time.Duration{-1, -1, -1, -1, -1, -1, -1, -1, -1}}
		log, looks, n := play(t, s, time.Hour)
		var gaps []time.Duration
		for i := range s.tries[1:] {
			gaps = append(gaps, s.tries[i+1].Sub(s.tries[i])/time.Second)
		}
		want := []time.Duration{1, 2, 4, 8, 16, 32, 60, 60, 60}
		for i := range want {
			if gaps[i] != want[i] {
				t.Fatalf("tried after %v", gaps)
			}
		}
		if n.Failures() != 9 || looks != 10 { // each failure, and that it listens
			t.Errorf("%d failures, %d looks at everything", n.Failures(), looks)
		}
		if strings.Count(log, "source failed") != 1 || strings.Count(log, "works again") != 1 || strings.Count(log, "\n") != 2 {
			t.Errorf("log is %s", log)
		}
	})
}

func TestSourceThatWorkedIsTriedAgainSoonAndToldOfAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{lives: []time.Duration{-1, -1, time.Hour, time.Hour}}
		log, _, _ := play(t, s, 3*time.Hour)
		if gap := s.tries[3].Sub(s.tries[2]); gap != time.Hour+minRetry {
			t.Errorf("tried again after %v", gap)
		}
		if strings.Count(log, "source failed") != 3 || strings.Count(log, "works again") != 3 {
			t.Errorf("log is %s", log)
		}
	})
}

func TestSourceThatFailsAsSoonAsItListensFillsNoLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{lives: make([]time.Duration, 50)}
		log, looks, _ := play(t, s, time.Hour)
		if strings.Count(log, "\n") > 3 || looks < 50 {
			t.Errorf("%d looks at everything, log is %s", looks, log)
		}
	})
}
