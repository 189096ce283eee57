// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

func TestCountsAndShowsOnlyWhatFailed(t *testing.T) {
	in := `{"Action":"output","Package":"p","Test":"TestGood","Output":"quiet\n"}
{"Action":"output","Package":"p","Test":"TestGood","Output":"MEASURED x 1 ms\n"}
{"Action":"output","Package":"p","Test":"TestGood","Output":"NOTE downloading y\n"}
{"Action":"pass","Package":"p","Test":"TestGood"}
{"Action":"output","Package":"p","Test":"TestBad","Output":"why it failed\n"}
{"Action":"fail","Package":"p","Test":"TestBad"}
{"Action":"skip","Package":"p","Test":"TestSkipped"}
{"Action":"fail","Package":"p","Elapsed":1.5}
not json
`
	var out strings.Builder
	got, err := summarise(strings.NewReader(in), &out)
	if err != nil {
		t.Fatal(err)
	}
	if want := (counts{passed: 1, failed: 1, skipped: 1, broken: true}); got != want {
		t.Errorf("counts %+v, want %+v", got, want)
	}
	for text, want := range map[string]bool{"quiet": false, "MEASURED x": true, "NOTE downloading y": true, "why it failed": true, "fail  p  1.5s": true, "not json": true} {
		if strings.Contains(out.String(), text) != want {
			t.Errorf("output shows %q: %v, want %v\n%s", text, !want, want, out.String())
		}
	}
}

func TestABuildThatFailsIsNoSuccess(t *testing.T) {
	got, err := summarise(strings.NewReader(`{"Action":"build-fail","ImportPath":"p"}`), &strings.Builder{})
	if err != nil || !got.broken {
		t.Errorf("counts %+v, error %v; want broken", got, err)
	}
}
