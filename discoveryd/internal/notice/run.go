// Running the sources, again and again where they fail.
//
// SPDX-License-Identifier: Apache-2.0

package notice

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

const (
	// minRetry and maxRetry bound the time from a source's failure to the next try,
	// which doubles with each.
	minRetry = time.Second
	maxRetry = time.Minute
	// steady is how long a source has to listen to be one that works again.
	steady = 10 * time.Second
)

// Run runs all sources until ctx ends. One that fails is tried again, and meanwhile
// changes are found by the regular scans.
func (n *Notice) Run(ctx context.Context, log *slog.Logger, sources ...Source) {
	var wg sync.WaitGroup
	for _, source := range sources {
		wg.Go(func() { n.keep(ctx, log.With("source", source.Name()), source) })
	}
	wg.Wait()
}

// keep runs one source. Its failure is logged when it comes, changes and is over;
// one that fails as soon as it listens adds no line each time.
func (n *Notice) keep(ctx context.Context, log *slog.Logger, source Source) {
	said := "" // the last error that was logged and is not over
	wait := minRetry
	for {
		var works *time.Timer
		err := source.Run(ctx, n, func() {
			n.Hint()          // for what was missed before
			if works != nil { // it listens once more
				works.Stop()
			}
			failed := said != ""
			works = time.AfterFunc(steady, func() {
				if failed {
					log.Info("event source works again")
				}
			})
		})
		if works != nil && !works.Stop() {
			said, wait = "", minRetry
		}
		if err == nil || ctx.Err() != nil {
			return
		}
		n.failures.Add(1)
		n.Hint() // for what was lost at its end
		if err.Error() != said {
			said = err.Error()
			log.Warn("event source failed and is tried again; changes are found by regular scans meanwhile", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		wait = min(2*wait, maxRetry)
	}
}
