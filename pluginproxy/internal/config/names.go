// Resource names: the rules by which kubelet's Register accepts a name, and the
// environment variables that are made of it.
//
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"regexp"
	"strings"
)

const (
	// maxPrefixBytes leaves room for the "requests." that kubelet puts before the
	// name when it checks it as a quota name of at most 253 bytes.
	maxPrefixBytes    = 253 - len("requests.")
	maxShortNameBytes = 63
)

var (
	dnsSubdomain = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	shortName    = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`)
	notInEnv     = regexp.MustCompile(`[^A-Z0-9_]`)
)

// name decodes the two halves of the name and tells whether both are legal: what
// IsExtendedResourceName of k8s.io/kubernetes/pkg/apis/core/v1/helper takes.
func (f *fields) name(r *Resource) bool {
	faults := len(f.d.faults)
	r.Prefix = f.text(keyPrefix)
	if r.Prefix == "" {
		r.Prefix = defaultPrefix
	}
	if fault := prefixFault(r.Prefix); fault != "" {
		f.d.fail(f.join(keyPrefix), "%s %s", quote(r.Prefix), fault)
	}
	if _, set := f.values[keyName]; !set {
		f.d.fail(f.join(keyName), "is missing; pods ask for %s/<%s>", clip(r.Prefix), keyName)
		return false
	}
	r.ShortName = f.text(keyName)
	if fault := shortNameFault(r.ShortName); fault != "" && len(f.d.faults) == faults {
		f.d.fail(f.join(keyName), "%s %s", quote(r.ShortName), fault)
	}
	return len(f.d.faults) == faults
}

func prefixFault(prefix string) string {
	switch {
	case len(prefix) > maxPrefixBytes:
		return "is too long: at most 244 characters are allowed"
	case strings.HasPrefix(prefix, "requests."):
		return `may not begin with "requests."`
	case strings.HasSuffix(prefix, "kubernetes.io"):
		return `may not end with "kubernetes.io", which Kubernetes keeps for itself`
	case !dnsSubdomain.MatchString(prefix):
		return "is no lower-case DNS name such as rdma or example.com"
	}
	return ""
}

func shortNameFault(name string) string {
	switch {
	case name == "":
		return "is empty"
	case strings.Contains(name, "/"):
		return "may not hold a slash; the part before it belongs into " + keyPrefix
	case len(name) > maxShortNameBytes:
		return "is too long: at most 63 characters are allowed"
	case !shortName.MatchString(name):
		return "is no Kubernetes name: letters, digits, '-', '_' and '.' are allowed, with a letter or digit at both ends"
	}
	return ""
}

// EnvSuffix is what follows PCIDEVICE_ and RDMADEVICE_ in the names of the
// variables that containers get: the resource's name in upper case, all else than
// letters and digits as an underscore (rdma/hca-a gives RDMA_HCA_A).
func (r *Resource) EnvSuffix() string {
	return notInEnv.ReplaceAllString(strings.ToUpper(r.Prefix+"_"+r.ShortName), "_")
}
