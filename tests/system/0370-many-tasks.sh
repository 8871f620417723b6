#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A thousand tasks, with every backend.
. "${top_srcdir:?}/tests/lib/step.sh"

for b in $(backends); do
	step --proctrack "$b" -n 1000 --result "$tmpdir/r" -- sh -c 'echo $SLURM_PROCID' >"$tmpdir/out"
	is $? 0 "$b: a thousand tasks run"
	is "$(sort -n "$tmpdir/out" | md5sum)" "$(seq 0 999 | md5sum)" \
		"$b: each of a thousand tasks has its own rank"
	is "$(json_get "$tmpdir/r" '[t["wait_status"] for t in tasks].count(0)')" 1000 \
		"$b: the result has a thousand tasks"
	nothing_left "$b: the job leaves no cgroup, process or file behind"

	start_agent 0 --proctrack "$b" -n 1000 -- sleep 99
	is "$("$stepctl" pids "$job.0" | wc -l)" 1000 "$b: stepctl pids lists a thousand tasks"
	is "$(awk '/^Threads:/ { print $2 }' /proc/$agent/status)" 1 \
		"$b: the agent of a thousand tasks has one thread"
	kill -TERM $agent
	wait $agent
	is $? 143 "$b: SIGTERM to the agent ends a thousand tasks"
	nothing_left "$b: the job leaves no cgroup, process or file behind"
done
done_testing
