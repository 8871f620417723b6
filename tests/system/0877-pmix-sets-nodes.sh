#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# mpi/pmix: what ranks of one node learn of what began on another, both agents on this machine:
# process sets, and alerts of monitors.

# shellcheck source=tests/lib/pmix.sh
. "${top_srcdir:?}/tests/lib/pmix.sh"

steprun=${top_builddir:?}/stepd/cli/steprun
nodes() { # TASKS VERB ARG...
	nodes_tasks=$1
	shift
	out=$(timeout 300 "$steprun" --launcher=local --job "$job" --mpi=pmix -N 2 \
		-n "$nodes_tasks" "$client" "$@" 2>&1 | sort)
}

nodes 4 sets test-set 3
lines 4 '^set [0-3]: test-set SUCCESS$' "a process set is known on both nodes"
for member in 0 1 2; do
	lines 4 "^set [0-3]: test-set has stepd\\.$job\\.0\\.spawn-1:$member\$" "with its members: $member"
done
is "$(printf '%s\n' "$out" | grep -c ' has ')" 12 "and no others"
lines 4 '^set [0-3]: no-such-set NOT-FOUND$' "one that there is not is not found"

nodes 2 appears "$tmpdir/file"
lines 1 '^appears 1: .*ALERT.* from 0$' "a file that stands still is told on the other node"
nodes 2 watch heartbeat
lines 1 '^alert 1: .*ALERT.* from 0$' "and a heart"

nothing_left_soon "nothing is left"
done_testing
