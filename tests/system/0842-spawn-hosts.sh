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
	is "$status" 0 "a step that spawns over hosts ends well $how"
	like "$out" '^answer 0 errcodes 0,0,0,0,0,0,0$' "two commands are spawned at once"
	is "$(count "^spawned [0-6] of 7 on node[1-3] appnum [01] jobid $job.0.1 by $job.0 word w0 right\$")" 7 \
		"all of them are one job"
	is "$(count '^spawned [0-3] of 7 on .* appnum 0 ') $(count '^spawned [4-6] of 7 on node2 appnum 1 ')" "4 3" \
		"the first ranks are the first command's, those of a host by name are there"
	is "$(printf '%s\n' "$out" | sed -n 's/^spawned [0-3] of 7 on \(node.\) .*/\1/p' | sort -u | wc -l)" 3 \
		"the others are on all of them"
	is "$(count "^spawned [01] of 2 on node[1-3] appnum 0 jobid $job.0.[2-4] by $job.0 word w[0-2] right\$")" 6 \
		"and three ranks of three hosts spawn at the same time"
done

options=
wide 3 spawn_breaks
is "$status" 0 "a spawn that fails on one host does not end the step"
like "$out" '^answer [^0].* errcodes -?[0-9]+,-?[0-9]+,-[0-9]+,-[0-9]+$' "who asked is told, for each task"
is "$(count 'goes on$')" 3 "all ranks go on"
unlike "$(ps -eo args)" '^sleep 4321' "and nothing of it runs on the other host"

wide 3 spawn_aborts
is "$status" 7 "a spawned task that aborts ends the step with its code"
like "$out" 'rank 2 .*called MPI_Abort\(\) with code 7' "and it is named"
nothing_left_soon "nothing is left"
done_testing
