#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Suspending and resuming a step, for every backend.
. "${top_srcdir:?}/tests/lib/step.sh"

# agent ARG...: runs a step in the background, $agent is its pid, once its tasks run.
agent() {
	: >"$tmpdir/out"
	"$stepd" run -q --job "$job" --result "$tmpdir/r" "$@" >"$tmpdir/out" 2>"$tmpdir/err" &
	agent=$!
	eventually grep -q up "$tmpdir/out"
}

ended() { # STATUS NAME
	wait "$agent"
	is $? "$1" "$2"
}

suspended() { # of step 0
	grep -qs '"state":"suspended"' "$run"/*_"$job.0"/state.json
}

# The pid of a task that has not ended (0 would be this test's own group).
task() { # RANK
	sed -n 's/.*"rank":'"$1"',"pid":\([1-9][0-9]*\).*/\1/p' "$run"/*_"$job.0"/state.json
}

state() { # PID: T, S, ...
	sed 's/.*) \(.\) .*/\1/' "/proc/$1/stat"
}

# Clock ticks of all processes of the step.
ticks() {
	for t_pid in $("$stepctl" pids "$job.0"); do
		cat "/proc/$t_pid/stat"
	done | awk '{ sub(/.*\) /, ""); n += $12 + $13 } END { print n }'
}

result() { # FIELD, in ms
	sed -n '/"container"/q; s/^  "'"$1"'": \([0-9]*\)[0-9][0-9][0-9],/\1/p' "$tmpdir/r"
}

