#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Suspending what does not want to stand still, and a step at a terminal.
. "${top_srcdir:?}/tests/lib/step.sh"

hostile=${top_builddir:?}/tests/lib/hostile
ptyjob=$top_builddir/tests/lib/ptyjob

agent() { # ARG...
	: >"$tmpdir/out"
	"$stepd" run -q --job "$job" --result "$tmpdir/r" "$@" >"$tmpdir/out" 2>"$tmpdir/err" &
	agent=$!
	eventually grep -q up "$tmpdir/out"
}

suspended() {
	grep -qs '"state":"suspended"' "$run"/*_"$job.0"/state.json
}

hangs() {
	# shellcheck disable=SC2046 # pids
	hanging $("$stepctl" pids "$job.0")
}

# ---- a process that hangs in the kernel ----------------------------------------------------------
if [ -x "$hostile" ] && backends | grep -qx cgroup; then
	agent --proctrack cgroup --suspend-timeout 0.6s -n 2 -- \
		sh -c 'trap "" TERM; echo up; [ $SLURM_PROCID = 0 ] || exec "$0" hang; while :; do sleep 0.02; done' "$hostile"
	eventually hangs
	begin=$(now_ms)
	out=$("$stepctl" suspend "$job.0" 2>&1)
	status=$?
	took=$(($(now_ms) - begin))
	is $status 5 "cgroup: a process in state D lets the suspension fail"
	like "$out" "^stepctl suspend: step .*$job\.0: .*can't suspend the step: after 0\.6 s there still moves pid [0-9]+ \(hostile\) state [DRS]" \
		"cgroup: and is named"
	ok "cgroup: at the deadline ($took ms of 600)" test $took -ge 600
	is "$("$stepctl" list | grep -c running)" 1 "cgroup: the step runs on"
	group=$(find /sys/fs/cgroup -type d -path "*job_$job/step_0")
	is "$(cat "$group/cgroup.freeze")" 0 "cgroup: and is not frozen"

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
	is $status 130 "cgroup: it is killed while a signal is still on its way"
	hung=$took
	agent --proctrack cgroup -n 2 -- sh -c 'trap "" TERM INT; echo up; while :; do sleep 0.02; done'
	interrupt_twice
	ok "cgroup: without waiting for that ($hung ms, and $took where nothing hangs)" no_slower $((hung + 100)) $took

	# The kernel keeps TERM from a process that hangs with the freezer's call pending.
	agent --proctrack cgroup --suspend-timeout 600s --kill-sequence CONT,TERM:1s,KILL -n 2 -- \
		sh -c 'echo up; [ $SLURM_PROCID = 0 ] || exec "$0" hang; while :; do sleep 0.02; done' "$hostile"
	eventually hangs
	begin=$(now_ms)
	kill -TSTP "$agent"
	sleep 0.1
	ok "cgroup: a resumption takes a suspension back that is under way" "$stepctl" resume "$job.0"
	kill -TSTP "$agent"
	sleep 0.1
	kill -TERM "$agent"
	wait "$agent"
	status=$?
	took=$(($(now_ms) - begin))
	is $status 143 "cgroup: and so does the end"
	ok "cgroup: not after the 600 s of the suspension ($took ms)" test $took -lt 600000
	nothing_left "cgroup: nothing is left"
else
	skip 12 "needs proctrack/cgroup and cmocka"
fi

# ---- what forks as fast as it can -----------------------------------------------------------------
for b in $(backends); do
	agent --proctrack "$b" -n 2 -- sh -c 'echo up; while :; do sh -c : ; done & while :; do sh -c "sh -c :"; done'
	ok "$b: what forks all the time is suspended" "$stepctl" suspend "$job.0"
	first=$("$stepctl" pids "$job.0" | sort)
	sleep 0.2
	is "$("$stepctl" pids "$job.0" | sort)" "$first" "$b: and nothing new appears"
	"$stepctl" resume "$job.0"
	kill -TERM "$agent"
	wait "$agent"
	is $? 143 "$b: it ends"
	"$stepd" run -q --job "$job" --proctrack "$b" --extern &
	agent=$!
	eventually running extern
	ok "$b: an extern step without processes can be suspended" "$stepctl" suspend "$job.extern"
	ok "$b: and resumed" "$stepctl" resume "$job.extern"
	kill -TERM "$agent"
	wait "$agent"
	nothing_left "$b: nothing is left"
done

# ---- a terminal -----------------------------------------------------------------------------------
lines() { # N: the helper has said so many
	[ "$(wc -l <"$tmpdir/pty")" -ge "$1" ]
}

for b in $(backends); do
	"$ptyjob" "$stepd" run --job "$job" --proctrack "$b" --result "$tmpdir/r" -n 2 -- sleep 99 >"$tmpdir/pty" &
	pty=$!
	eventually running 0
	agent=$(sed 's/.*"agent_pid":\([0-9]*\).*/\1/' "$run"/*_"$job.0"/state.json)
	kill -USR1 $pty
	eventually lines 1
	is "$(cat "$tmpdir/pty")" stopped "$b: ^Z stops the agent as a job of its shell"
	ok "$b: with its step" suspended
	kill -USR2 $pty
	ok "$b: fg continues both" eventually running 0
	kill -TSTP "$agent"
	ok "$b: SIGTSTP by a process suspends the step" eventually suspended
	isnt "$(sed 's/.*) \(.\) .*/\1/' "/proc/$agent/stat")" T "$b: but does not stop the agent"
	kill -CONT "$agent"
	ok "$b: and SIGCONT resumes it" eventually running 0
	kill -TERM "$agent"
	wait $pty
	is "$(tail -n 1 "$tmpdir/pty")" "exited 143" "$b: it ends"
done

"$ptyjob" -o "$stepd" run --job "$job" --result "$tmpdir/r" -- sh -c 'echo up >"$0"; sleep 0.5' "$tmpdir/up" >"$tmpdir/pty" &
pty=$!
eventually test -s "$tmpdir/up"
kill -USR1 $pty
wait $pty
is "$(cat "$tmpdir/pty")" "exited 0" "where no shell could continue it, ^Z does not hang it"
like "$(cat "$tmpdir/r")" '"suspended_usec": [1-9]' "it was suspended for a moment"
nothing_left "nothing is left"
done_testing
