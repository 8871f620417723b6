#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# mpi/pmix: the deadline of what waits for a rank of the same node, of which libpmix notifies its host
# nothing; and that who does not wait has none.

# shellcheck source=tests/lib/pmix.sh
. "${top_srcdir:?}/tests/lib/pmix.sh"

late='stepd\.[0-9]*\.0 on node 0: '
options=--pmi-timeout=1s
for way in fence:PMIx_Fence connect:PMIx_Connect disconnect:PMIx_Disconnect group:PMIx_Group_construct; do
	what=${way%:*} call=${way#*:}
	pmix 3 awaited "$what"
	lines 1 "ranks 0-1 of $late$call not complete after 1000 ms \(--pmi-timeout\): missing there rank 2\$" \
		"a rank that never comes to a $what is named"
	is "$status" 1 "a $what that a rank never comes to ends the step"
done
nothing_left "the job leaves no cgroup, process or file behind"

# shellcheck disable=SC2016 # for the task's shell
out=$(step --mpi pmix -n 3 --pmi-timeout=1s -- sh -c \
	'[ "$SLURM_PROCID" -eq 1 ] || exec "$0" fences 1; exec sleep 600' "$client" 2>&1)
is $? 1 "a rank that never calls PMIx_Init ends the step"
lines 1 "ranks 0,2 of $late.* missing there rank 1 \(PMIx_Init not called: rank 1\)\$" "a rank that never called PMIx_Init is named as such"

# Three times the deadline.
# shellcheck disable=SC2016
idle() { # RANKS ARG...
	idle_tasks=$1
	shift
	out=$(sleep 3 | step --mpi pmix -n "$idle_tasks" --pmi-timeout=1s --input=all -- "$client" idle "$@" 2>&1)
	status=$?
}
idle 3 fence fence connect disconnect group fence
is "$status, $(printf '%s\n' "$out" | grep -c '^idle')" "0, 3" "ranks that wait for nothing have no deadline"
[ "$status" -eq 0 ] || diag "$out"
# shellcheck disable=SC2016
out=$(sleep 3 | step --mpi pmix -n 3 --pmi-timeout=1s --input=all -- sh -c \
	'[ "$SLURM_PROCID" -gt 0 ] || exec "$0" idle; exec cat' "$client" 2>&1)
is $? 0 "ranks of which some need no PMIx have no deadline"
lines 1 "ranks 1-2 of ${late}PMIx_Init not called 1000 ms after others have" "ranks that did not call PMIx_Init are named"
is "$(step --mpi pmix -n 1 -- env | grep -ciE 'verbose|stderr_fd')" 0 "the tasks' libpmix writes no trace"
nothing_left "the job leaves no cgroup, process or file behind"
done_testing
