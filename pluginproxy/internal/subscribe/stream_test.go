// The daemon comes, goes, hangs and comes back.
//
// SPDX-License-Identifier: Apache-2.0

package subscribe

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rdma-relay/rdma-relay/test/fakedaemon"
)

func TestNewestSnapshotOfTheStreamIsKept(t *testing.T) {
	n := newNode(t)
	feed := make(chan *fakedaemon.Message)
	n.daemon(fakedaemon.Feed(whole("a", 1), feed))
	n.until("the first", has("a", 1))
	feed <- whole("a", 2)
	n.until("the second", has("a", 2))
	feed <- whole("a", 7) // those between were skipped
	s := n.until("one after a gap", has("a", 7))
	if s.Status.GetDaemonVersion() != "v0-fake" || s.Rejected != 0 {
		t.Errorf("version %q, rejected %d; want v0-fake and 0", s.Status.GetDaemonVersion(), s.Rejected)
	}
}

func TestLastSnapshotStandsWhateverBecomesOfTheDaemon(t *testing.T) {
	for name, end := range map[string]func(*fakedaemon.Daemon){
		"stopped": (*fakedaemon.Daemon).Stop,
		"killed":  (*fakedaemon.Daemon).Kill,
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			d := n.daemon(fakedaemon.Say(whole("a", 3)))
			n.until("the first daemon", has("a", 3))
			end(d)
			s := n.until("the loss of the daemon", away)
			n.wantSnapshot("a", 3)
			if s.Status == nil || s.ScannedAt.IsZero() {
				t.Errorf("what else was known is gone: %+v", s)
			}
			n.daemon(fakedaemon.Say(whole("b", 1))) // another life, whose count begins anew
			s = n.until("the second daemon", has("b", 1))
			if s.Problem != "" {
				t.Errorf("problem %q though connected", s.Problem)
			}
		})
	}
}

func TestStreamThatTheDaemonEndsIsOpenedAgain(t *testing.T) {
	n := newNode(t)
	end := make(chan struct{})
	n.daemon(func(call int, stream fakedaemon.Stream) error {
		if err := stream.Send(whole("a", uint64(call))); err != nil || call == 2 {
			<-stream.Context().Done()
			return err
		}
		<-end
		return nil
	})
	n.until("the first stream", has("a", 1))
	close(end)
	n.until("the second stream", has("a", 2))
	if n.logs.count("discoveryd ended the stream") != 1 {
		t.Errorf("the end is not told once:\n%s", n.logs)
	}
}

// Whatever has been tried in vain before: from the daemon's start to its snapshot
// no more than the longest pause between two tries may pass, and some work.
func TestReturnIsNoticedWithinASecondAfterALongAbsence(t *testing.T) {
	n := newNode(t)
	d := n.daemon(fakedaemon.Say(whole("a", 1)))
	n.until("the daemon", has("a", 1))
	d.Kill()
	n.until("the loss", away)
	absence := time.NewTimer(2500 * time.Millisecond) // the pause has grown to its cap
	<-absence.C
	begin := time.Now()
	n.daemon(fakedaemon.Say(whole("b", 1)))
	n.until("the return", has("b", 1))
	if took := time.Since(begin); took > maxPause+300*time.Millisecond {
		t.Errorf("the return was noticed after %v", took)
	}
}

func TestDaemonThatComesLate(t *testing.T) {
	n := newNode(t)
	s := n.until("a sentence on the missing socket", func(s State) bool { return strings.Contains(s.Problem, "no such file") })
	if s.Snapshot != nil || s.Age() != 0 || !strings.Contains(s.Problem, n.socket) {
		t.Errorf("before the first daemon: %+v", s)
	}
	n.daemon(fakedaemon.Say(whole("a", 1)))
	n.until("the daemon", has("a", 1))
}

