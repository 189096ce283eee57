// How soon after the end of a session a plugin may register again while kubelet
// stays: measured, since it is a race inside of kubelet.
//
// SPDX-License-Identifier: Apache-2.0

package k8s

import (
	"fmt"
	"testing"
	"time"
)

// A stream ends and the plugin registers again, on a fresh path. 1.37 keeps its books
// by path and takes that at any moment. 1.36 keeps them by name: what it does at the
// end of the old stream may hit the new session, which is then cut off, or stopped
// while its stream lives on. So our rule: wait until kubelet has closed
// the connection, and 100 ms more.
func TestFactRegisterAgainAfterTheEndOfAStream(t *testing.T) {
	const rounds = 30
	for _, c := range []struct {
		name  string
		wait  func(p *plugin) // between the handler's end and the Register
		right bool            // on every release
	}{
		{"at once", func(*plugin) {}, kubeletRelease != "1.36"},
		{"connection closed", func(p *plugin) { receive(p.t, "close", p.conns.closed) }, kubeletRelease != "1.36"},
		{"connection closed and 100 ms", func(p *plugin) {
			receive(p.t, "close", p.conns.closed)
			<-time.After(100 * time.Millisecond)
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := startKubelet(t, shortDir(t))
			p := servePlugin(t, k.dir, "0.sock", 4)
			p.mustRegister(widget)
			s := p.stream()
			k.wait(widget, full(4))
			wrong := map[string]int{}
			for i := range rounds {
				s.finish <- nil
				c.wait(p)
				p = servePlugin(t, k.dir, fmt.Sprintf("%d.sock", i+1), 4)
				p.mustRegister(widget)
				s = p.stream()
				if what := k.stateOf(s); what != "" {
					wrong[what]++
					// The next round begins with a clean kubelet.
					k.restart()
					p = servePlugin(t, k.dir, fmt.Sprintf("%d-again.sock", i+1), 4)
					p.mustRegister(widget)
					s = p.stream()
					k.wait(widget, full(4))
				}
			}
			t.Logf("%d of %d went wrong %v", sum(wrong), rounds, wrong)
			if c.right && len(wrong) > 0 {
				t.Errorf("want none")
			}
		})
	}
}

// stateOf says what is wrong with the session that was opened last, once the dust
// has settled.
func (k *kubelet) stateOf(s *pluginStream) string {
	select {
	case <-s.ended:
		return "new session cut off"
	case <-time.After(50 * time.Millisecond):
	}
	if err := k.probe(widget); err != nil {
		return "stream lives, Allocate fails"
	}
	if k.counts(widget) != full(4) {
		return "stream lives, devices not healthy"
	}
	return ""
}

func sum(m map[string]int) (n int) {
	for _, v := range m {
		n += v
	}
	return n
}
