#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The step's status is that of its tasks: the largest, or 128 + the first signal.
. "${top_srcdir:?}/tests/lib/step.sh"

step -n 3 -- true
is $? 0 "three that succeed give 0"
step -q -n 4 -- sh -c 'exit $SLURM_PROCID'
is $? 3 "the largest exit status counts"
step -q -- sh -c 'kill -9 $$'
is $? 137 "a signal gives 128 + its number"
step -q -n 2 --result "$tmpdir/r" -- sh -c 'if [ $SLURM_PROCID = 0 ]; then exit 200; else kill -6 $$; fi'
is $? 134 "a task that aborted wins over an exit status"
like "$(cat "$tmpdir/r")" '"wait_status": 51200' "the raw wait status stands in the result"
like "$(cat "$tmpdir/r")" '"text": "killed by signal 6 \(ABRT\)' "and the same in words"
like "$(cat "$tmpdir/r")" '"reason": "completed"' "the step completed by itself"

out=$(step -n 2 -- sh -c 'exit 4' 2>&1)
like "$out" "stepd $job.0: task 1 exited with status 4" "a task that fails is told of in one line"
out=$(step -q -n 2 -- sh -c 'exit 4' 2>&1)
is "$out" "" "not with --quiet"

for backend in $(backends); do
	step -q --proctrack "$backend" -n 3 -- sh -c 'exit $((SLURM_PROCID * 2))'
	is $? 4 "$backend: the same status"
	step -q --proctrack "$backend" -n 2 -- sh -c 'kill -TERM $$'
	is $? 143 "$backend: the same signal"
done
nothing_left "nothing is left"
done_testing