// R84: a peer without the service is told from one that is not there.
func TestR84_ServiceMissing(t *testing.T) {
	n := newNode(t)
	d := n.daemon(nil)
	s := n.until("the sentence", func(s State) bool { return strings.Contains(s.Problem, "does not offer") })
	for _, part := range []string{n.socket, "rdmarelay.discovery.v1.DiscoveryService", "adjacent versions"} {
		if !strings.Contains(s.Problem, part) {
			t.Errorf("problem %q lacks %q", s.Problem, part)
		}
	}
	d.Stop()
	n.daemon(fakedaemon.Say(whole("a", 1)))
	n.until("the service", has("a", 1))
	if got := n.logs.count("does not offer"); got != 1 {
		t.Errorf("%d lines, want 1:\n%s", got, n.logs)
	}
}

func TestAgeIsThatOfTheLastScan(t *testing.T) {
	n := newNode(t)
	feed := make(chan *fakedaemon.Message)
	old := whole("a", 1)
	old.Status = fakedaemon.Scanned(time.Hour)
	n.daemon(fakedaemon.Feed(old, feed))
	s := n.until("the first", has("a", 1))
	if age := s.Age(); age < time.Hour || age > time.Hour+time.Minute {
		t.Errorf("age %v of a scan an hour ago", age)
	}
	// A healthy idle node sends only its status, and is young by that.
	feed <- &fakedaemon.Message{Status: fakedaemon.Scanned(2 * time.Second)}
	s = n.until("a younger scan", func(s State) bool { return s.Age() < time.Hour })
	if age := s.Age(); age < 2*time.Second || age > time.Minute {
		t.Errorf("age %v of a scan 2 s ago", age)
	}
	n.wantSnapshot("a", 1)
	// What says nothing of a scan makes nothing younger.
	feed <- &fakedaemon.Message{}
	feed <- &fakedaemon.Message{Status: fakedaemon.Scanned(time.Hour)} // a stuck scanner
	n.until("the stuck scanner", func(s State) bool { return s.Age() >= time.Hour })
	noAge := fakedaemon.Scanned(0)
	noAge.ScanAge, noAge.DaemonVersion = nil, "v-next"
	feed <- &fakedaemon.Message{Status: noAge}
	s = n.until("the message without an age", func(s State) bool { return s.Status.GetDaemonVersion() == "v-next" })
	if s.Age() < time.Hour {
		t.Errorf("age %v after a message without an age, want an hour still", s.Age())
	}
	// Nonsense neither overflows nor makes the scan younger than now.
	for _, age := range []time.Duration{-time.Hour, 1<<63 - 1} {
		feed <- &fakedaemon.Message{Status: fakedaemon.Scanned(age)}
		s = n.until("a strange age", func(s State) bool { return s.Status.GetScanAge().AsDuration() == age })
		if got := s.Age(); got < 0 || age > 0 && got < 24*time.Hour {
			t.Errorf("scan age %v gives age %v", age, got)
		}
	}
}

func TestAgeGrowsWhileTheDaemonHangs(t *testing.T) {
	n := newNode(t)
	n.daemon(fakedaemon.Say(whole("a", 1)))
	s := n.until("the daemon", has("a", 1))
	before := s.Age()
	moment := time.NewTimer(20 * time.Millisecond)
	<-moment.C
	if got := s.Age(); got < before+20*time.Millisecond {
		t.Errorf("age %v after %v and 20 ms", got, before)
	}
}

// A daemon that was stopped (SIGSTOP) before the connection: the kernel takes the
// connection, and nobody answers.
func TestDaemonThatHangsAtTheConnectionIsLeftAndTriedAgain(t *testing.T) {
	n := newNode(t)
	lis, err := net.Listen("unix", n.socket)
	must(t, err)
	n.until("a sentence on the silence", func(s State) bool {
		return away(s) && s.Problem != "connecting" && !strings.Contains(s.Problem, "no such file")
	})
	must(t, lis.Close())
	n.daemon(fakedaemon.Say(whole("a", 1)))
	n.until("the daemon that answers", has("a", 1))
}

