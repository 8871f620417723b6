#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A thousand tasks, with every backend.
. "${top_srcdir:?}/tests/lib/step.sh"

for b in $(backends); do
	step --proctrack "$b" -n 1000 --result "$tmpdir/r" -- sh -c 'echo $SLURM_PROCID' >"$tmpdir/out"
	is $? 0 "$b: a thousand tasks run"
	is "$(sort -n "$tmpdir/out" | md5sum)" "$(seq 0 999 | md5sum)" "$b: each with its own rank"
	is "$(grep -c '"wait_status": 0' "$tmpdir/r")" 1000 "$b: each in the result"
	nothing_left "$b: nothing is left"

	"$stepd" run --job "$job" --proctrack "$b" -n 1000 -- sleep 99 2>"$tmpdir/err" &
	agent=$!
	eventually running 0
	is "$("$stepctl" pids "$job.0" | wc -l)" 1000 "$b: a thousand are listed"
	is "$(awk '/^Threads:/ { print $2 }' /proc/$agent/status)" 1 "$b: the agent has one thread"
	kill -TERM $agent
	wait $agent
	is $? 143 "$b: a thousand are ended"
	nothing_left "$b: nothing is left of them"
done
done_testing
