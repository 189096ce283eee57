// SPDX-License-Identifier: Apache-2.0

package fakekubelet_test

// This file shows what Register accepts, refuses and does inside the call.

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/rdma-relay/rdma-relay/test/fakekubelet"
)

func TestRegisterTakesExtendedResourceNamesOnly(t *testing.T) {
	k := start(t, fakekubelet.Options{})
	serve(t, k.Dir(), "p.sock", "w", 1)
	for name, good := range map[string]bool{
		"test.example/widget":   true,
		"test.example/W_i.d-g9": true,
		"widget":                false,
		"kubernetes.io/w":       false,
		"x.kubernetes.io/w":     false,
		"requests.example/w":    false,
		"a/b/c":                 false,
		"A.example/w":           false,
		"ex_ample/w":            false,
		"test.example/-w":       false,
		"test.example/" + strings.Repeat("w", 63): true,
		"test.example/" + strings.Repeat("w", 64): false,
		strings.Repeat("d.", 121) + "dd/w":        true,  // prefix of 244
		strings.Repeat("d.", 121) + "ddd/w":       false, // prefix of 245
		"":                                        false,
	} {
		err := registerAs(t, k, &pluginapi.RegisterRequest{Version: pluginapi.Version, Endpoint: "p.sock", ResourceName: name})
		if (err == nil) != good {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestRegisterTakesVersionV1beta1Only(t *testing.T) {
	k := start(t, fakekubelet.Options{})
	serve(t, k.Dir(), "p.sock", "w", 1)
	err := registerAs(t, k, &pluginapi.RegisterRequest{Version: "v1alpha1", Endpoint: "p.sock", ResourceName: widget})
	if status.Code(err) != codes.Unknown || !strings.Contains(err.Error(), "not supported by kubelet") {
		t.Errorf("error %v", err)
	}
	if r := k.State().Registrations[0]; !r.Refused() || r.Version != "v1alpha1" {
		t.Errorf("recorded %+v", r)
	}
}

func TestRegisterDialsUntilItsTimeout(t *testing.T) {
	const timeout = 50 * time.Millisecond
	k := start(t, fakekubelet.Options{DialTimeout: timeout})
	begin := time.Now()
	err := register(t, k, "nobody.sock")
	if err == nil || !strings.Contains(err.Error(), "failed to dial device plugin") {
		t.Errorf("error %v", err)
	}
	if took := time.Since(begin); took < timeout {
		t.Errorf("gave up after %v", took)
	}
	if n := len(k.State().Sessions); n != 0 {
		t.Errorf("%d sessions", n)
	}
}

func TestRegisterFailsWhenThePluginAnswersNoOptions(t *testing.T) {
	k := start(t, fakekubelet.Options{})
	serve(t, k.Dir(), "p.sock", "w", 1).opts = nil
	err := register(t, k, "p.sock")
	if err == nil || !strings.Contains(err.Error(), "failed to get device plugin options") {
		t.Errorf("error %v", err)
	}
}

func TestR11RefuseNextCountsDown(t *testing.T) {
	k := start(t, fakekubelet.Options{})
	serve(t, k.Dir(), "p.sock", "w", 1)
	k.RefuseNext(2, status.Error(codes.Unavailable, "not now"))
	for i := range 2 {
		if err := register(t, k, "p.sock"); status.Code(err) != codes.Unavailable {
			t.Errorf("Register %d: %v", i, err)
		}
	}
	check(t, register(t, k, "p.sock"))
	k.RefuseNext(-1, nil)
	for range 3 {
		if err := register(t, k, "p.sock"); err == nil {
			t.Error("accepted")
		}
	}
	k.RefuseNext(0, nil)
	wait(t, k, fakekubelet.Listed(widget, 1, 1))
	accepted := 0
	for _, r := range k.State().RegistrationsOf(widget) {
		if r.Accepted() {
			accepted++
		}
	}
	if n := len(k.State().RegistrationsOf(widget)); n != 6 || accepted != 1 {
		t.Errorf("%d of %d accepted", accepted, n)
	}
}

func TestDialBackFailsCountsDown(t *testing.T) {
	k := start(t, fakekubelet.Options{DialTimeout: 20 * time.Millisecond})
	serve(t, k.Dir(), "p.sock", "w", 1)
	k.DialBackFails(1)
	if err := register(t, k, "p.sock"); err == nil || !strings.Contains(err.Error(), "failed to dial device plugin") {
		t.Errorf("error %v", err)
	}
	k.SetDialTimeout(0)
	check(t, register(t, k, "p.sock"))
}

func TestR10SlowRegisterAnswersLate(t *testing.T) {
	for _, tc := range []struct {
		name     string
		slow     func(*fakekubelet.Kubelet, time.Duration)
		sessions int // seen while the answer is due
	}{
		{"before the dial there is no session", (*fakekubelet.Kubelet).SlowRegister, 0},
		{"before the answer there is one", (*fakekubelet.Kubelet).SlowAnswer, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k := start(t, fakekubelet.Options{})
			serve(t, k.Dir(), "p.sock", "w", 1)
			tc.slow(k, time.Hour)
			ctx, cancel := context.WithCancel(t.Context())
			answer := make(chan error, 1)
			go func() { answer <- registerWith(ctx, k, "p.sock") }()
			wait(t, k, func(s fakekubelet.State) bool {
				return len(s.Registrations) == 1 && s.Registrations[0].Answered.IsZero() && len(s.Responses) == tc.sessions
			})
			cancel()
			if err := <-answer; status.Code(err) != codes.Canceled {
				t.Errorf("answer %v", err)
			}
			wait(t, k, func(s fakekubelet.State) bool { return s.Registrations[0].Refused() })
			if n := len(k.State().LiveSessions(widget)); n != tc.sessions {
				t.Errorf("%d live sessions afterwards", n)
			}
		})
	}
}

func TestKillEndsARegisterUnderWay(t *testing.T) {
	k := start(t, fakekubelet.Options{})
	k.SlowRegister(time.Hour)
	answer := make(chan error, 1)
	go func() { answer <- registerWith(deadline(t), k, "p.sock") }()
	wait(t, k, func(s fakekubelet.State) bool { return len(s.Registrations) == 1 })
	check(t, k.Kill())
	if err := <-answer; status.Code(err) != codes.Unavailable {
		t.Errorf("answer %v", err)
	}
}

func TestListAboveFourMiBEndsTheStream(t *testing.T) {
	k := start(t, fakekubelet.Options{})
	const kib = 1 << 10
	pad := strings.Repeat("x", kib-32)
	serve(t, k.Dir(), "fits.sock", pad, 4000)
	serve(t, k.Dir(), "big.sock", pad, 4400)
	check(t, register(t, k, "fits.sock"))
	wait(t, k, fakekubelet.Listed(widget, 4000, 4000))
	check(t, registerAs(t, k, &pluginapi.RegisterRequest{Version: pluginapi.Version, Endpoint: "big.sock", ResourceName: "test.example/big"}))
	wait(t, k, func(s fakekubelet.State) bool { return len(s.Sessions) == 2 && !s.Sessions[1].Ended.IsZero() })
	s := k.State()
	if status.Code(s.Sessions[1].Err) != codes.ResourceExhausted || s.Capacity("test.example/big") != 0 {
		t.Errorf("session ended with %v; %d devices", s.Sessions[1].Err, s.Capacity("test.example/big"))
	}
}
