#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The step's status is that of its tasks: the largest, or 128 + the first signal.
. "${top_srcdir:?}/tests/lib/step.sh"

step -n 3 -- true
is $? 0 "three tasks that succeed give 0"
step -q -n 4 -- sh -c 'exit $SLURM_PROCID'
is $? 3 "the step has the largest exit status of its tasks"
step -q -- sh -c 'kill -9 $$'
is $? 137 "a task killed by a signal gives 128 + its number"
step -q -n 2 --result "$tmpdir/r" -- sh -c 'if [ $SLURM_PROCID = 0 ]; then exit 200; else kill -6 $$; fi'
is $? 134 "a task that aborted wins over an exit status"
json_is "$tmpdir/r" 'tasks[0]["wait_status"]' 51200 "the result has the raw wait status"
json_like "$tmpdir/r" '[t["text"] for t in tasks]' 'killed by signal 6 \(ABRT\)' \
	"the result has the wait status in words"
json_is "$tmpdir/r" reason completed "the reason of a step whose tasks ended by themselves is completed"

out=$(step -n 2 -- sh -c 'exit 4' 2>&1)
like "$out" "stepd $job.0: task 1 exited with status 4" "a task that fails is reported in one line"
out=$(step -q -n 2 -- sh -c 'exit 4' 2>&1)
is "$out" "" "--quiet suppresses the report of a failed task"

for backend in $(backends); do
	step -q --proctrack "$backend" -n 3 -- sh -c 'exit $((SLURM_PROCID * 2))'
	is $? 4 "$backend: the step has the largest exit status of its tasks"
	step -q --proctrack "$backend" -n 2 -- sh -c 'kill -TERM $$'
	is $? 143 "$backend: a task killed by a signal gives 128 + its number"
done
nothing_left "the job leaves no cgroup, process or file behind"
done_testing
