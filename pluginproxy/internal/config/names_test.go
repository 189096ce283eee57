// Tests of resource names, by the rules of kubelet's Register.
//
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"strings"
	"testing"
)

func TestNamesThatKubeletTakesAreTaken(t *testing.T) {
	for _, tc := range [][2]string{
		{"rdma", "hca"}, {"rdma", "hca_shared_devices_a"}, {"rdma", "A.b-c_9"}, {"rdma", strings.Repeat("x", 63)},
		{"example.com", "x"}, {strings.TrimSuffix(strings.Repeat("a.", 122), "."), "x"}, {"0-0.1", "1"},
	} {
		cfg := mustParse(t, named(tc[0], tc[1]))
		if got := cfg.Resources[0].Name(); got != tc[0]+"/"+tc[1] {
			t.Errorf("name %q", got)
		}
	}
	if got := mustParse(t, named("", "hca")).Resources[0].Name(); got != "rdma/hca" {
		t.Errorf("with an empty prefix: %q", got)
	}
}

func TestNamesThatKubeletRefusesAreRefused(t *testing.T) {
	for _, tc := range []struct{ prefix, name, want string }{
		{"rdma", "", `resourceName: "" is empty`},
		{"rdma", "-a", "is no Kubernetes name"},
		{"rdma", "a.", "is no Kubernetes name"},
		{"rdma", "a b", "is no Kubernetes name"},
		{"rdma", "ä", "is no Kubernetes name"},
		{"rdma", `a\u0000`, "is no Kubernetes name"},
		{"rdma", `a\n`, "is no Kubernetes name"},
		{"rdma", "nvidia.com/hca", "resourceName: \"nvidia.com/hca\" may not hold a slash; the part before it belongs into resourcePrefix"},
		{"rdma", strings.Repeat("x", 64), "is too long: at most 63"},
		{"example_prefix", "a", `resourcePrefix: "example_prefix" is no lower-case DNS name`},
		{"Example.com", "a", "is no lower-case DNS name"},
		{"a..b", "a", "is no lower-case DNS name"},
		{"-a", "a", "is no lower-case DNS name"},
		{"a/b", "a", "is no lower-case DNS name"},
		{`rdma\n`, "a", "is no lower-case DNS name"},
		{strings.Repeat("a", 245), "a", "is too long: at most 244"},
		{"requests.rdma", "a", `may not begin with "requests."`},
		{"kubernetes.io", "a", `may not end with "kubernetes.io"`},
		{"x.kubernetes.io", "a", `may not end with "kubernetes.io"`},
	} {
		mustRefuse(t, named(tc.prefix, tc.name), "configList[0].resource", tc.want)
	}
	mustRefuse(t, `{"configList":[{"resourceName":7,"rdmaHcaMax":1,"selectors":{"ifNames":["a"]}}]}`,
		"configList[0].resourceName: is the number 7, not text; write it in quotes")
}

func named(prefix, name string) string {
	return `{"configList":[{"resourcePrefix":"` + prefix + `","resourceName":"` + name + `","rdmaHcaMax":1,"selectors":{"ifNames":["ib0"]}}]}`
}

func two(a, b string) string {
	rest := `,"rdmaHcaMax":1,"selectors":{"ifNames":["ib0"]}}`
	return `{"configList":[{` + a + rest + `,{` + b + rest + `]}`
}

func TestDoubledNamesAreRefusedAndTheSameNameUnderAnotherPrefixIsNot(t *testing.T) {
	mustRefuse(t, two(`"resourceName":"a"`, `"resourcePrefix":"rdma","resourceName":"a"`),
		"configList[1].resourceName: rdma/a is also the name of configList[0]")
	cfg := mustParse(t, two(`"resourceName":"a"`, `"resourcePrefix":"example.com","resourceName":"a"`))
	wantWarning(t, cfg, "")
	if a, b := cfg.Resources[0].EnvSuffix(), cfg.Resources[1].EnvSuffix(); a != "RDMA_A" || b != "EXAMPLE_COM_A" {
		t.Errorf("variables %s and %s", a, b)
	}
}

func TestNamesThatShareAnEnvironmentVariableAreWarnedOf(t *testing.T) {
	cfg := mustParse(t, two(`"resourceName":"hca-a"`, `"resourceName":"HCA_a"`))
	wantWarning(t, cfg, "configList[1].resourceName: rdma/HCA_a and rdma/hca-a share the environment variable PCIDEVICE_RDMA_HCA_A")
}
