// Command demo shows in a few seconds, and without hardware, root or Kubernetes,
// what rdma-relay does: the two real programs between a recorded host with eight
// RDMA adapters and a fake kubelet that is killed, over and over.
//
// It ends with 0 when everything that it tells of did happen.
//
// SPDX-License-Identifier: Apache-2.0
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	var o options
	flag.StringVar(&o.bin, "bin", "bin", "directory of discoveryd and pluginproxy")
	flag.StringVar(&o.temp, "temp", os.TempDir(), "directory for temporary files; /tmp when the path is longer than a socket allows")
	flag.BoolVar(&o.keep, "keep", false, "leave everything running until Ctrl-C")
	flag.DurationVar(&o.limit, "limit", 30*time.Second, "how long each single step may take")
	flag.Parse()
	if flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o, newScreen(os.Stdout))
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "\ndemo: %v\n", err)
		os.Exit(1)
	}
}

// options are the command line's.
type options struct {
	bin   string
	temp  string // where the node's directory is made
	keep  bool
	limit time.Duration
}

// run builds the node, tells the story and takes the node down again, whatever
// became of the story.
func run(parent context.Context, o options, out *screen) (err error) {
	ctx, fail := context.WithCancelCause(parent)
	defer fail(nil)
	n, err := newNode(o, fail)
	if err != nil {
		return err
	}
	defer func() {
		// What went wrong first is what matters.
		if closing := n.close(); err == nil {
			err = closing
		}
		if err == nil {
			out.say("", "Everything was stopped and cleaned up.")
		}
	}()
	if err := tell(ctx, n, o.limit, out); err != nil || !o.keep {
		return err
	}

	out.step("All of it stays up until Ctrl-C")
	out.say("Try in another terminal:", "")
	out.lines(n.commands()...)
	<-ctx.Done()
	if parent.Err() != nil {
		return nil // Ctrl-C, as announced
	}
	return context.Cause(ctx)
}
