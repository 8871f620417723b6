#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Spawn over hosts: where the tasks come to be, that they are an MPI_COMM_WORLD of their own there,
# and that all of them start or none stays.
# shellcheck source=tests/lib/across.sh
. "${top_srcdir:?}/tests/lib/across.sh"
on_nodes 3 "$0" "$@"

count() {
	printf '%s\n' "$out" | grep -Ec "$1"
}

tasks=3
for how in '' '--pmi-tcp --wire-fanout=2'; do
	options=$how
	wide 3 spawns
	is "$status" 0 "a step that spawns over hosts succeeds $how"
	like "$out" '^answer 0 errcodes 0,0,0,0,0,0,0$' "a spawn of two commands over hosts succeeds $how"
	is "$(count "^spawned [0-6] of 7 on node[1-3] appnum [01] jobid $job.0.1 by $job.0 word w0 right\$")" 7 \
		"the tasks of a spawn over hosts are one job $how"
	is "$(count '^spawned [0-3] of 7 on .* appnum 0 ') $(count '^spawned [4-6] of 7 on node2 appnum 1 ')" "4 3" \
		"a spawn with a host by name starts its tasks there $how"
	is "$(printf '%s\n' "$out" | sed -n 's/^spawned [0-3] of 7 on \(node.\) .*/\1/p' | sort -u | wc -l)" 3 \
		"a spawn without a host starts its tasks on all hosts $how"
	is "$(count "^spawned [01] of 2 on node[1-3] appnum 0 jobid $job.0.[2-4] by $job.0 word w[0-2] right\$")" 6 \
		"three ranks of three hosts spawn at the same time $how"
done

options=
wide 3 spawn_breaks
is "$status" 0 "a spawn that fails on one host does not end the step"
like "$out" '^answer [^0].* errcodes -?[0-9]+,-?[0-9]+,-[0-9]+,-[0-9]+$' \
	"the reply to a spawn that fails on one host has each task's error"
is "$(count 'goes on$')" 3 "all ranks go on after a spawn that fails on one host"
unlike "$(ps -eo args)" "^sleep 4321\\.$job" "a spawn that fails on one host leaves no task on the other"

wide 3 spawn_aborts
is "$status" 7 "a spawned task that aborts ends the step with its code"
like "$out" 'rank 2 .*called MPI_Abort\(\) with code 7' "the log names the spawned task that aborts"
nothing_left_soon "the job leaves no cgroup, process or file behind"
done_testing
