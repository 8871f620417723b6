#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# mpi/pmix: what ranks of one node learn of what began on another, both agents on this machine:
# process sets, and alerts of monitors.

# shellcheck source=tests/lib/pmix.sh
. "${top_srcdir:?}/tests/lib/pmix.sh"

pmix_nodes 2 4 "$client" sets test-set 3
lines 4 '^set [0-3]: test-set SUCCESS$' "a process set is known on both nodes"
for member in 0 1 2; do
	lines 4 "^set [0-3]: test-set has stepd\\.$job\\.0\\.spawn-1:$member\$" "a process set has its member $member on both nodes"
done
is "$(printf '%s\n' "$out" | grep -c ' has ')" 12 "a process set has no other members"
lines 4 '^set [0-3]: no-such-set NOT-FOUND$' "a missing process set is not found"

pmix_nodes 2 2 "$client" appears "$tmpdir/file"
lines 1 '^appears 1: .*ALERT.* from 0$' "the alert of a file that does not change reaches the other node"
pmix_nodes 2 2 "$client" watch heartbeat
lines 1 '^alert 1: .*ALERT.* from 0$' "the alert of a heart that does not beat reaches the other node"

nothing_left_soon "the job leaves no cgroup, process or file behind"
done_testing
