#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes a release of $VERSION (v1.2.3), or says in a sentence why not.
#
#   release.sh lint    what must always hold of Chart.yaml and CHANGELOG.md
#   release.sh check   that, and what must hold of a release
#   release.sh notes   the section of CHANGELOG.md
#   release.sh build   all files of the release, in dist/$VERSION
#
# Variables: VERSION, IMAGES=no (leave the images out), and those of test/images/build.sh.
# Equal commits, Go and image builder give equal files.
set -euo pipefail
cd "$(dirname "$0")/../.."

VERSION=${VERSION:-}
number=${VERSION#v}
chart=charts/rdma-relay
id='(0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*)' # of a pre-release: no leading zeros
semver="^(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-$id(\.$id)*)?(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?\$"

fail() { echo "release: $*" >&2; exit 1; }
chart_says() { sed -n "s/^$1: *[\"']\{0,1\}\([^\"' ]*\).*/\1/p" $chart/Chart.yaml; }

# headings are the versions that CHANGELOG.md has sections of, newest first:
# "## 1.2.3 - 2026-12-01" or the same with "[1.2.3]".
headings() { sed -n 's/^## \+\[\{0,1\}\([^] ]*\).*/\1/p' CHANGELOG.md; }

notes() {
	awk -v want="$number" '
		/^## / { name = $2; gsub(/[][]/, "", name); inside = name == want; next }
		inside && (started || NF) { started = 1; line[++n] = $0 }
		END { while (n && line[n] ~ /^[ \t]*$/) n--; for (i = 1; i <= n; i++) print line[i] }' CHANGELOG.md
}

lint() {
	local v app heading
	v=$(chart_says version) app=$(chart_says appVersion)
	[ "$v" = "$app" ] || fail "$chart/Chart.yaml: version is $v and appVersion $app; they are released together and must be equal"
	[[ $v =~ $semver ]] || fail "$chart/Chart.yaml: version $v is no semantic version (1.2.3)"
	for heading in $(headings); do
		[ "$heading" = Unreleased ] || [[ $heading =~ $semver ]] || fail "CHANGELOG.md: the heading $heading is neither Unreleased nor a semantic version"
	done
	[ -z "$(headings | sort | uniq -d)" ] || fail "CHANGELOG.md has two sections $(headings | sort | uniq -d | head -n 1)"
}

check() {
	lint
	[[ $number =~ $semver ]] || fail "VERSION=$VERSION is no semantic version; say, for example, make release VERSION=v1.2.3"
	[ "$(chart_says version)" = "$number" ] || fail "$chart/Chart.yaml: version and appVersion are $(chart_says version), not $number"
	headings | grep -qxF -- "$number" || fail "CHANGELOG.md has no section $number; rename the one of what is unreleased"
	[ -n "$(notes)" ] || fail "CHANGELOG.md: the section $number is empty"
	git rev-parse --git-dir >/dev/null 2>&1 || fail "this is no git work tree, so nothing tells what is released"
	[ -z "$(git status --porcelain)" ] || fail "the work tree is dirty; commit or remove: $(git status --porcelain | head -n 5 | tr '\n' ' ')"
	local tagged
	if tagged=$(git rev-parse -q --verify "refs/tags/v$number^{commit}"); then
		[ "$tagged" = "$(git rev-parse HEAD)" ] || fail "the tag v$number is on another commit than HEAD"
	fi
}

# settle packs an archive anew: what is in it is the same each time, but not the times.
settle() { # ARCHIVE DIRECTORY
	rm -rf "$2" && mkdir "$2"
	tar -xf "$1" -C "$2"
	local file=$PWD/$1 time
	time=$(git log -1 --format=%ct)
	(cd "$2" && tar -cf "$file" --sort=name --mtime="@$time" --owner=0 --group=0 --numeric-owner --format=ustar -- *)
}

build() {
	local out=dist/v$number work arch program
	work=$(mktemp -d)
	trap "rm -rf '$work'" EXIT
	rm -rf "$out"
	mkdir -p "$out"
	for arch in amd64 arm64; do
		GOOS=linux GOARCH=$arch make -s build "VERSION=v$number" "BIN=$work/$arch/"
		for program in discoveryd pluginproxy; do cp "$work/$arch/$program" "$out/$program-$number-linux-$arch"; done
	done

	# helm takes the times of the files into the archive.
	git archive --format=tar HEAD $chart | tar -xm -C "$work"
	find "$work/charts" -exec touch -d "@$(git log -1 --format=%ct)" {} +
	make -s bin/helm
	bin/helm package "$work/$chart" --destination "$out" >/dev/null

	notes >"$out/NOTES.md"
	if [ "${IMAGES:-}" != no ]; then
		VERSION=v$number OUT=$out test/images/build.sh save >/dev/null
		for program in "$out"/*.oci.tar; do settle "$program" "$work/oci"; done
	fi
	# The sums come last and leave out themselves.
	(cd "$out" && sha256sum -- * >"$work/SHA256SUMS" && mv "$work/SHA256SUMS" .)
	chmod 0644 "$out"/*
	chmod 0755 "$out"/*-linux-*
	cat "$out/SHA256SUMS"
}

case ${1:-} in
lint | check | notes) "$1" ;;
build) check; build ;;
*) fail "say lint, check, notes or build" ;;
esac
