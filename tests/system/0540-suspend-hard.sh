#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Suspending what does not want to stand still, and a step at a terminal.
. "${top_srcdir:?}/tests/lib/step.sh"

hostile=${top_builddir:?}/tests/lib/hostile
ptyjob=$top_builddir/tests/lib/ptyjob

hangs() {
	# shellcheck disable=SC2046 # pids
	hanging $("$stepctl" pids "$job.0")
}

# ---- a process that hangs in the kernel ----------------------------------------------------------
if [ -x "$hostile" ] && backends | grep -qx cgroup; then
	start_step --result "$tmpdir/r" --proctrack cgroup --suspend-timeout 0.6s -n 2 -- \
		sh -c 'trap "" TERM; echo up; [ $SLURM_PROCID = 0 ] || exec "$0" hang; while :; do sleep 0.02; done' "$hostile"
	eventually hangs
	begin=$(now_ms)
	out=$("$stepctl" suspend "$job.0" 2>&1)
	status=$?
	took=$(($(now_ms) - begin))
	is $status 5 "cgroup: a process in state D lets the suspension fail"
	like "$out" "^stepctl suspend: step .*$job\.0: .*can't suspend the step: still running after 0\.6 s: pid [0-9]+ \(hostile\) state [DRS]" \
		"cgroup: a process in state D that can't be suspended is named"
	ok "cgroup: the suspension fails no sooner than at its deadline ($took ms of 600)" test $took -ge 600
	is "$("$stepctl" list | grep -c running)" 1 "cgroup: a step whose suspension failed runs on"
	group=$(find /sys/fs/cgroup -type d -path "*job_$job/step_0")
	is "$(cat "$group/cgroup.freeze")" 0 "cgroup: a step whose suspension failed is not frozen"

	# A signal to it waits for it 1 s; the agent does not.
	interrupt_twice() { # and $took, $status
		begin=$(now_ms)
		kill -INT "$agent"
		sleep 0.1
		kill -INT "$agent"
		wait "$agent"
		status=$?
		took=$(($(now_ms) - begin - 100))
	}
	interrupt_twice
	is $status 130 "cgroup: a second SIGINT kills the step while a signal is still pending"
	hung=$took
	start_step --result "$tmpdir/r" --proctrack cgroup -n 2 -- sh -c 'trap "" TERM INT; echo up; while :; do sleep 0.02; done'
	interrupt_twice
	ok "cgroup: the kill does not wait for the pending signal ($hung ms, and $took where nothing hangs)" no_slower $((hung + 100)) $took

	# The kernel keeps TERM from a process that hangs with the freezer's call pending.
	start_step --result "$tmpdir/r" --proctrack cgroup --suspend-timeout 600s --kill-sequence CONT,TERM:1s,KILL -n 2 -- \
		sh -c 'echo up; [ $SLURM_PROCID = 0 ] || exec "$0" hang; while :; do sleep 0.02; done' "$hostile"
	eventually hangs
	begin=$(now_ms)
	group=$(find /sys/fs/cgroup -type d -path "*job_$job/step_0") # in a scope of its own, under systemd
	freezes() { [ "$(cat "$group/cgroup.freeze")" = 1 ]; }
	kill -TSTP "$agent"
	eventually freezes
	ok "cgroup: resume cancels a suspension that is under way" "$stepctl" resume "$job.0"
	kill -TSTP "$agent"
	eventually freezes
	kill -TERM "$agent"
	wait "$agent"
	status=$?
	took=$(($(now_ms) - begin))
	is $status 143 "cgroup: the step's end cancels a suspension that is under way"
	ok "cgroup: the step's end does not wait for the suspension's 600 s ($took ms)" test $took -lt 600000
	nothing_left "cgroup: a suspension under way leaves no cgroup, process or file behind"
else
	skip 12 "needs proctrack/cgroup and cmocka"
fi

# ---- what forks as fast as it can -----------------------------------------------------------------
for b in $(backends); do
	start_step --result "$tmpdir/r" --proctrack "$b" -n 2 -- sh -c 'echo up; while :; do sh -c : ; done & while :; do sh -c "sh -c :"; done'
	ok "$b: processes that fork all the time are suspended" "$stepctl" suspend "$job.0"
	first=$("$stepctl" pids "$job.0" | sort)
	sleep 0.2
	is "$("$stepctl" pids "$job.0" | sort)" "$first" "$b: no new process appears in a suspended step"
	"$stepctl" resume "$job.0"
	kill -TERM "$agent"
	wait "$agent"
	is $? 143 "$b: a step that forks all the time ends by SIGTERM to its agent"
	"$stepd" run -q --job "$job" --proctrack "$b" --extern &
	agent=$!
	eventually running extern
	ok "$b: an extern step without processes can be suspended" "$stepctl" suspend "$job.extern"
	ok "$b: an extern step without processes can be resumed" "$stepctl" resume "$job.extern"
	kill -TERM "$agent"
	wait "$agent"
	nothing_left "$b: the job leaves no cgroup, process or file behind"
done

# ---- a terminal -----------------------------------------------------------------------------------

for b in $(backends); do
	"$ptyjob" "$stepd" run --job "$job" --proctrack "$b" --result "$tmpdir/r" -n 2 -- sleep 99 >"$tmpdir/pty" &
	pty=$!
	eventually running 0
	agent=$("$stepctl" list | awk -v step="$job.0" '$1 == step { print $NF }')
	kill -USR1 $pty
	eventually has_lines "$tmpdir/pty" 1
	is "$(cat "$tmpdir/pty")" stopped "$b: ^Z stops the agent as a job of its shell"
	ok "$b: ^Z suspends the step" suspended
	kill -USR2 $pty
	ok "$b: fg resumes the agent and the step" eventually running 0
	kill -TSTP "$agent"
	ok "$b: SIGTSTP by a process suspends the step" eventually suspended
	isnt "$(process_state "$agent")" T "$b: SIGTSTP by a process does not stop the agent"
	kill -CONT "$agent"
	ok "$b: SIGCONT by a process resumes the step" eventually running 0
	kill -TERM "$agent"
	wait $pty
	is "$(tail -n 1 "$tmpdir/pty")" "exited 143" "$b: a step at a terminal ends by SIGTERM to its agent"
done

"$ptyjob" -o "$stepd" run --job "$job" --result "$tmpdir/r" -- sh -c 'echo up >"$0"; sleep 0.5' "$tmpdir/up" >"$tmpdir/pty" &
pty=$!
eventually test -s "$tmpdir/up"
end_child USR1 $pty
wait $pty
is "$(cat "$tmpdir/pty")" "exited 0" "^Z does not stop an agent that no shell could continue"
json_is "$tmpdir/r" 'suspended_usec > 0' true "^Z suspends a step that no shell could continue for a moment"
nothing_left "the job leaves no cgroup, process or file behind"
done_testing
