#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# mpi/pmix over several nodes, which are agents on this machine: what fails, and how it is told.

# shellcheck source=tests/lib/pmix.sh
. "${top_srcdir:?}/tests/lib/pmix.sh"

steprun=${top_builddir:?}/stepd/cli/steprun

# shellcheck disable=SC2086 # $options: several words
nodes() { # NODES TASKS VERB ARG...
	nodes_count=$1
	nodes_tasks=$2
	shift 2
	out=$(timeout 900 "$steprun" --launcher=local --job "$job" --mpi=pmix -N "$nodes_count" \
		-n "$nodes_tasks" $options "$client" "$@" 2>&1 | sort)
}

# ---- the step's deadline ----

options=--pmi-timeout=1s
for what in fence connect group; do
	nodes 3 3 missed $what
	lines 2 "^missed [01]: $what TIMEOUT\$" "a rank that does not come: $what"
	like "$out" 'not complete after 1000 ms: missing are .*rank 2 on node 2' "and who is missing is told"
done

# Rank 2 waits on rank 3's node, of which libpmix tells nothing: that node ends the step.
for what in fence connect group; do
	nodes 2 4 awaited $what
	like "$out" 'missing (are|there) .*rank 3' "one that does not come where others of its node wait: $what"
	like "$out" 'rank 2 of .* not complete after 1000 ms .*: missing there rank 3$' "and they end, too"
done

# ---- a death ----

options=-K0
for what in fence connect disconnect; do
	nodes 3 3 died $what
	lines 2 '^died [01]: failed$' "a rank that dies: $what"
	like "$out" "rank 2 of .* has ended without PMIx_Finalize" "and of whom is told"
done
for what in fence connect; do
	nodes 3 3 left $what
	lines 2 "^left [01]: $what PROC TERMINATED WITHOUT SYNC$" "a rank that has finalized and ended is not waited for: $what"
	# Which of the two is known first: the rank's end, or that of all of its node.
	like "$out" '(rank 2 of [^ ]* has ended( while others wait for it)?|the tasks of node 2 \(vm-2\) have ended)$' \
		"and of whom is told"
done
nodes 3 3 unput 50
lines 2 '^unput [01]: get NOT-FOUND$' "what a rank of another node has not put before its end is not found"
nodes 3 3 ends 3
lines 2 '^heard [01]: PROC-EXIT-NONZERO-TERM of 2, exit code 3$' "how a rank ends is told on other nodes"
nodes 3 6 lost 4
lines 5 '^heard [0-4]: PROC TERMINATED WITHOUT SYNC of 5, exit code 4$' "and that it has not called PMIx_Finalize"
options=

# ---- who is not there ----

nodes 3 3 nobody 50
lines 3 '^nobody [0-2]: get NOT-FOUND$' "a key of a rank that there is not"
lines 3 '^nobody [0-2]: query NOT-FOUND$' "a question about a job that there is not"
lines 3 '^nobody [0-2]: connect NOT-FOUND$' "a connection with it"

# ---- what stays where it is ----

nodes 3 6 ranges
lines 5 '^ranges [1-5]: .* from 0$' "an event for all reaches all nodes"
lines 1 '^heard 1: .* of 0, ' "one for the node does not leave it"
is "$(printf '%s\n' "$out" | grep -c '^heard')" 1 "and comes to none of another one"

# ---- spawn ----

nodes 3 3 spawns pmix.host "$(uname -n)-2"
lines 1 '^spawned in ' "a spawn goes to the node that it asks for"
nodes 3 3 spawns pmix.host nowhere
lines 1 '^spawns 0: pmix.host NOT-FOUND$' "one to a node that there is not fails"
nodes 3 3 spawns pmix.wdir "$tmpdir/nowhere"
lines 1 '^spawns 0: pmix.wdir NOT-FOUND$' "and one that can't be done on some node, for the others too"

nothing_left "nothing is left"
done_testing