# shellcheck disable=SC2016 # $0 and the like are the tasks'
for b in $(backends); do
	t="--proctrack $b"
	# shellcheck disable=SC2086 # $t is words
	{
		# ---- it stands, and its time with it
		agent $t -n 2 -- sh -c 'echo up; while :; do :; done & while :; do :; done'
		ok "$b: suspend succeeds" "$stepctl" suspend "$job.0"
		first=$(ticks)
		like "$("$stepctl" list)" "^$job\.0 .* suspended " "$b: list shows it"
		sleep 0.3
		is "$(ticks)" "$first" "$b: its processor time does not move any more"
		ok "$b: to suspend it again is no error" "$stepctl" suspend "$job.0"
		ok "$b: resume succeeds" "$stepctl" resume "$job.0"
		like "$("$stepctl" list)" "^$job\.0 .* running " "$b: list shows it running"
		ok "$b: its processor time moves again" eventually sh -c "
			ticks() { for p in \$('$stepctl' pids '$job.0'); do cat /proc/\$p/stat; done |
				awk '{ sub(/.*\\) /, \"\"); n += \$12 + \$13 } END { print n }'; }
			[ \"\$(ticks)\" -gt $first ]"
		ok "$b: to resume it again is no error" "$stepctl" resume "$job.0"
		kill "$agent"
		ended 143 "$b: and it ends as usual"
		ok "$b: the result tells how long it was suspended" test \
			"$(result suspended_usec)" -ge 300 -a "$(result suspended_usec)" -lt "$(result elapsed_usec)"
		nothing_left "$b: nothing is left"

		# ---- limits stand still
		agent $t --time-limit 0.6s -n 2 --wait 1 -- sh -c 'echo up; [ $SLURM_PROCID = 0 ] || exec sleep 99; exec sleep 98'
		"$stepctl" suspend "$job.0"
		sleep 1
		ok "$b: its time limit does not run meanwhile" suspended
		"$stepctl" resume "$job.0"
		ended 124 "$b: and goes on when it is resumed"
		ran=$(($(result elapsed_usec) - $(result suspended_usec)))
		ok "$b: with what was left of it ($ran ms of 600)" test $ran -ge 600
		agent $t -n 2 --wait 1 -- sh -c 'echo up; [ $SLURM_PROCID = 0 ] || exec sleep 99; exec sleep 98'
		kill -STOP "$(task 1)" # a wait that begins while the step is suspended
		"$stepctl" suspend "$job.0"
		kill -KILL "$(task 0)"
		sleep 1.2
		ok "$b: nor does a limit that begins meanwhile" suspended
		"$stepctl" resume "$job.0"
		ended 137 "$b: it begins then"

		# ---- signals and what was stopped before
		agent $t -n 3 -- sh -c 'trap "echo term; exit 7" TERM
			[ $SLURM_PROCID != 1 ] || kill -STOP $$
			echo up; while :; do sleep 0.02; done'
		eventually test "$(wc -l <"$tmpdir/out")" = 2
		stopped=$(task 1)
		eventually sh -c "grep -q ' T ' /proc/$stopped/stat"
		"$stepctl" suspend "$job.0"
		kill -TERM "$(task 0)"
		sleep 0.1
		is "$(sort -u "$tmpdir/out")" up "$b: a signal to a suspended step waits"
		"$stepctl" resume "$job.0"
		ok "$b: and arrives when it is resumed" eventually grep -q term "$tmpdir/out"
		is "$(state "$stopped")" T "$b: who was stopped before stays so"
		isnt "$(state "$(task 2)")" T "$b: and the others go on"
		kill -CONT "$stopped"
		kill "$agent"
		ended 143 "$b: it ends"

		# ---- the end of a suspended step
		agent $t -- sh -c 'trap "echo term; exit 7" TERM; echo up; while :; do sleep 0.02; done'
		"$stepctl" suspend "$job.0"
		kill -TERM "$agent"
		ended 143 "$b: a suspended step that is told to end is resumed"
		like "$(cat "$tmpdir/out")" '^term$' "$b: and acts on the signal"
		for how in runs stands; do
			agent $t --kill-sequence KILL -n 2 -- sh -c 'trap "" TERM; echo up; while :; do sleep 0.02; done'
			[ $how = runs ] || "$stepctl" suspend "$job.0"
			begin=$(now_ms)
			kill -TERM "$agent"
			ended 143 "$b: a step that $how can be killed"
			[ $how = stands ] || control=$(($(now_ms) - begin))
		done
		took=$(($(now_ms) - begin))
		ok "$b: one that stands as soon as one that runs ($took ms, and $control)" no_slower $took $control
		agent $t --kill-sequence TERM:30s,KILL -- sh -c 'trap "echo term" TERM; echo up; while :; do sleep 0.02; done'
		kill -TERM "$agent"
		eventually grep -q term "$tmpdir/out"
		out=$("$stepctl" suspend "$job.0" 2>&1)
		is $? 6 "$b: a step that is ending can't be suspended"
		like "$out" "^stepctl suspend: step .*$job\.0: .*ending" "$b: and that is said"
		kill -INT "$agent"
		ended 143 "$b: it ends all the same"

		# ---- asked too early
		: >"$tmpdir/out"
		"$stepd" run -q $t --job "$job" -n 8 -- sh -c 'echo up; exec sleep 99' >"$tmpdir/out" &
		agent=$!
		eventually sh -c "test -d '$run'/*_$job.0"
		"$stepctl" suspend "$job.0" 2>/dev/null || eventually "$stepctl" suspend "$job.0"
		ok "$b: one that is asked for during the launch comes after it" suspended
		kill -INT "$agent"
		ended 130 "$b: and it ends"
	}
	nothing_left "$b: nothing is left"
done

# ---- the commands ---------------------------------------------------------------------------------
out=$("$stepctl" suspend --timeout 1 "$job.0" 2>&1)
is "$?,$out" "1,stepctl suspend: step $job.0: there is no step '$job.0' on this node ('stepctl list' shows those that are there)" \
	"a step that is not there"
out=$("$stepctl" resume 2>&1)
is "$?,$out" "2,stepctl resume: give it STEP... (see 'stepctl resume --help')" "no step at all"
out=$("$stepctl" resume --timeout x "$job.0" 2>&1)
is "$?,$out" "2,stepctl resume: --timeout: 'x' is no duration such as 5s" "a timeout that is none"

agent -- sh -c 'echo up; exec sleep 99'
other=$agent
"$stepd" run -q --job "$job" --step 1 -- sh -c 'echo up; exec sleep 99' >"$tmpdir/out1" &
agent=$!
eventually test -s "$tmpdir/out1"
ok "several steps at once" "$stepctl" suspend "$job.0" "$job.1"
is "$("$stepctl" list | grep -c suspended)" 2 "stand all"
out=$("$stepctl" resume "$job.0" "$job.9" "$job.1" 2>&1)
is "$?,$(echo "$out" | grep -c "step $job.9")" "1,1" "one that is not there does not keep the others"
is "$("$stepctl" list | grep -c running)" 2 "which go on"
kill -STOP "$agent"
out=$("$stepctl" suspend --timeout 0.2 "$job.1" 2>&1)
is "$?" 5 "an agent that does not answer is not waited for longer than --timeout"
like "$out" "step .*$job\.1: " "and named"
kill -CONT "$agent"
ok "it can be resumed when it goes on" "$stepctl" resume "$job.1"
kill -INT "$agent" "$other"
wait "$agent" "$other"

if [ "$(id -u)" = 0 ] && setpriv --reuid nobody --clear-groups "$stepctl" --version >/dev/null 2>&1; then
	agent -- sh -c 'echo up; exec sleep 99'
	out=$(setpriv --reuid nobody --clear-groups "$stepctl" suspend "$job.0" 2>&1)
	is $? 3 "another user may not"
	like "$out" "Suspend: PermissionDenied: .*root" "and is told so"
	ok "the step runs on" running 0
	kill -INT "$agent"
	wait "$agent" 2>/dev/null
else
	skip 3 "needs root, setpriv and a build directory that others may enter"
fi

# ---- the end of a suspended step, seen from outside ----------------------------------------------
# Its processes are gone, and its streams still flow: their reader takes nothing until the end.
mkfifo "$tmpdir/slow"
exec 9<>"$tmpdir/slow"
"$stepd" run -q --job "$job" --label -- sh -c 'yes | head -c 400000; while :; do :; done' \
	>"$tmpdir/slow" 2>"$tmpdir/err" 9>&- &
agent=$!
eventually running 0
eventually sh -c "[ -n \"\$('$stepctl' pids $job.0)\" ]"
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
kill $reader
wait $reader 2>/dev/null
exec 9>&-
nothing_left "and leaves nothing"

# Its processes are killed while it is asked to go on: it is gone then, and nothing has failed.
for round in 1 2 3 4 5 6 7 8; do
	agent --proctrack "$tracker" -- sh -c 'echo up; exec sleep 99'
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
is "$(grep -v '^[016] ' "$tmpdir/statuses")" "" "who resumes a step that is just killed is told that it runs, or is no more"
unlike "$(cat "$tmpdir/resumed")" "EIO" "and not that something failed"

# ---- without an agent -----------------------------------------------------------------------------
if backends | grep -qx cgroup; then
	agent --proctrack cgroup -- sh -c 'echo up; exec sleep 99'
	"$stepctl" suspend "$job.0"
	kill -9 "$agent"
	wait "$agent" 2>/dev/null
	pid=$("$stepctl" pids "$job.0")
	group=$(find /sys/fs/cgroup -type d -path "*job_$job/step_0")
	is "$(cat "$group/cgroup.freeze")" 1 "a dead agent's step stays suspended"
	ok "it can be resumed" "$stepctl" resume "$job.0"
	is "$(cat "$group/cgroup.freeze")" 0 "then it goes on"
	ok "and be suspended" "$stepctl" suspend "$job.0"
	like "$(cat "$group/cgroup.events")" "^frozen 1" "then it stands"
	kill -9 "$pid"
	ok "what stands can be killed" eventually sh -c "! kill -0 $pid"
	ok "and the step be started again" step --proctrack cgroup -- true
else
	skip 7 "needs proctrack/cgroup"
fi
nothing_left "nothing is left at the end"
done_testing
