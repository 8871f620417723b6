#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# An agent that has adopted its step is upgraded as any other; and one whose new program fails after
# all leaves a step that can be adopted.
. "${top_srcdir:?}/tests/lib/reexec.sh"

[ -x "$next" ] || skip_all "no second program (make check builds it)"
command -v python3 >/dev/null || skip_all "needs python3"
failing=${top_builddir:?}/tests/lib/stepd-failpoints
varlink() {
	"$top_srcdir/tests/lib/varlink.py" "$@"
}
entry() { # FILE of the step
	echo "$run"/*_"$job.0"/"$1"
}
result() { # FIELD: its values
	sed -n "s/^ *\"$1\": \"*\([^\",]*\)\"*,*\$/\1/p" "$run"/*_"$job.0"/result.json | tr '\n' ' '
}
lives_under() { # PID
	running 0 && grep -qs "\"agent_pid\":$1," "$run"/*_"$job.0"/state.json
}
state_is() {
	grep -qs "\"state\":\"$1\"" "$run"/*_"$job.0"/state.json
}
# What it has open but for what it was started with: that is closed at the first upgrade.
links() { # PID
	find "/proc/$1/fd" -mindepth 1 -printf '%l\n' | sort -u
}
links $$ >"$tmpdir/given"
fds() {
	find "/proc/$agent/fd" -mindepth 1 -printf '%l\n' | grep -vxFc -f "$tmpdir/given"
}
as_many_fds() {
	[ "$(fds)" -eq "$before_fds" ]
}
tasks() { # without what grows
	varlink call "$(entry socket)" ListTasks | sed 's/"elapsed_usec":[0-9]*//g'
}
kill_agent() {
	kill -KILL "$agent"
	wait "$agent" 2>/dev/null
}
adopt() { # $agent is the successor from now on
	put "$this"
	: >"$tmpdir/err"
	"$stepd" adopt "$job.0" 2>"$tmpdir/err" &
	agent=$!
	eventually lives_under "$agent"
}

