#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# An agent is upgraded while its step runs: in each phase of a step, with each backend.
. "${top_srcdir:?}/tests/lib/reexec.sh"

[ -x "$next" ] || skip_all "no second program (make check builds it)"

state_is() {
	grep -qs "\"state\":\"$1\"" "$run"/*_"$job.0"/state.json
}

leaders() { # the tasks' pids
	sed 's/.*"tasks"://' "$run"/*_"$job.0"/state.json | grep -o '"pid":[0-9]*'
}

standing() { # how many of the step's processes stand still
	for pid in $("$stepctl" pids "$job.0"); do
		awk '/^State:/ { print $2 }' "/proc/$pid/status"
	done | grep -c '[tT]'
}

for b in $(backends); do
	t="--proctrack $b"
	# shellcheck disable=SC2086 # $t is words
	{
		agent $t -n 3 -- sh -c "$until_gone; exit \$SLURM_PROCID"
		pids=$(leaders)
		ok "$b: a step's agent executes the new program" upgrade
		like "$(cat "$tmpdir/err")" 'goes on as version 99\.1 in the place of [0-9]' \
			"$b: and says so, with both versions"
		is "$(readlink "/proc/$agent/exe")" "$stepd" "$b: it is the new one"
		is "$(cat "/proc/$agent/comm")" stepd "$b: under the name that it had"
		is "$(leaders)" "$pids" "$b: with the same processes"
		rm -f "$tmpdir/stay"
		ended 2 "$b: it sees the tasks' ends and statuses"
		nothing_left "$b: and leaves nothing behind"

		agent $t -n 2 --result "$tmpdir/r" -- sh -c 'sh -c "exec sleep 30" & exec sleep 30'
		upgrade
		first=$(fds)
		upgrade
		upgrade
		upgrade
		upgrade
		is "$(fds)" "$first" "$b: five upgrades leave no descriptor open"
		is "$(tr '\0' ' ' <"/proc/$agent/cmdline" | grep -o continue | wc -l)" 1 \
			"$b: and the command line does not grow"
		is "$("$stepctl" pids "$job.0" | wc -l)" 4 "$b: what the tasks have started is the step's still"
		kill -TERM "$agent"
		ended 143 "$b: a signal to the agent ends the step"
		like "$(cat "$tmpdir/r")" '"reason": "signal"' "$b: with its result"
		nothing_left "$b: nothing is left"

		agent $t --suspend-timeout 5s -n 2 -- \
			sh -c "while [ -e '$tmpdir/stay' ]; do echo beat; sleep 0.05; done"
		kill -TSTP "$agent"
		eventually state_is suspended
		upgrade
		ok "$b: a suspended step stays so" state_is suspended
		rm -f "$tmpdir/stay"
		beats=$(wc -l <"$tmpdir/out")
		sleep 0.3
		is "$(wc -l <"$tmpdir/out")" "$beats" "$b: nothing of it has gone on"
		kill -CONT "$agent"
		ended 0 "$b: and is resumed by the new program"

		agent $t --kill-sequence CONT,TERM:1s,KILL --result "$tmpdir/r" -n 2 -- \
			sh -c 'trap "" TERM; while :; do sleep 0.1; done'
		begin=$(date +%s%N)
		kill -TERM "$agent"
		eventually state_is ending
		upgrade
		upgrade
		ended 143 "$b: the escalation goes on"
		took=$((($(date +%s%N) - begin) / 1000000))
		ok "$b: when it would have (after $took ms)" test "$took" -ge 1000
		like "$(cat "$tmpdir/r")" '"text": "killed by signal 9 \(KILL\), on request"' \
			"$b: who ended on request is known"

		begin=$(date +%s%N)
		agent $t --time-limit 1s -- sleep 60
		upgrade
		upgrade
		ended 124 "$b: the time limit stands"
		took=$((($(date +%s%N) - begin) / 1000000))
		ok "$b: at its time (after $took ms)" test "$took" -ge 1000
	}
done

# A task that stood before the suspension is not continued by its end: only signals can do that.
agent --proctrack linuxproc --suspend-timeout 5s -n 2 -- \
	sh -c '[ "$SLURM_PROCID" = 1 ] || kill -STOP $$; sleep 60'
eventually test "$(standing)" -ge 1
kill -TSTP "$agent"
eventually state_is suspended
upgrade
kill -CONT "$agent"
eventually state_is running
is "$(standing)" 1 "who stood before a suspension stands after it, over an upgrade"
kill -KILL "$agent" 2>/dev/null
wait "$agent" 2>/dev/null
for pid in $(left_processes); do
	kill -KILL "$pid"
done
rm -rf "${run:?}"/*

put "$this"
: >"$tmpdir/err"
: >"$tmpdir/stay"
"$stepd" run --job "$job" --proctrack "$tracker" -n 200 -- sh -c "$until_gone" >"$tmpdir/out" 2>"$tmpdir/err" &
agent=$!
eventually test -e "$run/$(hostname)_$job.0/state.json" -o -e "$run"/*_"$job.0"/state.json
put "$next"
asks
eventually upgraded_more_than 0
rm -f "$tmpdir/stay"
ok "asked while it starts, it does it once the tasks run" upgraded_more_than 0
ended 0 "and the step ends as it should"

agent --proctrack "$tracker" -n 2 --wait 1 -- sh -c '[ $SLURM_PROCID = 0 ] || exit 0; sleep 60'
upgrade
ended 0 "the time after the first end goes on"

agent --proctrack "$tracker" -n 2 --wait-background -- sh -c "($until_gone) & exit 3"
upgrade
upgrade
rm -f "$tmpdir/stay"
ended 3 "a status that was known before the upgrade counts, and what was left is waited for"

agent --proctrack "$tracker" -v -n 1000 -- sleep 60
ok "1,000 tasks" upgrade
is "$("$stepctl" pids "$job.0" | wc -l)" 1000 "are all there"
diag "$(grep -h 'the change of programs took' "$tmpdir/err")"
kill -TERM "$agent"
ended 143 "and end"

agent --proctrack "$tracker" --trace "$tmpdir/trace" --sample 100ms "$tmpdir/samples" --usage \
	--result "$tmpdir/r" -n 2 -- sh -c "$until_gone"
upgrade
sleep 0.3
upgrade
sleep 0.5
rm -f "$tmpdir/stay"
ended 0 "with a trace, samples and a table"
is "$(grep -c '^time' "$tmpdir/samples")" 1 "the samples have one heading"
ok "and go on" test "$(wc -l <"$tmpdir/samples")" -gt 8
like "$(cat "$tmpdir/trace")" '"fork"' "the trace has what came before"
like "$(cat "$tmpdir/err")" 'CPU user' "the table is printed"
nothing_left "nothing is left"

# The upgraded agent leaves what a successor needs.
adopted() {
	running 0 && ! grep -qs "\"agent_pid\":$agent," "$run"/*_"$job.0"/state.json
}
agent --proctrack "$tracker" -n 2 -- sleep 60
upgrade
kill -KILL "$agent"
wait "$agent" 2>/dev/null
"$this" adopt -q "$job.0" 2>"$tmpdir/adopt" &
successor=$!
eventually adopted
is "$("$stepctl" pids "$job.0" | wc -l)" 2 "killed after an upgrade, it can be adopted"
kill -TERM "$successor"
wait "$successor"
is $? 143 "and its step ends under the successor"
nothing_left "and nothing is left"
done_testing
