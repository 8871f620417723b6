#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Suspending and resuming a step, for every backend.
. "${top_srcdir:?}/tests/lib/step.sh"

# The pid of a task that has not ended (0 would be this test's own group).
task() { # RANK
	state_of 0 "[t['pid'] for t in tasks if t['rank'] == $1 and t['pid'] > 0][0]"
}

# Clock ticks of all processes of the step.
ticks() {
	for t_pid in $("$stepctl" pids "$job.0"); do
		cat "/proc/$t_pid/stat"
	done | awk '{ sub(/.*\) /, ""); n += $12 + $13 } END { print n }'
}

result() { # FIELD, in ms
	json_get "$tmpdir/r" "$1 // 1000"
}

# shellcheck disable=SC2016 # $0 and the like are the tasks'
for b in $(backends); do
	t="--proctrack $b"
	# shellcheck disable=SC2086 # $t is words
	{
		# ---- it stands, and its time with it
		start_step --result "$tmpdir/r" $t -n 2 -- sh -c 'echo up; while :; do :; done & while :; do :; done'
		ok "$b: suspend succeeds" "$stepctl" suspend "$job.0"
		first=$(ticks)
		like "$("$stepctl" list)" "^$job\.0 .* suspended " "$b: stepctl list shows the suspended step"
		sleep 0.3
		is "$(ticks)" "$first" "$b: the processor time of a suspended step does not change"
		ok "$b: a second suspend is no error" "$stepctl" suspend "$job.0"
		ok "$b: resume succeeds" "$stepctl" resume "$job.0"
		like "$("$stepctl" list)" "^$job\.0 .* running " "$b: stepctl list shows the resumed step as running"
		ok "$b: the processor time of a resumed step increases" eventually sh -c "
			ticks() { for p in \$('$stepctl' pids '$job.0'); do cat /proc/\$p/stat; done |
				awk '{ sub(/.*\\) /, \"\"); n += \$12 + \$13 } END { print n }'; }
			[ \"\$(ticks)\" -gt $first ]"
		ok "$b: a second resume is no error" "$stepctl" resume "$job.0"
		kill "$agent"
		ended 143 "$b: a resumed step ends by SIGTERM to its agent"
		ok "$b: the result has how long the step was suspended" test \
			"$(result suspended_usec)" -ge 300 -a "$(result suspended_usec)" -lt "$(result elapsed_usec)"
		nothing_left "$b: a suspended step leaves no cgroup, process or file behind"

		# ---- limits stand still
		limit=1000 # or more, so that the step is suspended before
		until start_step --result "$tmpdir/r" $t --time-limit ${limit}ms -n 2 --wait 1 -- sh -c 'echo up; [ $SLURM_PROCID = 0 ] || exec sleep 99; exec sleep 98' &&
			"$stepctl" suspend "$job.0" 2>/dev/null || [ $limit -gt 60000 ]; do
			wait "$agent"
			limit=$((limit * 4))
		done
		sleep "$((limit / 1000 + 1))"
		ok "$b: the time limit of a suspended step does not run" suspended
		"$stepctl" resume "$job.0"
		ended 124 "$b: the time limit of a resumed step runs on"
		ran=$(($(result elapsed_usec) - $(result suspended_usec)))
		ok "$b: the step ran for all of its time limit ($ran ms of $limit)" test $ran -ge $limit
		start_step --result "$tmpdir/r" $t -n 2 --wait 1 -- sh -c 'echo up; [ $SLURM_PROCID = 0 ] || exec sleep 99; exec sleep 98'
		kill -STOP "$(task 1)" # a wait that begins while the step is suspended
		"$stepctl" suspend "$job.0"
		kill -KILL "$(task 0)"
		sleep 1.2
		ok "$b: a wait that begins while the step is suspended does not run" suspended
		"$stepctl" resume "$job.0"
		ended 137 "$b: a wait that began while the step was suspended runs once it is resumed"

		# ---- signals and what was stopped before
		start_step --result "$tmpdir/r" $t -n 3 -- sh -c 'trap "echo term; exit 7" TERM
			[ $SLURM_PROCID != 1 ] || kill -STOP $$
			echo up; while :; do sleep 0.02; done'
		eventually has_lines "$tmpdir/out" 2
		stopped=$(task 1)
		is_stopped() { [ "$(process_state "$stopped")" = T ]; }
		eventually is_stopped
		"$stepctl" suspend "$job.0"
		kill -TERM "$(task 0)"
		sleep 0.1
		is "$(sort -u "$tmpdir/out")" up "$b: a signal to a suspended step waits"
		"$stepctl" resume "$job.0"
		ok "$b: a signal to a suspended step arrives when it is resumed" eventually grep -q term "$tmpdir/out"
		is "$(process_state "$stopped")" T "$b: a task that was stopped before the suspension stays stopped"
		isnt "$(process_state "$(task 2)")" T "$b: the other tasks of a resumed step go on"
		kill -CONT "$stopped"
		kill "$agent"
		ended 143 "$b: a resumed step with a stopped task ends"

		# ---- the end of a suspended step
		start_step --result "$tmpdir/r" $t -- sh -c 'trap "echo term; exit 7" TERM; echo up; while :; do sleep 0.02; done'
		"$stepctl" suspend "$job.0"
		kill -TERM "$agent"
		ended 143 "$b: SIGTERM to its agent ends a suspended step with 143"
		like "$(cat "$tmpdir/out")" '^term$' "$b: a task of a suspended step handles the SIGTERM of its end"
		for how in runs stands; do
			start_step --result "$tmpdir/r" $t --kill-sequence KILL -n 2 -- sh -c 'trap "" TERM; echo up; while :; do sleep 0.02; done'
			[ $how = runs ] || "$stepctl" suspend "$job.0"
			begin=$(now_ms)
			kill -TERM "$agent"
			ended 143 "$b: a step that $how can be killed"
			[ $how = stands ] || control=$(($(now_ms) - begin))
		done
		took=$(($(now_ms) - begin))
		ok "$b: a suspended step is killed as soon as a running one ($took ms, and $control)" no_slower $took $control
		start_step --result "$tmpdir/r" $t --kill-sequence TERM:30s,KILL -- sh -c 'trap "echo term" TERM; echo up; while :; do sleep 0.02; done'
		kill -TERM "$agent"
		eventually grep -q term "$tmpdir/out"
		out=$("$stepctl" suspend "$job.0" 2>&1)
		is $? 6 "$b: a step that is ending can't be suspended"
		like "$out" "^stepctl suspend: step .*$job\.0: .*ending" \
			"$b: the refusal to suspend an ending step has the reason"
		kill -INT "$agent"
		ended 143 "$b: an ending step ends after a refused suspend"

		# ---- requested too early
		: >"$tmpdir/out"
		"$stepd" run -q $t --job "$job" -n 8 -- sh -c 'echo up; exec sleep 99' >"$tmpdir/out" &
		agent=$!
		eventually sh -c "test -d '$run'/*_$job.0"
		"$stepctl" suspend "$job.0" 2>/dev/null || eventually "$stepctl" suspend "$job.0"
		ok "$b: a suspend during the launch takes effect after it" suspended
		kill -INT "$agent"
		ended 130 "$b: a step suspended during the launch ends by SIGINT"
	}
	nothing_left "$b: the job leaves no cgroup, process or file behind"
done

# ---- the commands ---------------------------------------------------------------------------------
out=$("$stepctl" suspend --timeout 1 "$job.0" 2>&1)
is "$?,$out" "1,stepctl suspend: step $job.0: there is no step '$job.0' on this node ('stepctl list' shows those that are there)" \
	"suspend of a missing step fails with the reason"
out=$("$stepctl" resume 2>&1)
is "$?,$out" "2,stepctl resume: give it STEP... (see 'stepctl resume --help')" \
	"resume without a step fails with the reason"
out=$("$stepctl" resume --timeout x "$job.0" 2>&1)
is "$?,$out" "2,stepctl resume: --timeout: 'x' is not a duration such as 5s" \
	"resume with a wrong timeout fails with the reason"

start_step --result "$tmpdir/r" -- sh -c 'echo up; exec sleep 99'
other=$agent
"$stepd" run -q --job "$job" --step 1 -- sh -c 'echo up; exec sleep 99' >"$tmpdir/out1" &
agent=$!
eventually test -s "$tmpdir/out1"
ok "one suspend takes several steps" "$stepctl" suspend "$job.0" "$job.1"
is "$("$stepctl" list | grep -c suspended)" 2 "all steps of one suspend are suspended"
out=$("$stepctl" resume "$job.0" "$job.9" "$job.1" 2>&1)
is "$?,$(echo "$out" | grep -c "step $job.9")" "1,1" "resume reports a missing step among others"
is "$("$stepctl" list | grep -c running)" 2 "a missing step does not keep others from being resumed"
kill -STOP "$agent"
out=$("$stepctl" suspend --timeout 0.2 "$job.1" 2>&1)
is "$?" 5 "an agent that does not answer is not waited for longer than --timeout"
like "$out" "step .*$job\.1: " "the report of an agent that does not answer names its step"
kill -CONT "$agent"
ok "a step is resumed when its agent goes on" "$stepctl" resume "$job.1"
kill -INT "$agent" "$other"
wait "$agent" "$other"

if [ "$(id -u)" = 0 ] && setpriv --reuid nobody --clear-groups "$stepctl" --version >/dev/null 2>&1; then
	start_step --result "$tmpdir/r" -- sh -c 'echo up; exec sleep 99'
	out=$(setpriv --reuid nobody --clear-groups "$stepctl" suspend "$job.0" 2>&1)
	is $? 3 "suspend of another user is refused"
	like "$out" "Suspend: PermissionDenied: .*root" "the refusal of another user's suspend has the reason"
	ok "the step runs on after another user's suspend" running 0
	kill -INT "$agent"
	wait "$agent" 2>/dev/null
else
	skip 3 "needs root, setpriv and a build directory that others may enter"
fi

# ---- the end of a suspended step, seen from outside ----------------------------------------------
# Its processes are gone, and its streams still flow: their reader takes nothing until the end.
mkfifo "$tmpdir/slow"
exec 9<>"$tmpdir/slow"
# More than the reader's end holds is written before the suspension: the rest is the agent's to carry.
"$stepd" run -q --job "$job" --label -- \
	sh -c 'yes | head -c 100000; : >"$1"; yes | head -c 300000; while :; do :; done' - "$tmpdir/flows" \
	>"$tmpdir/slow" 2>"$tmpdir/err" 9>&- &
agent=$!
eventually test -e "$tmpdir/flows"
"$stepctl" suspend "$job.0"
for pid in $("$stepctl" pids "$job.0"); do
	kill -9 "$pid"
done
eventually sh -c "! '$stepctl' pids $job.0 | grep -q ."
# The agent sees that a moment later; then it waits for the reader.
sleep 0.3
for signal in CONT TSTP CONT; do
	kill -$signal "$agent"
	sleep 0.1
done
cat <&9 >"$tmpdir/taken" 2>/dev/null 9>&- &
reader=$!
ended 137 "a suspended step whose processes are killed ends, whoever resumes it meanwhile"
kill -KILL $reader # TERM may come while it is still the shell's child, which notes it and forgets
wait $reader 2>/dev/null
exec 9>&-
nothing_left "a suspended step whose processes are killed leaves nothing behind"

# Its processes are killed while it is resumed: it is gone then, and nothing has failed.
for round in 1 2 3 4 5 6 7 8; do
	start_step --result "$tmpdir/r" --proctrack "$tracker" -- sh -c 'echo up; exec sleep 99'
	"$stepctl" suspend "$job.0"
	pid=$("$stepctl" pids "$job.0")
	kill -STOP "$agent"
	"$stepctl" resume "$job.0" >"$tmpdir/resumed" 2>&1 &
	resumer=$!
	[ $((round % 2)) = 0 ] || sleep 0.1
	kill -9 "$pid"
	kill -CONT "$agent"
	wait $resumer
	echo "$? $(tr '\n' ' ' <"$tmpdir/resumed")"
	wait "$agent"
done >"$tmpdir/statuses"
is "$(grep -v '^[016] ' "$tmpdir/statuses")" "" \
	"resume of a step that is just killed succeeds, or reports that it has ended"
unlike "$(cat "$tmpdir/resumed")" "EIO" "resume of a step that is just killed reports no failure"

# ---- without an agent -----------------------------------------------------------------------------
if backends | grep -qx cgroup; then
	start_step --result "$tmpdir/r" --proctrack cgroup -- sh -c 'echo up; exec sleep 99'
	"$stepctl" suspend "$job.0"
	kill_agent
	pid=$("$stepctl" pids "$job.0")
	group=$(find /sys/fs/cgroup -type d -path "*job_$job/step_0")
	is "$(cat "$group/cgroup.freeze")" 1 "a dead agent's step stays suspended"
	ok "a dead agent's step is resumed" "$stepctl" resume "$job.0"
	is "$(cat "$group/cgroup.freeze")" 0 "a dead agent's resumed step is not frozen"
	ok "a dead agent's step is suspended" "$stepctl" suspend "$job.0"
	like "$(cat "$group/cgroup.events")" "^frozen 1" "a dead agent's suspended step is frozen"
	kill -9 "$pid"
	ok "a process of a dead agent's suspended step can be killed" eventually sh -c "! kill -0 $pid"
	ok "a dead agent's suspended step starts again once it has ended" step --proctrack cgroup -- true
else
	skip 7 "needs proctrack/cgroup"
fi
nothing_left "the job leaves no cgroup, process or file behind"
done_testing
