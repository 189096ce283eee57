// What Prometheus reads.
//
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/relay"
	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
	"github.com/rdma-relay/rdma-relay/test/fakedaemon"
)

// scrape reads /metrics as Prometheus does; the keys are name{label=value,…}.
func scrape(t *testing.T, from Reporter) map[string]float64 {
	t.Helper()
	code, body, _ := get(t, from, "/metrics")
	if code != 200 {
		t.Fatalf("/metrics answers %d: %s", code, body)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(body))
	must(t, err)
	values := map[string]float64{}
	for name, family := range families {
		if !strings.HasPrefix(name, "rdma_relay_") {
			continue
		}
		for _, m := range family.GetMetric() {
			values[name+labels(m)] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return values
}

func labels(m *dto.Metric) string {
	if len(m.GetLabel()) == 0 {
		return ""
	}
	var all []string
	for _, l := range m.GetLabel() {
		all = append(all, l.GetName()+"="+l.GetValue())
	}
	slices.Sort(all)
	return "{" + strings.Join(all, ",") + "}"
}

func TestEachMetricIsThereWithItsLabels(t *testing.T) {
	got := scrape(t, sample())
	want := map[string]float64{
		"rdma_relay_build_info{version=v1}":             1,
		"rdma_relay_config_info{hash=0123456789abcdef}": 1,
		"rdma_relay_config_load_success":                1,
		"rdma_relay_discovery_connected":                1,
		"rdma_relay_discovery_scan_seconds":             0.25,
		"rdma_relay_snapshot_age_seconds":               1.5,
		"rdma_relay_snapshot_generation":                7,
		"rdma_relay_snapshots_rejected_total":           0,
		"rdma_relay_netns_exclusive":                    0,

		"rdma_relay_port_active{device=mlx5_0,link_layer=ethernet,port=1}": 1,
		"rdma_relay_port_active{device=mlx5_1,link_layer=ethernet,port=1}": 0,

		"rdma_relay_devices{health=healthy,resource=rdma/hca}":                  8,
		"rdma_relay_devices{health=unhealthy,resource=rdma/hca}":                2,
		"rdma_relay_hcas{health=healthy,resource=rdma/hca}":                     1,
		"rdma_relay_hcas{health=unhealthy,resource=rdma/hca}":                   1,
		"rdma_relay_hcas_left_out{resource=rdma/hca}":                           1,
		"rdma_relay_hcas_shared{resource=rdma/hca}":                             2,
		"rdma_relay_hcas_taken{resource=rdma/hca}":                              1,
		"rdma_relay_registered{resource=rdma/hca}":                              1,
		"rdma_relay_session_active{resource=rdma/hca}":                          1,
		"rdma_relay_sessions_total{resource=rdma/hca}":                          3,
		"rdma_relay_sessions_superseded_total{resource=rdma/hca}":               2,
		"rdma_relay_lists_sent_total{resource=rdma/hca}":                        11,
		"rdma_relay_registrations_total{resource=rdma/hca,result=ok}":           4,
		"rdma_relay_registrations_total{resource=rdma/hca,result=refused}":      5,
		"rdma_relay_registrations_total{resource=rdma/hca,result=unreachable}":  6,
		"rdma_relay_allocations_total{resource=rdma/hca,result=ok}":             7,
		"rdma_relay_allocations_total{resource=rdma/hca,result=error}":          8,
		"rdma_relay_devices{health=healthy,resource=rdma/none}":                 0,
		"rdma_relay_devices{health=unhealthy,resource=rdma/none}":               0,
		"rdma_relay_hcas{health=healthy,resource=rdma/none}":                    0,
		"rdma_relay_hcas{health=unhealthy,resource=rdma/none}":                  0,
		"rdma_relay_hcas_left_out{resource=rdma/none}":                          0,
		"rdma_relay_hcas_shared{resource=rdma/none}":                            0,
		"rdma_relay_hcas_taken{resource=rdma/none}":                             0,
		"rdma_relay_registered{resource=rdma/none}":                             0,
		"rdma_relay_session_active{resource=rdma/none}":                         0,
		"rdma_relay_sessions_total{resource=rdma/none}":                         0,
		"rdma_relay_sessions_superseded_total{resource=rdma/none}":              0,
		"rdma_relay_lists_sent_total{resource=rdma/none}":                       0,
		"rdma_relay_registrations_total{resource=rdma/none,result=ok}":          0,
		"rdma_relay_registrations_total{resource=rdma/none,result=refused}":     0,
		"rdma_relay_registrations_total{resource=rdma/none,result=unreachable}": 0,
		"rdma_relay_allocations_total{resource=rdma/none,result=ok}":            0,
		"rdma_relay_allocations_total{resource=rdma/none,result=error}":         0,
	}
	for key, value := range want {
		if have, there := got[key]; !there || have != value {
			t.Errorf("%s is %v (there: %t), want %v", key, have, there, value)
		}
	}
	for key := range got {
		if _, wanted := want[key]; !wanted {
			t.Errorf("%s is not expected", key)
		}
	}
}

func TestMetricsKeepToPrometheusRules(t *testing.T) {
	reg := register(t, sample())
	observe, err := AllocationSeconds(reg)
	must(t, err)
	observe(3 * time.Millisecond)
	families, err := reg.Gather()
	must(t, err)
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	must(t, err)
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	there := map[string]bool{}
	for _, f := range families {
		there[f.GetName()] = true
		if f.GetName() == "rdma_relay_allocation_seconds" {
			if h := f.GetMetric()[0].GetHistogram(); h.GetSampleCount() != 1 || h.GetSampleSum() != 0.003 {
				t.Errorf("histogram %v", h)
			}
		}
	}
	for _, name := range []string{"rdma_relay_allocation_seconds", "go_goroutines", "process_open_fds"} {
		if !there[name] {
			t.Errorf("no %s", name)
		}
	}
}

func TestBeforeTheFirstSnapshotThereIsNoAge(t *testing.T) {
	got := scrape(t, &reporter{rep: relay.Report{Version: "v1"}})
	for key := range got {
		if strings.Contains(key, "snapshot_age") || strings.Contains(key, "generation") || strings.Contains(key, "port_active") {
			t.Errorf("%s = %v says something of nothing", key, got[key])
		}
	}
	if v, there := got["rdma_relay_discovery_connected"]; !there || v != 0 {
		t.Errorf("connected: %v, there: %t", v, there)
	}
}

// A session can be missing before anything is known of devices.
func TestResourceThatWaitsForTheFirstSnapshotHasNoNumberOfDevices(t *testing.T) {
	got := scrape(t, &reporter{rep: relay.Report{Resources: []relay.ResourceReport{{Name: "rdma/hca", Waiting: true}}}})
	if v, there := got["rdma_relay_session_active{resource=rdma/hca}"]; !there || v != 0 {
		t.Errorf("session_active: %v, there: %t", v, there)
	}
	for key := range got {
		if strings.HasPrefix(key, "rdma_relay_devices") || strings.HasPrefix(key, "rdma_relay_hcas") {
			t.Errorf("%s = %v", key, got[key])
		}
	}
}

func TestMetricsFollowTheReport(t *testing.T) {
	r := sample()
	before := scrape(t, r)
	r.set(func(rep *relay.Report) {
		rep.Resources = rep.Resources[:1]
		rep.Config.Problem, rep.Config.Hash = "bad", "fedcba9876543210"
		rep.Discovery.Connected, rep.Discovery.NetnsMode, rep.Discovery.Rejected = false, "exclusive", 9
	})
	after := scrape(t, r)
	for key := range after {
		if strings.Contains(key, "rdma/none") {
			t.Errorf("%s is still there", key)
		}
	}
	for key, want := range map[string]float64{
		"rdma_relay_config_load_success": 0, "rdma_relay_discovery_connected": 0, "rdma_relay_netns_exclusive": 1,
		"rdma_relay_snapshots_rejected_total": 9, "rdma_relay_config_info{hash=fedcba9876543210}": 1,
	} {
		if got := after[key]; got != want || before[key] == want {
			t.Errorf("%s went from %v to %v, want %v", key, before[key], got, want)
		}
	}
}

// What comes from outside can't take the other metrics away.
func TestStrangeDevicesDoNotSpoilTheScrape(t *testing.T) {
	const active = discoveryv1.PortState_PORT_STATE_ACTIVE
	for name, devices := range map[string][]*discoveryv1.Device{
		"name that is not UTF-8":         {{Name: "mlx\xff5", Ports: []*discoveryv1.Port{port(1, active)}}},
		"two names that look the same":   {{Name: "mlx\xff", Ports: []*discoveryv1.Port{port(1, active)}}, {Name: "mlx\xfe", Ports: []*discoveryv1.Port{port(1, active)}}},
		"doubled device":                 {fakedaemon.HCA(0), fakedaemon.HCA(0)},
		"doubled port":                   {{Name: "a", Ports: []*discoveryv1.Port{port(1, active), port(1, 0)}}},
		"port of two link layers":        {{Name: "a", Ports: []*discoveryv1.Port{{Number: 1, LinkLayer: 1}, {Number: 1, LinkLayer: 2}}}},
		"nameless functions with a port": {{Ports: []*discoveryv1.Port{port(1, active)}}, {Ports: []*discoveryv1.Port{port(1, active)}}},
		"nothing at all":                 {nil, {}, {Name: "a", Ports: []*discoveryv1.Port{nil, nil}}},
		"a name of newlines and quotes":  {{Name: "a\"\n\\", Ports: []*discoveryv1.Port{port(4294967295, active)}}},
	} {
		t.Run(name, func(t *testing.T) {
			r := sample()
			r.set(func(rep *relay.Report) { rep.Snapshot = fakedaemon.Snapshot("a", 1, devices...) })
			if _, err := register(t, r).Gather(); err != nil {
				t.Errorf("gather: %v", err)
			}
			if got := scrape(t, r); got["rdma_relay_devices{health=healthy,resource=rdma/hca}"] != 8 {
				t.Errorf("the other metrics: %v", got)
			}
		})
	}
}

func TestFloodOfPortsIsBounded(t *testing.T) {
	device := &discoveryv1.Device{Name: "mlx5_0"}
	for i := range uint32(20_000) {
		device.Ports = append(device.Ports, port(i, 0))
	}
	r := sample()
	r.set(func(rep *relay.Report) { rep.Snapshot = fakedaemon.Snapshot("a", 1, device) })
	count := 0
	for key := range scrape(t, r) {
		if strings.HasPrefix(key, "rdma_relay_port_active") {
			count++
		}
	}
	if count == 0 || count > maxPorts {
		t.Errorf("%d series of ports", count)
	}
}

// One bad metric is an error in the log and no more.
func TestOneBadMetricDoesNotHideTheOthers(t *testing.T) {
	r := sample()
	r.set(func(rep *relay.Report) { rep.Resources = append(rep.Resources, rep.Resources[1]) }) // can't be, by config's rules
	if got := scrape(t, r); got["rdma_relay_devices{health=healthy,resource=rdma/hca}"] != 8 {
		t.Errorf("%v", got)
	}
}

func TestRegisteringTwiceIsAnError(t *testing.T) {
	reg := register(t, sample())
	if _, err := AllocationSeconds(reg); err != nil {
		t.Fatal(err)
	}
	if _, err := AllocationSeconds(reg); err == nil {
		t.Error("a second histogram of the same name was taken")
	}
	if err := Register(reg, sample()); err == nil {
		t.Error("the runtime's metrics were taken twice")
	}
}

var _ prometheus.Collector = collector{}

func TestLinkLayers(t *testing.T) {
	for layer, want := range map[discoveryv1.LinkLayer]string{0: "unknown", 1: "infiniband", 2: "ethernet", 77: "unknown"} {
		if got := linkLayer(layer); got != want {
			t.Errorf("%v: %s, want %s", fmt.Sprint(layer), got, want)
		}
	}
}
