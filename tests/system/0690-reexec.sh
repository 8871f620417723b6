#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# An agent is upgraded while its step runs: in each phase of a step, with each backend.
. "${top_srcdir:?}/tests/lib/reexec.sh"

[ -x "$next" ] || skip_all "no second program (make check builds it)"

leaders() { # the tasks' pids
	state_of 0 '[t["pid"] for t in tasks]'
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
		start_step $t -n 3 -- sh -c "$until_gone; exit \$SLURM_PROCID"
		pids=$(leaders)
		ok "$b: a step's agent executes the new program" upgrade
		like "$(cat "$tmpdir/err")" 'continues as version 99\.1, which replaces [0-9]' \
			"$b: an upgraded agent reports both versions"
		is "$(readlink "/proc/$agent/exe")" "$stepd" "$b: the agent's executable is the new program"
		is "$(cat "/proc/$agent/comm")" stepd "$b: an upgraded agent keeps its name"
		is "$(leaders)" "$pids" "$b: an upgraded agent has the same tasks"
		rm -f "$tmpdir/stay"
		ended 2 "$b: an upgraded agent gets the tasks' statuses"
		nothing_left "$b: an upgraded agent leaves no cgroup, process or file behind"

		start_step $t -n 2 --result "$tmpdir/r" -- sh -c 'sh -c "exec sleep 30" & exec sleep 30'
		upgrade
		first=$(least_fds)
		upgrade
		upgrade
		upgrade
		upgrade
		ok "$b: five upgrades leave no descriptor open" eventually fds_at_most "$first"
		is "$(tr '\0' ' ' <"/proc/$agent/cmdline" | grep -o continue | wc -l)" 1 \
			"$b: five upgrades do not lengthen the command line"
		is "$("$stepctl" pids "$job.0" | wc -l)" 4 "$b: an upgraded agent has the tasks' descendants"
		kill -TERM "$agent"
		ended 143 "$b: SIGTERM to an upgraded agent ends the step"
		is "$(json_get "$tmpdir/r" reason)" signal "$b: an upgraded agent writes the result"
		nothing_left "$b: the job leaves no cgroup, process or file behind"

		start_step $t --suspend-timeout 60s -n 2 -- \
			sh -c "while [ -e '$tmpdir/stay' ]; do echo beat; sleep 0.05; done"
		kill -TSTP "$agent"
		eventually suspended 0
		upgrade
		ok "$b: a suspended step stays suspended over an upgrade" suspended 0
		rm -f "$tmpdir/stay"
		beats=$(wc -l <"$tmpdir/out")
		sleep 0.3
		is "$(wc -l <"$tmpdir/out")" "$beats" "$b: no task of a suspended step runs over an upgrade"
		kill -CONT "$agent"
		ended 0 "$b: the new program resumes a suspended step"

		start_step $t --kill-sequence CONT,TERM:600s,KILL -n 2 -- sh -c "trap '' TERM; $until_gone"
		kill -TERM "$agent"
		eventually is_state ending 0
		upgrade
		upgrade
		ok "$b: a step that is being ended still is after two upgrades" is_state ending 0
		rm -f "$tmpdir/stay"
		ended 143 "$b: a step that ends within its grace, after two upgrades, has been ended by a signal"

		start_step $t --kill-sequence CONT,TERM:1s,KILL --result "$tmpdir/r" -n 2 -- \
			sh -c 'trap "" TERM; while :; do sleep 0.1; done'
		begin=$(date +%s%N)
		kill -TERM "$agent"
		eventually is_state ending 0
		upgrade_in_time
		upgrade_in_time
		ended 143 "$b: the kill sequence goes on over an upgrade"
		took=$((($(date +%s%N) - begin) / 1000000))
		ok "$b: the kill sequence keeps its times over an upgrade (after $took ms)" test "$took" -ge 1000
		like "$(json_get "$tmpdir/r" '[t["text"] for t in tasks]')" 'killed by signal 9 \(KILL\), on request' \
			"$b: an upgraded agent knows who ended on request"

		begin=$(date +%s%N)
		start_step $t --time-limit 5s -- sleep 600
		upgrade
		upgrade
		ended 124 "$b: the time limit ends the step over an upgrade"
		took=$((($(date +%s%N) - begin) / 1000000))
		ok "$b: the time limit is not shorter over an upgrade (after $took ms)" test "$took" -ge 5000
	}
