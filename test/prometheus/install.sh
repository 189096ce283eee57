#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes sure that prometheus and promtool are here: Debian's package, where one is root.
# Its service is not started.
set -euo pipefail
if command -v prometheus >/dev/null && command -v promtool >/dev/null; then exit; fi
fail() { echo "$0: prometheus and promtool are not here; $*" >&2; exit 1; }
command -v apt-get >/dev/null || fail "put them into PATH"
[ "$(id -u)" = 0 ] || fail "install Debian's prometheus, or run this as root"
# Without a policy the package would start a server on a port of this machine.
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
	printf '#!/bin/sh\nexit 101\n' >$policy
	chmod +x $policy
	trap 'rm -f $policy' EXIT
fi
apt-get -qq update
DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends prometheus >/dev/null
