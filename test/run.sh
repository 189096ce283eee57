#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs go test in this folder's module and ends with one line of counts:
# "N passed, N failed, N skipped". With -norace the race detector is off, for the
# module that builds Kubernetes.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
race=-race
if [ "${1:-}" = -norace ]; then race=; shift; fi
go -C "$root" build -o "$root/bin/testsum" ./test/testsum
go test $race -json -timeout "${TEST_TIMEOUT:-10m}" "$@" | "$root/bin/testsum"
