// The campaign: steps of faults, and after each the question whether all is well.
//
// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rdma-relay/rdma-relay/test/fakekubelet"
)

var (
	seed  = flag.Uint64("chaos.seed", 1, "where chance begins; 0 is another one each time")
	steps = flag.Int("chaos.steps", 15, "how many steps of faults")
	only  = flag.String("chaos.only", "", "run only these steps of the campaign, such as 3,17")
	bound = flag.Duration("chaos.bound", 15*time.Second, "how long kubelet's list may be wrong after the faults of a step have ended")
)

// TestCampaign runs a campaign against each book-keeping of kubelet. To run a failed
// one again, or only the steps that matter:
//
//	go test ./test/chaos -chaos.seed=7 -chaos.only=3,17
func TestCampaign(t *testing.T) {
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	for _, b := range []fakekubelet.Bookkeeping{fakekubelet.ByPath, fakekubelet.ByName} {
		t.Run(b.String(), func(t *testing.T) {
			t.Parallel()
			campaign(t, b)
		})
	}
}

func campaign(t *testing.T, b fakekubelet.Bookkeeping) {
	chosen, err := chosenSteps()
	must(t, err)
	n := newNode(t, b)
	if _, err := n.settle(30 * time.Second); err != nil {
		t.Fatal("before any fault: ", err)
	}
	var took []time.Duration
	known := owners{}
	for _, i := range chosen {
		what, d, err := n.step(rand.New(rand.NewPCG(*seed, uint64(i))), known)
		if err != nil {
			n.keepLogs()
			t.Fatalf("%s, seed %d, step %d: %s: %v", b, *seed, i, strings.Join(what, " + "), err)
		}
		if testing.Verbose() {
			t.Logf("step %d: right after %v: %s", i, d.Round(time.Millisecond), strings.Join(what, " + "))
		}
		took = append(took, d)
	}
	slices.Sort(took)
	at := func(percent int) time.Duration {
		return took[min(len(took)-1, len(took)*percent/100)].Round(time.Millisecond)
	}
	fmt.Printf("MEASURED chaos %s, seed %d: %d steps with %d kubelet kills; right again after p50 %v, p90 %v, p99 %v, at most %v\n",
		b, *seed, len(took), n.kills, at(50), at(90), at(99), at(100))
}

// step does some harm, ends what of it lasts, and checks that all becomes right.
func (n *node) step(r *rand.Rand, known owners) (what []string, took time.Duration, err error) {
	since := len(n.kubelet.State().Responses)
	var harm []fault
	if r.IntN(3) > 0 {
		harm = append(harm, kubeletFaults[r.IntN(len(kubeletFaults))])
	}
	for range 1 + r.IntN(3) {
		harm = append(harm, otherFaults[r.IntN(len(otherFaults))])
	}
	r.Shuffle(len(harm), func(i, j int) { harm[i], harm[j] = harm[j], harm[i] })
	var ends []func() error
	for _, f := range harm {
		what = append(what, f.name)
		end, err := f.hit(n, r)
		if end != nil {
			ends = append(ends, end)
		}
		if serious(err) {
			return what, 0, fmt.Errorf("%s: %w", f.name, err)
		}
		wait(r, 5*time.Millisecond)
	}
	slices.Reverse(ends)
	for _, end := range ends {
		if err := end(); serious(err) {
			return what, 0, fmt.Errorf("end of a fault: %w", err)
		}
	}
	// What ended one fault may have met the harm of another: nothing is left undone.
	if err := errors.Join(n.discoveryd.start(), n.proxy.start()); err != nil {
		return what, 0, err
	}
	if took, err = n.settle(*bound); err != nil {
		return what, 0, err
	}
	return what, took, errors.Join(known.check(n), listed(n.kubelet.State(), since))
}

func chosenSteps() (chosen []int, err error) {
	if *only == "" {
		for i := range *steps {
			chosen = append(chosen, i)
		}
		return chosen, nil
	}
	for _, text := range strings.Split(*only, ",") {
		i, err := strconv.Atoi(text)
		if err != nil {
			return nil, fmt.Errorf("-chaos.only: %w", err)
		}
		chosen = append(chosen, i)
	}
	return chosen, nil
}

// keepLogs shows the end of what the programs said.
func (n *node) keepLogs() {
	for _, p := range []*process{n.discoveryd, n.proxy} {
		text, err := os.ReadFile(p.log)
		if err != nil {
			n.t.Error(err)
		}
		n.t.Logf("the end of %s's log:\n%s", p.name(), text[max(0, len(text)-6000):])
	}
	n.t.Logf("kubelet: %s", n.kubelet.State())
}
