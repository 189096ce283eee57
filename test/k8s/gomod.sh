#!/bin/sh
# Writes the go.mod (and go.sum) that lets this folder build kubelet's own
# packages of one Kubernetes release.
#
#   ./gomod.sh v1.37.2 go.mod              move the folder to another release
#   ./gomod.sh v1.36.3 /tmp/k136/go.mod    a second one beside it, for -modfile
#
# Kubernetes' go.mod points at its staging directories, which a user of the
# module does not have: every one is replaced by the published module of the same
# release. The versions it requires as v0.0.0 are set to the same, so that no later
# rewrite of the file changes what is required, which would throw away
# the build cache of these 1,200 packages.
#
# SPDX-License-Identifier: Apache-2.0
set -eu

[ $# -eq 2 ] || { echo "usage: $0 v1.X.Y path/to/go.mod" >&2; exit 2; }
release=$1 out=$2
staging=v0${release#v1}
self=$(cd "$(dirname "$0")" && pwd)
case $out in /*) ;; *) out=$PWD/$out ;; esac
cd "$self"

# Outside of any module: this folder's go.mod may be the very one that is broken.
upstream=$(cd / && GOFLAGS= go mod download -json "k8s.io/kubernetes@$release" | sed -n 's/^.*"GoMod": "\(.*\)".*$/\1/p')
[ -n "$upstream" ] || { echo "$0: no module k8s.io/kubernetes@$release" >&2; exit 1; }

mkdir -p "$(dirname "$out")"
sed -e '1,/^module /{/^\/\//d;}' \
	-e 's|^module .*|module github.com/rdma-relay/rdma-relay/test/k8s|' \
	-e "s|=> \./staging/src/\(.*\)\$|=> \1 $staging|" \
	-e "s|^\([[:space:]]*k8s\.io/[^ ]*\) v0\.0\.0\( .*\)*\$|\1 $staging\2|" \
	"$upstream" >"$out"
go mod edit -require="k8s.io/kubernetes@$release" "$out"
# The programs of a node, for cluster/: built with what the tests are built with, so
# that they share one build cache.
for command in kube-apiserver kube-controller-manager kube-scheduler kubectl kubelet; do
	go mod edit -tool="k8s.io/kubernetes/cmd/$command" "$out"
done
# Leaves what the tests here need, and writes the sums.
go mod tidy -modfile="$out"
