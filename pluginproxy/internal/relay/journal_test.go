// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"fmt"
	"testing"
)

// What is rare stays: also when the rare comes last.
func TestFullJournalLetsTheMostFrequentKindGo(t *testing.T) {
	var j journal
	j.add(KindSession, "rdma/hca", "began")
	for i := range 2 * maxChanges {
		j.add(KindSnapshot, "", fmt.Sprint(i))
	}
	j.add(KindConfig, "", "loaded")
	j.add(KindSession, "rdma/hca", "ended")
	number := map[string]int{}
	all := j.list()
	for _, c := range all {
		number[c.Kind]++
	}
	if len(all) != maxChanges || number[KindSession] != 2 || number[KindConfig] != 1 {
		t.Errorf("%d changes: %v", len(all), number)
	}
	if all[0].Text != "ended" || all[2].Text != "99" || all[len(all)-1].Text != "began" {
		t.Errorf("not the newest first, or the wrong ones: %v", all)
	}
}