done

# A task that stood before the suspension is not continued by its end: only signals can do that.
start_step --proctrack linuxproc --suspend-timeout 60s -n 2 -- \
	sh -c '[ "$SLURM_PROCID" = 1 ] || kill -STOP $$; sleep 60'
has_standing() {
	[ "$(standing)" -ge 1 ]
}
eventually has_standing
kill -TSTP "$agent"
eventually suspended 0
upgrade
kill -CONT "$agent"
eventually running 0
is "$(standing)" 1 "a task stopped before the suspension stays stopped after it, over an upgrade"
kill -KILL "$agent" 2>/dev/null
wait "$agent" 2>/dev/null
# shellcheck disable=SC2046 # pids
kill_left $(left_processes)
rm -rf "${run:?}"/*

put "$this"
: >"$tmpdir/err"
: >"$tmpdir/stay"
"$stepd" run --job "$job" --proctrack "$tracker" -n 200 -- sh -c "$until_gone" >"$tmpdir/out" 2>"$tmpdir/err" &
agent=$!
eventually test -e "$run/$(hostname)_$job.0/state.json" -o -e "$run"/*_"$job.0"/state.json
put "$next"
request_upgrade
eventually upgraded_more_than 0
rm -f "$tmpdir/stay"
ok "an agent that gets an upgrade request while it starts is upgraded once the tasks run" upgraded_more_than 0
ended 0 "a step upgraded while it starts ends with its status"

start_step --proctrack "$tracker" -n 2 --wait 1 -- sh -c '[ $SLURM_PROCID = 0 ] || exit 0; sleep 60'
upgrade
ended 0 "the time of --wait runs on over an upgrade"

start_step --proctrack "$tracker" -n 2 --wait-background -- sh -c "($until_gone) & exit 3"
upgrade
upgrade
rm -f "$tmpdir/stay"
ended 3 "a status known before the upgrade counts, and background processes are waited for"

start_step --proctrack "$tracker" -v -n 1000 -- sleep 60
ok "an agent of 1,000 tasks is upgraded" upgrade
is "$("$stepctl" pids "$job.0" | wc -l)" 1000 "an upgraded agent has all of 1,000 tasks"
diag "$(grep -h 'the change of programs took' "$tmpdir/err")"
kill -TERM "$agent"
ended 143 "an upgraded agent ends 1,000 tasks"

start_step --proctrack "$tracker" --trace "$tmpdir/trace" --sample 100ms "$tmpdir/samples" --usage \
	--result "$tmpdir/r" -n 2 -- sh -c "$until_gone"
eventually has_lines "$tmpdir/samples" 2
upgrade
eventually has_lines "$tmpdir/samples" 8
upgrade
taken=$(wc -l <"$tmpdir/samples")
ok "samples are taken after two upgrades" eventually has_lines "$tmpdir/samples" $((taken + 8))
rm -f "$tmpdir/stay"
ended 0 "a step with a trace, samples and a table ends over an upgrade"
is "$(grep -c '^time' "$tmpdir/samples")" 1 "the samples have one heading over an upgrade"
like "$(cat "$tmpdir/trace")" '"fork"' "the trace has what came before the upgrade"
like "$(cat "$tmpdir/err")" 'CPU user' "the table of usage is printed after an upgrade"
nothing_left "the job leaves no cgroup, process or file behind"

# The upgraded agent leaves what a successor needs.
start_step --proctrack "$tracker" -n 2 -- sleep 60
upgrade
kill_agent
"$this" adopt -q "$job.0" 2>"$tmpdir/adopt" &
successor=$!
eventually adopted 0
eventually running 0
is "$("$stepctl" pids "$job.0" | wc -l)" 2 "the step of an agent killed after an upgrade can be adopted"
kill -TERM "$successor"
wait "$successor"
is $? 143 "the step of an agent killed after an upgrade ends under its successor"
nothing_left "a successor of an upgraded agent leaves no cgroup, process or file behind"
done_testing
