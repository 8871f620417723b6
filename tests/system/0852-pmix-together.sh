#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# mpi/pmix: connect, groups, events, and the deaths of ranks and of the server.

# shellcheck source=tests/lib/pmix.sh
. "${top_srcdir:?}/tests/lib/pmix.sh"

pmix 3 connect
lines 3 ': and disconnected$' "ranks connect and disconnect"
pmix 3 group
lines 3 ': gone$' "groups are made and ended, once"
is "$(printf '%s\n' "$out" | sed -n 's/^context [0-9]*: //p' | sort -u | wc -l)" 1 \
	"all of a group have the same context id"

pmix 1 nobody 1
lines 1 'connect NOT-FOUND$' "nobody connects with a job that there is not"

pmix 4 event
lines 3 ' from 0$' "an event of a rank reaches the others"
pmix 3 ranges
lines 2 '^ranges [12]: .* from 0$' "one that is for all does"
lines 2 '^heard [12]: .* of 0, ' "and one for the node; nothing comes to who has taken his handler back, or is for itself"

options=-K0
pmix 3 death
lines 2 '^death [01]: PROC-ABORTED-BY-SIG from 2$' "the others hear of a rank that was killed"
pmix 3 deathfence
lines 2 '^deathfence [01]: ' "and no fence with it hangs"
for what in connect disconnect; do
	pmix 3 died $what
	lines 2 '^died [01]: ' "nor does a $what"
done
pmix 3 ends 3
lines 2 '^heard [01]: (PROC-)?EXIT-NONZERO-TERM of 2, exit code 3$' "they hear of one that ends with a status"
pmix 3 ends 0
lines 2 '^heard [01]: (EVENT-)?PROC.TERMINATED of 2, exit code 0$' "of one that ends well"
pmix 3 lost 4
lines 2 '^heard [01]: PROC.TERM(INATED WITHOUT SYNC|-WO-SYNC) of 2, exit code 4$' "and of one that ends before PMIx_Finalize"

# ---- abort ----

pmix 3 abort 7
is "$status" 7 "PMIx_Abort ends the step with its status"
lines 1 'rank 0 of stepd\.[0-9]*\.0 has called PMIx_Abort: enough of it$' "and its words are told"
pmix 3 abort 7 2
lines 1 '^abort 0: one$' "a rank can end another one alone"
lines 1 'task 2 killed by signal 9' "that one is killed"
pmix 1 nobody 1
lines 1 "rank 0 of .* can't abort them: no such rank" "of one that there is not the log tells"
options=
for message in '' N/A; do
	# shellcheck disable=SC2086 # none at all, or the one of Open MPI's MPI_Abort
	pmix 2 aborts $message
	lines 1 'rank 0 of .* has called PMIx_Abort: no reason given$' "an abort without a message${message:+ ($message)}"
done
pmix 2 abort 263
is "$status" 7 "of a status that is none of a process the low byte is the step's"

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
lines 1 'the MPI service process \(pid [0-9]*\) ended by signal 9' "the death of the server is told"
lines 1 'task [0-9] killed by signal 15' "and the agent goes on with its tasks"

nothing_left "nothing is left"
done_testing
