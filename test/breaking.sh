#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compares proto/ with that of the last release, or, before the first one, with
# the oldest in the history: a change that would break a reader fails.
# The arguments are the buf command.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! git rev-parse --git-dir >/dev/null 2>&1; then
	echo "no git history: buf breaking has nothing to compare with"
	exit 0
fi
base=$(git describe --tags --abbrev=0 --match 'v*' 2>/dev/null ||
	git log --diff-filter=A --format=%H -- proto/discovery/v1/discovery.proto | tail -n 1)
old=$(mktemp -d)
trap 'rm -rf "$old"' EXIT
git archive "$base" proto buf.yaml | tar -x -C "$old"
"$@" breaking --against "$old"
