#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# mpi/pmix: connect, groups, events, and the deaths of ranks and of the server.

# shellcheck source=tests/lib/pmix.sh
. "${top_srcdir:?}/tests/lib/pmix.sh"

pmix 3 connect
lines 3 ': and disconnected$' "ranks connect and disconnect"
pmix 3 group
lines 3 ': gone$' "groups are constructed and destructed, once"
is "$(printf '%s\n' "$out" | sed -n 's/^context [0-9]*: //p' | sort -u | wc -l)" 1 \
	"all ranks of a group have the same context id"

pmix 1 nobody 1
lines 1 'connect NOT-FOUND$' "a connect with a missing job is refused"

pmix 4 event
lines 3 ' from 0$' "an event of a rank reaches the others"
pmix 3 ranges
lines 2 '^ranges [12]: .* from 0$' "an event for all reaches the others"
lines 2 '^heard [12]: .* of 0, ' "an event for the node reaches the others; none reaches a deregistered handler"

options=-K0
pmix 3 death
lines 2 '^death [01]: PROC-ABORTED-BY-SIG from 2$' "the others get the event of a killed rank"
pmix 3 deathfence
lines 2 '^deathfence [01]: ' "a fence with a killed rank ends"
for what in connect disconnect; do
	pmix 3 died $what
	lines 2 '^died [01]: ' "a $what with a dead rank ends"
done
pmix 3 ends 3
lines 2 '^heard [01]: (PROC-)?EXIT-NONZERO-TERM of 2, exit code 3$' "the others get the event of a rank that ends with a status"
pmix 3 ends 0
lines 2 '^heard [01]: (EVENT-)?PROC.TERMINATED of 2, exit code 0$' "the others get the event of a rank that ends with 0"
pmix 3 lost 4
lines 2 '^heard [01]: PROC.TERM(INATED WITHOUT SYNC|-WO-SYNC) of 2, exit code 4$' "the others get the event of a rank that ends before PMIx_Finalize"

# ---- abort ----

pmix 3 abort 7
is "$status" 7 "PMIx_Abort ends the step with its status"
lines 1 'rank 0 of stepd\.[0-9]*\.0 has called PMIx_Abort: enough of it$' "the message of PMIx_Abort is logged"
pmix 3 abort 7 2
lines 1 '^abort 0: one$' "a rank can abort another one alone"
lines 1 'task 2 killed by signal 9' "a rank that another aborts is killed"
pmix 1 nobody 1
lines 1 "rank 0 of .* can't abort them: no such rank" "the abort of a missing rank is logged"
options=
for message in '' N/A; do
	# shellcheck disable=SC2086 # none at all, or the one of Open MPI's MPI_Abort
	pmix 2 aborts $message
	lines 1 'rank 0 of .* has called PMIx_Abort: no reason given$' "an abort without a message${message:+ ($message)} is logged as such"
done
pmix 2 abort 263
is "$status" 7 "an abort's status is cut to its low byte"

options=-K
pmix 3 late
lines 1 '^late 0: TIMEOUT$' "a fence with a deadline of its own ends"
options=

# ---- the server dies ----

"$stepd" run --job "$job" --mpi pmix -K0 -n 2 -- "$client" absent >"$tmpdir/out" 2>&1 &
agent=$!
have_begun() {
	[ "$(grep -c '^begun' "$tmpdir/out")" -eq 2 ]
}
eventually have_begun
children=$(cat /proc/"$agent"/task/*/children)
for child in $children; do
	[ "$(cat "/proc/$child/comm")" != stepd-mpi ] || kill -KILL "$child"
done
eventually grep -q 'MPI service process' "$tmpdir/out"
clients() {
	for child in $children; do
		[ "$(cat "/proc/$child/comm" 2>/dev/null)" != pmixclient ] || echo "$child"
	done
}
one_is_left() { # rank 0, whose fence has failed, ends by itself
	[ "$(clients | wc -l)" -eq 1 ]
}
eventually one_is_left
# shellcheck disable=SC2046 # a pid a word
kill -TERM $(clients)
wait "$agent"
out=$(cat "$tmpdir/out")
lines 1 'the MPI service process \(pid [0-9]*\) ended by signal 9' "the death of the server is logged"
lines 1 'task [0-9] killed by signal 15' "the agent goes on with its tasks after the server's death"

nothing_left "the job leaves no cgroup, process or file behind"
done_testing