// A daemon that hangs later on: the connection lives and brings nothing.
func TestStreamThatFallsSilentIsLeft(t *testing.T) {
	for name, first := range map[string]*fakedaemon.Message{"before the first message": nil, "after it": whole("a", 1)} {
		t.Run(name, func(t *testing.T) {
			n := newNodeWith(t, 50*time.Millisecond)
			if first != nil {
				first.Status.ResyncInterval = durationpb.New(50 * time.Millisecond)
			}
			hung := fakedaemon.Feed(first, nil)
			d := n.daemon(func(call int, stream fakedaemon.Stream) error {
				if call == 1 {
					return hung(call, stream)
				}
				return fakedaemon.Say(whole("a", 2))(call, stream)
			})
			n.until("the silence", func(s State) bool { return away(s) && strings.Contains(s.Problem, "silent") })
			n.until("the next stream", has("a", 2)) // it promises a message a minute
			if got := d.Calls(); got != 2 {
				t.Errorf("%d calls, want 2", got)
			}
		})
	}
}

func TestDaemonThatPromisesNothingMayBeSilent(t *testing.T) {
	n := newNodeWith(t, 20*time.Millisecond)
	m := whole("a", 1)
	m.Status = nil
	d := n.daemon(fakedaemon.Say(m))
	n.until("the daemon", has("a", 1))
	moment := time.NewTimer(100 * time.Millisecond)
	<-moment.C
	if s, _ := n.Get(); !s.Connected || d.Calls() != 1 {
		t.Errorf("connected %t, %d calls", s.Connected, d.Calls())
	}
}

// discoveryd turns away a peer with the wrong user ID before it reads a byte.
func TestPeerThatIsTurnedAwayIsToldWhy(t *testing.T) {
	n := newNode(t)
	serveRaw(t, n.socket, func(net.Conn) {})
	n.until("the sentence", func(s State) bool {
		return strings.Contains(s.Problem, fmt.Sprintf("--allow-uids lacks user ID %d", os.Geteuid()))
	})
}

func TestLogHasOneLinePerChange(t *testing.T) {
	n := newNode(t)
	feed := make(chan *fakedaemon.Message)
	n.until("the missing socket", func(s State) bool { return strings.Contains(s.Problem, "no such file") })
	d := n.daemon(fakedaemon.Feed(whole("a", 1), feed))
	n.until("the daemon", has("a", 1))
	for i := uint64(2); i < 50; i++ {
		feed <- whole("a", i)
		feed <- &fakedaemon.Message{Status: fakedaemon.Fresh()}
	}
	n.until("the last", has("a", 49))
	if got := n.logs.count("\n"); got != 2 {
		t.Errorf("%d lines, want 2: the socket missing, connected:\n%s", got, n.logs)
	}
	d.Stop()
	n.until("the missing socket", func(s State) bool { return strings.Contains(s.Problem, "no such file") })
	if got := n.logs.count("\n"); got > 4 {
		t.Errorf("%d lines, want at most 4:\n%s", got, n.logs)
	}
}

func TestSocketPathIsTakenLiterally(t *testing.T) {
	dir := filepath.Dir(newNode(t).socket)
	for _, name := range []string{"a?b.sock", "a#b", "a%zzb", "%41", "a b"} {
		n := nodeAt(t, filepath.Join(dir, name), patience)
		n.daemon(fakedaemon.Say(whole("a", 1)))
		n.until("the daemon at "+name, has("a", 1))
	}
}

func TestSocketPathThatIsTooLongIsSaid(t *testing.T) {
	n := nodeAt(t, "/"+strings.Repeat("x", 200), patience)
	n.until("a sentence", func(s State) bool { return away(s) && strings.Contains(s.Problem, "invalid argument") })
}
