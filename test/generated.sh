#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fails when the Go code beside the protocol is not what the pinned generators
# make of it. The arguments are the buf command.
set -euo pipefail
cd "$(dirname "$0")/.."
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
"$@" generate -o "$new"
for f in proto/discovery/v1/*.pb.go; do
	diff -u "$f" "$new/$f" || { echo "$f is out of date: run 'make generate'"; exit 1; }
done
