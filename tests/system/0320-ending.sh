#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What ends a step, for every backend: policies, limits, signals to the agent, what tasks leave.
. "${top_srcdir:?}/tests/lib/step.sh"

for b in $(backends); do
	t="--proctrack $b"
	# shellcheck disable=SC2086 # $t is words
	{
		step -q $t --time-limit 0.2s -n 2 -- sleep 99
		is $? 124 "$b: the time limit ends the step with 124"
		step -q $t -n 2 --kill-on-bad-exit -- sh -c '[ $SLURM_PROCID = 0 ] || exit 3; exec sleep 99'
		is $? 3 "$b: --kill-on-bad-exit gives the failed task's status"
		step -q $t -n 2 --kill-on-bad-exit=60s -- sh -c '[ $SLURM_PROCID = 0 ] && exit 3; sleep 0.05; exit 4'
		is $? 4 "$b: a task may end by itself within the grace time of --kill-on-bad-exit"
		step -q $t -n 2 --wait 1 -- sh -c '[ $SLURM_PROCID = 0 ] || exit 0; exec sleep 99'
		is $? 0 "$b: --wait ends the other tasks, whose status does not count"

		start_step --result "$tmpdir/r" $t -n 2 -- sh -c 'echo up; exec sleep 99'
		kill -TERM "$agent"
		ended 143 "$b: SIGTERM to the agent ends the step with 143"
		start_step --result "$tmpdir/r" $t -n 2 -- sh -c 'echo up; exec sleep 99'
		kill -HUP "$agent"
		ended 129 "$b: SIGHUP to the agent ends the step with 129"
		start_step --result "$tmpdir/r" $t -n 2 -- sh -c 'echo up; exec sleep 99'
		kill -QUIT "$agent"
		ended 131 "$b: SIGQUIT (^\\ at a terminal) to the agent ends the step with 131"
		start_step --result "$tmpdir/r" $t -n 2 -- sh -c 'echo up; exec sleep 99'
		for stray in USR1 USR2 ALRM PIPE IO 40; do
			kill -$stray "$agent"
		done
		kill -TERM "$agent"
		ended 143 "$b: a stray signal does not end the agent, which goes on with its step"
		start_step --result "$tmpdir/r" $t -- sh -c 'trap "echo term" TERM; echo up; while :; do sleep 0.05; done'
		kill -INT "$agent"
		eventually grep -q term "$tmpdir/out"
		kill -INT "$agent"
		ended 130 "$b: a second SIGINT to the agent kills the tasks"
		json_like "$tmpdir/r" '[t["text"] for t in tasks]' 'killed by signal 9 \(KILL\), on request' \
			"$b: a task that ignores SIGINT is killed"

		# Time for a trap, also where others have the processor.
		start_step --result "$tmpdir/r" $t --kill-sequence "CONT,INT:4s,TERM:4s,KILL" -- \
			sh -c 'trap "echo int" INT; trap "echo term" TERM; echo up; while :; do sleep 0.1; done'
		kill -TERM "$agent"
		wait "$agent"
		sed 1d "$tmpdir/out" >"$tmpdir/seq"
		is "$(tr '\n' ' ' <"$tmpdir/seq")" "int term " "$b: the kill sequence is sent in its order"
		json_like "$tmpdir/r" '[t["text"] for t in tasks]' 'killed by signal 9 \(KILL\), on request' \
			"$b: the kill sequence comes to its end"

		step -q $t -n 2 -- sh -c 'sleep 99 & sleep 99 & :'
		is $? 0 "$b: background processes of tasks do not delay the step's end"
		begin=$(date +%s%N)
		step -q $t --wait-background -- sh -c 'sleep 0.3 & :'
		is $(((($(date +%s%N) - begin) / 1000000) >= 300)) 1 \
			"$b: --wait-background waits for background processes"
	}
	nothing_left "$b: the job leaves no cgroup, process or file behind"
done

for b in $(backends); do
	[ "$b" != pgid ] || continue
	step -q --proctrack "$b" -n 2 -- sh -c 'setsid sh -c "(setsid sleep 99 &) ; sleep 99" & :'
	is $? 0 "$b: daemons of tasks do not delay the step's end"
	nothing_left "$b: daemons of tasks do not survive the step"
done

start_step --result "$tmpdir/r" -- sh -c 'trap "" HUP; echo up; exec sleep 99'
sh -c 'trap "" HUP; exec "$0" run --job "$1" --step 1 -- sh -c "echo up; exec sleep 1"' "$stepd" "$job" \
	>"$tmpdir/out2" &
nohup=$!
eventually test -s "$tmpdir/out2"
end_child HUP $nohup
wait $nohup
is $? 0 "an agent whose caller ignores SIGHUP (nohup) ignores SIGHUP"
kill -TERM "$agent"
ended 143 "an agent started without nohup ends while one with it goes on"

out=$(step --kill-sequence TERM:1s -- true 2>&1)
is $? 125 "a kill sequence without KILL at its end is refused"
like "$out" "kill-sequence.*KILL" "the refusal of a kill sequence names the option and the remedy"
nothing_left "the job leaves no cgroup, process or file behind"
done_testing