for b in $(backends); do
	t="--proctrack $b --keep-result 1h"
	# shellcheck disable=SC2086 # $t is words
	{
		agent $t -n 4 -- sh -c "case \$SLURM_PROCID in 0) exit 7;; 3) exec sleep 60;; esac; $until_gone; exit \$SLURM_PROCID"
		eventually grep -q '"kind":"task_exit"' "$(entry events.jsonl)"
		doomed=$(varlink call "$(entry socket)" ListTasks | grep -o '{[^{}]*"rank":3[^{}]*}' | sed 's/.*"pid":\([0-9]*\).*/\1/')
		kill_agent
		kill -KILL "$doomed"
		eventually sh -c "! kill -0 $doomed 2>/dev/null || grep -q '^State:	Z' /proc/$doomed/status"
		adopt
		varlink call "$(entry socket)" Wait >"$tmpdir/wait" &
		waiter=$!
		eventually test "$(varlink call "$(entry socket)" ListTasks | grep -o '"state":"running"' | wc -l)" -eq 2
		tasks >"$tmpdir/tasks"
		sleep 0.3 # for what has just been asked
		before_fds=$(fds)
		ok "$b: a successor executes the new program" upgrade
		ok "$b: and once more" upgrade
		is "$(readlink "/proc/$agent/exe")" "$stepd" "$b: it is the new one"
		eventually as_many_fds
		is "$(fds)" "$before_fds" "$b: with as many descriptors"
		is "$(tasks)" "$(cat "$tmpdir/tasks")" \
			"$b: it tells of its tasks what it told before"
		rm -f "$tmpdir/stay"
		wait "$agent"
		code=$?
		ok "$b: the step ends as it should ($code)" test $code = 137 -o $code = 7
		like "$(result exit_code)" '^(137|7) 7 1 2 (137|null) $' "$b: each status is known that was"
		is "$(result adopted)$(result reason)" "true completed " "$b: the result says that it was adopted"
		wait $waiter
		like "$(cat "$tmpdir/wait")" '"state":"ended","result"' "$b: who waits is told the end"
		rm -rf "${run:?}"/*

		# Tasks that end one after the other, the last one too, while the agent is upgraded.
		wrong=
		for round in 1 2 3; do
			agent $t -n 12 -- sh -c "$until_gone; sleep 0.\$((SLURM_PROCID / 10))\$((SLURM_PROCID % 10)); exit \$((SLURM_PROCID + 1))"
			kill_agent
			adopt
			put "$next"
			(
				trap 'exit 0' TERM
				while kill -USR2 "$agent" 2>/dev/null; do sleep 0.02; done
			) &
			storm=$!
			eventually upgraded_more_than 0
			rm -f "$tmpdir/stay"
			wait "$agent"
			code=$?
			kill -TERM $storm 2>/dev/null
			wait $storm
			[ "$code $(result exit_code)" = "12 12 $(seq 1 12 | tr '\n' ' ')" ] ||
				wrong="$wrong round $round: $code $(result exit_code) $(tail -n 3 "$tmpdir/err")"
			rm -rf "${run:?}"/*
		done
		is "$wrong" "" "$b: no end of a task is lost while the agent is upgraded over and over"
		diag "$b: $(upgrades) upgrades in the last round"

		# What a task leaves behind goes to no successor as a child, also what it has begun since.
		: >"$tmpdir/behind"
		: >"$tmpdir/task"
		agent $t --wait-background -- sh -c "$until_gone
			(touch '$tmpdir/begun'; while [ -e '$tmpdir/behind' ]; do sleep 0.05; done; touch '$tmpdir/was-there') &
			while [ -e '$tmpdir/task' ]; do sleep 0.05; done; exit 3"
		kill_agent
		adopt
		upgrade
		upgrade
		rm -f "$tmpdir/stay"
		eventually test -e "$tmpdir/begun"
		"$stepctl" pids "$job.0" >"$tmpdir/pids"
		rm -f "$tmpdir/task"
		eventually grep -q '"wait_status":768' "$(entry events.jsonl)"
		sleep 0.2
		ok "$b: what a task left behind is waited for" running 0
		rm -f "$tmpdir/behind"
		ended 3 "$b: until it ends, too"
		ok "$b: which it had" test -e "$tmpdir/was-there"
		rm -rf "$tmpdir/was-there" "$tmpdir/begun" "${run:?}"/*

		agent $t -n 2 --time-limit 3s -- sleep 60
		kill_agent
		adopt
		upgrade
		kill -TSTP "$agent"
		eventually state_is suspended
		upgrade
		ok "$b: a suspended step stays so" state_is suspended
		kill -CONT "$agent"
		eventually state_is running
		ended 124 "$b: its time limit stands"
		rm -rf "${run:?}"/*
	}
done

# The trial has found nothing, and the program fails all the same.
[ -x "$failing" ] || bail "tests/lib/stepd-failpoints was not built"
STEPD_FAILPOINT=reexec-restore
export STEPD_FAILPOINT
agent --proctrack "$tracker" --keep-result 1h -n 2 -- sh -c "$until_gone; exit \$((SLURM_PROCID + 3))"
put "$failing"
asks
ended 125 "an agent whose new program fails after the trial ends"
like "$(cat "$tmpdir/err")" "a test has it fail here.*|.*the step is left without an agent \('stepd adopt' takes it over\)" \
	"and says what to do"
ok "its step goes on" state_is running
adopt
rm -f "$tmpdir/stay"
ended 4 "under a successor"
is "$(result exit_code)$(result adopted)" "4 3 4 true " "which knows how it ends"
rm -rf "${run:?}"/*

agent --proctrack "$tracker" --keep-result 1h -n 2 -- sh -c "$until_gone; exit 3"
kill_agent
adopt
put "$failing"
asks
ended 125 "a successor ends, too"
adopt
rm -f "$tmpdir/stay"
ended 3 "and the next one goes on"
rm -rf "${run:?}"/*

# The socket can't be had back: its connections end, and another one is there.
STEPD_FAILPOINT=reexec-socket
agent --proctrack "$tracker" -n 2 -- sh -c "$until_gone; exit 3"
upgrade
before_fds=$(fds)
varlink call "$(entry socket)" Wait >"$tmpdir/wait" 2>&1 &
waiter=$!
more_fds() {
	[ "$(fds)" -gt "$before_fds" ]
}
eventually more_fds
put "$failing"
asks
eventually upgraded_more_than 1
like "$(cat "$tmpdir/err")" "restore the control socket .*; all connections to the step are lost" \
	"a socket that can't be restored is told of"
wait $waiter
is "$(grep -c ended "$tmpdir/wait")" 0 "who waited there sees the end of the connection"
like "$(varlink call "$(entry socket)" Describe)" '"state":"running"' "the step can be asked at another one"
eventually as_many_fds
is "$(fds)" "$before_fds" "nothing of the old one stays open"
rm -f "$tmpdir/stay"
ended 3 "and the step goes on to its end"
nothing_left "nothing is left"
unset STEPD_FAILPOINT

# Its entry was removed: nobody finds it any more, and the agent goes on.
agent --proctrack "$tracker" -n 2 -- sh -c "$until_gone; exit 3"
upgrade
before_fds=$(fds)
python3 "$top_srcdir/tests/lib/varlink.py" call "$(entry socket)" Wait >"$tmpdir/wait" &
waiter=$!
eventually more_fds
rm "$(entry socket)"
ok "an agent whose socket was removed is upgraded" upgrade
rm -f "$tmpdir/stay"
ended 3 "and its step ends as it should"
wait $waiter
like "$(cat "$tmpdir/wait")" '"state":"ended"' "who was connected is told"
nothing_left "nothing is left"
done_testing
