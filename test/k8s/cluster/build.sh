#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Collects in bin/cluster all that the cluster is made of:
#
#   kube-apiserver …  built from the Kubernetes that test/k8s/go.mod pins
#   containerd …      built from tools/containerd, helm from tools/helm
#   etcd runc cni prometheus promtool
#                     those of this machine, or unpacked (not installed) from Debian's packages
#   pod               the program of the pods that the tests make
#   images            ours, by test/images/build.sh
#
# What is up to date is not built again. Needs Go; Debian's apt for what is missing.
set -euo pipefail
cd "$(dirname "$0")"
root=$(cd ../../.. && pwd)
bin=$root/bin/cluster
mkdir -p "$bin"

fail() { echo "$0: $*" >&2; exit 1; }
step() { printf '%4d s  %s\n' "$SECONDS" "$*"; }

# fetch PACKAGE unpacks a package of Debian, or of what is like it.
fetch() {
	[ ! -e "$bin/deb/$1/usr" ] || return 0
	command -v apt-get >/dev/null || fail "$1 is not here, and neither is apt-get to get it with"
	step "download $1"
	rm -rf "$bin/deb/$1" && mkdir -p "$bin/deb/$1"
	(
		cd "$bin/deb/$1"
		if ! apt-get -qq download "$1" 2>/dev/null; then
			[ "$(id -u)" = 0 ] || fail "apt has no $1; try apt-get update, which needs root"
			apt-get -qq update && apt-get -qq download "$1"
		fi
		dpkg -x ./*.deb . && rm ./*.deb
	)
}

# have NAME PACKAGE PATH… links bin/cluster/NAME to the first PATH that is there, on
# this machine or in the package.
have() {
	local name=$1 package=$2 path
	shift 2
	[ ! -e "$bin/$name" ] || return 0
	for path in "$@"; do [ ! -e "$path" ] || { ln -sfn "$path" "$bin/$name"; return; }; done
	fetch "$package"
	for path in "$@"; do [ ! -e "$bin/deb/$package$path" ] || { ln -sfn "$bin/deb/$package$path" "$bin/$name"; return; }; done
	fail "Debian's $package has none of $*"
}

have etcd etcd-server /usr/bin/etcd
have runc runc /usr/sbin/runc /usr/bin/runc
have cni containernetworking-plugins /usr/lib/cni /opt/cni/bin
have prometheus prometheus /usr/bin/prometheus
have promtool prometheus /usr/bin/promtool

# As the tests of this module are built, which is what makes one build cache do: no
# -trimpath, no CGO_ENABLED of our own. The version is needed: kubelet and API server
# tell each other theirs.
release=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
minor=${release#v1.}
stamp="-s -w"
for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
	stamp+=" -X $package.gitVersion=$release -X $package.gitMajor=1 -X $package.gitMinor=${minor%%.*} -X $package.gitTreeState=clean"
done
step "Kubernetes $release"
go build -ldflags "$stamp" -o "$bin/" k8s.io/kubernetes/cmd/{kubelet,kube-apiserver,kube-controller-manager,kube-scheduler,kubectl}

step containerd
CGO_ENABLED=0 go build -C "$root/tools/containerd" -tags "no_btrfs no_devmapper no_zfs no_aufs" -ldflags "-s -w" -o "$bin/" \
	github.com/containerd/containerd/v2/cmd/{containerd,containerd-shim-runc-v2,ctr}
step helm
CGO_ENABLED=0 go build -C "$root/tools/helm" -ldflags "-s -w" -o "$bin/" helm.sh/helm/v4/cmd/helm
step "pod program"
CGO_ENABLED=0 go build -ldflags "-s -w" -o "$bin/" ./pod

step "our images"
if ! docker info >/dev/null 2>&1; then
	if ! command -v buildah >/dev/null; then
		if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then fail "neither a docker that answers nor buildah is here"; fi
		apt-get -qq update && apt-get -qq install --no-install-recommends buildah
	fi
	export LOCAL_BASE=${LOCAL_BASE-1}
fi
VERSION=e2e OUT=$bin/images PLATFORMS=linux/$(go env GOARCH) "$root/test/images/build.sh" save
step ready
