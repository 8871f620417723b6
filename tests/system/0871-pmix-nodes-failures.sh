#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# mpi/pmix over several nodes, which are agents on this machine: failures and their reports.

# shellcheck source=tests/lib/pmix.sh
. "${top_srcdir:?}/tests/lib/pmix.sh"

nodes() { # NODES TASKS VERB ARG...
	nodes_count=$1 nodes_tasks=$2
	shift 2
	pmix_nodes "$nodes_count" "$nodes_tasks" "$client" "$@"
}

# ---- the step's deadline ----

options=--pmi-timeout=1s
for what in fence connect group; do
	nodes 3 3 missed $what
	lines 2 "^missed [01]: $what TIMEOUT\$" "a $what that a rank does not come to fails for the others"
	like "$out" 'not complete after 1000 ms: missing are .*rank 2 on node 2' \
		"a $what that a rank does not come to names it"
done

# Rank 2 waits on rank 3's node, of which libpmix reports nothing: that node ends the step.
for what in fence connect group; do
	nodes 2 4 awaited $what
	like "$out" 'missing (are|there) .*rank 3' \
		"a $what that a rank does not come to beside others of its node names it"
	like "$out" 'rank 2 of .* not complete after 1000 ms .*: missing there rank 3$' \
		"a $what that a rank does not come to ends for the others of its node"
done

# ---- a death ----

options=-K0
for what in fence connect disconnect; do
	nodes 3 3 died $what
	lines 2 '^died [01]: failed$' "a $what with a rank that dies fails for the others"
	like "$out" "rank 2 of .* has ended without PMIx_Finalize" "a $what with a rank that dies names it"
done
for what in fence connect; do
	nodes 3 3 left $what
	lines 2 "^left [01]: $what PROC TERMINATED WITHOUT SYNC$" "a $what does not wait for a rank that has finalized and ended"
	# Which of the two is known first: the rank's end, or that of all of its node.
	like "$out" '(rank 2 of [^ ]* has ended( while others wait for it)?|the tasks of node 2 \(vm-2\) have ended)$' \
		"a $what with a rank that has ended names it"
done
nodes 3 3 unput 50
lines 2 '^unput [01]: get NOT-FOUND$' "a key that a rank of another node did not put before its end is not found"
nodes 3 3 ends 3
lines 2 '^heard [01]: PROC-EXIT-NONZERO-TERM of 2, exit code 3$' "the event of a rank's end with a status reaches other nodes"
nodes 3 6 lost 4
lines 5 '^heard [0-4]: PROC TERMINATED WITHOUT SYNC of 5, exit code 4$' "the event of a rank's end before PMIx_Finalize reaches other nodes"
options=

# ---- who is not there ----

nodes 3 3 nobody 50
lines 3 '^nobody [0-2]: get NOT-FOUND$' "a key of a missing rank is not found over nodes"
lines 3 '^nobody [0-2]: query NOT-FOUND$' "a query of a missing job finds nothing over nodes"
lines 3 '^nobody [0-2]: connect NOT-FOUND$' "a connect with a missing job is refused over nodes"

# ---- what stays where it is ----

nodes 3 6 ranges
lines 5 '^ranges [1-5]: .* from 0$' "an event for all reaches all nodes"
lines 1 '^heard 1: .* of 0, ' "an event for the node reaches its other rank"
is "$(printf '%s\n' "$out" | grep -c '^heard')" 1 "an event for the node reaches no other node"

# ---- spawn ----

nodes 3 3 spawns pmix.host "$(uname -n)-2"
lines 1 '^spawned in ' "a spawn on a node by name succeeds"
nodes 3 3 spawns pmix.host nowhere
lines 1 '^spawns 0: pmix.host NOT-FOUND$' "a spawn on a missing node fails over nodes"
nodes 3 3 spawns pmix.wdir "$tmpdir/nowhere"
lines 1 '^spawns 0: pmix.wdir NOT-FOUND$' "a spawn in a missing directory fails over nodes"

nothing_left "the job leaves no cgroup, process or file behind"
done_testing
