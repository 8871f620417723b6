#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A thousand tasks, with every backend.
# shellcheck disable=SC2016 # single quotes are for the tasks
. "${top_srcdir:?}/tests/lib/step.sh"

open_files() { # TASKS: of the agent, whose tasks have labels
	start_agent 0 --proctrack "$tracker" --label -n "$1" -- sleep 99
	ls /proc/$agent/fd | wc -l
	kill -TERM $agent
	wait $agent
}

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

# The shell's own descriptor for the directory is the only one above 2.
step -n 1000 --label -- sh -c 'echo $SLURM_PROCID /proc/self/fd/*' >"$tmpdir/out"
is $? 0 "a thousand labelled tasks run"
is "$(sed 's|/proc/self/fd/||g; s/^ *//' "$tmpdir/out" | sort -n | md5sum)" \
	"$(seq 0 999 | sed 's/.*/&: & 0 1 2 3/' | md5sum)" \
	"each of a thousand labelled tasks has its line, and no descriptor of the agent's"
# One or the other of the launch may still be open.
more=$(($(open_files 1000) - $(open_files 10)))
ok "the agent has one descriptor for each labelled stream" test $(((more + 5) / 10)) = 198
nothing_left "a thousand labelled tasks leave no cgroup, process or file behind"
done_testing
