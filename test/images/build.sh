#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the two images with docker or buildah, whichever is there.
#
#   build.sh          images for this machine, in the tool's own store
#   build.sh save     for all of $PLATFORMS, as OCI archives in $OUT
#
# Variables: VERSION, REGISTRY, PLATFORMS (linux/amd64,linux/arm64), OUT (dist/images),
# BUILDER (docker or buildah), GO_IMAGE (what to build in), GOPROXY, LOCAL_BASE=1: no
# registry can be reached, so build in an image made of this machine's Go (buildah only).
# Equal sources and Go give equal images: all times are those of the last commit.
set -euo pipefail
cd "$(dirname "$0")/../.."

what=${1:-images}
VERSION=${VERSION:-$(git describe --tags --always --dirty 2>/dev/null || echo unknown)}
REVISION=$(git rev-parse HEAD 2>/dev/null || echo unknown)
REGISTRY=${REGISTRY:-ghcr.io/rdma-relay}
PLATFORMS=${PLATFORMS:-linux/amd64,linux/arm64}
OUT=${OUT:-dist/images}
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
export SOURCE_DATE_EPOCH
tag=${VERSION#v}
tag=${tag//+/_}

fail() { echo "$0: $*" >&2; exit 1; }

# A docker client without a daemon is of no use.
builder() {
	if docker buildx version >/dev/null 2>&1 && docker info >/dev/null 2>&1; then echo docker
	elif command -v buildah >/dev/null; then echo buildah
	else fail "neither a docker that answers nor buildah is here; on Debian: apt-get install buildah"
	fi
}
BUILDER=${BUILDER:-$(builder)}

# Without privileges of its own, as in a container, buildah works like this.
export BUILDAH_ISOLATION=${BUILDAH_ISOLATION:-chroot}

# local_base makes a builder image of this machine's Go: its programs are static and
# nothing of the build needs a shell.
local_base() {
	[ "$BUILDER" = buildah ] || fail "LOCAL_BASE=1 needs buildah"
	local c dir goroot
	goroot=$(go env GOROOT)
	c=$(buildah from scratch)
	dir=$(buildah mount "$c")
	mkdir -p "$dir/usr/local" "$dir/etc/ssl/certs" "$dir/tmp" "$dir/root" "$dir/proc" "$dir/sys" "$dir/dev"
	cp -rL "$goroot" "$dir/usr/local/go"
	cp -L /etc/ssl/certs/ca-certificates.crt "$dir/etc/ssl/certs/"
	buildah umount "$c" >/dev/null
	buildah config --env PATH=/usr/local/go/bin:/usr/bin:/bin --env HOME=/root --env GOTOOLCHAIN=local "$c"
	buildah commit --quiet --rm "$c" localhost/rdma-relay-golang:local >/dev/null
	GO_IMAGE=localhost/rdma-relay-golang:local
}
[ -z "${LOCAL_BASE:-}" ] || local_base

# buildah 1.28, Debian's, does not know of BUILDPLATFORM by itself.
if [ "$BUILDER" = buildah ]; then
	here=linux/$(buildah info --format '{{.host.arch}}')
	flags=(--quiet --timestamp "$SOURCE_DATE_EPOCH" --identity-label=false --build-arg "BUILDPLATFORM=$here")
fi

common=(--build-arg "VERSION=$VERSION" --build-arg "REVISION=$REVISION"
	${GO_IMAGE:+--build-arg "GO_IMAGE=$GO_IMAGE"} ${GOPROXY:+--build-arg "GOPROXY=$GOPROXY"})

build() { # PROGRAM DOCKERFILE
	local image=$REGISTRY/$1:$tag file=$OUT/$1-$tag.oci.tar
	local list=localhost/rdma-relay-save/$1:$tag # not $image, which may be there as what "images" makes
	case $BUILDER-$what in
	docker-images)
		docker buildx build "${common[@]}" --provenance=false --load -t "$image" -f "$2" . ;;
	docker-save)
		docker buildx build "${common[@]}" --provenance=false --platform "$PLATFORMS" -t "$image" -f "$2" \
			--output "type=oci,dest=$file,rewrite-timestamp=true" . ;;
	buildah-images)
		buildah bud "${flags[@]}" "${common[@]}" --platform "$here" -t "$image" -f "$2" . ;;
	buildah-save)
		buildah manifest rm "$list" >/dev/null 2>&1 || true
		# One by one: built together they come in any order, and the index would differ.
		local platform
		for platform in ${PLATFORMS//,/ }; do
			buildah bud "${flags[@]}" "${common[@]}" --platform "$platform" --manifest "$list" -f "$2" .
		done
		rm -f "$file"
		buildah manifest push --quiet --all "$list" "oci-archive:$file:$image" ;;
	*) fail "BUILDER=$BUILDER, $what: must be docker or buildah, images or save" ;;
	esac
	if [ "$what" = save ]; then echo "$file"; else echo "$image"; fi
}
[ "$what" != save ] || mkdir -p "$OUT"
build discoveryd Dockerfile.discovery
build pluginproxy Dockerfile.proxy
