#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# A step over several nodes ends whole, whoever is killed, and leaves nothing.
# shellcheck source=tests/lib/steprun.sh
. "${top_srcdir:?}/tests/lib/steprun.sh"

host=$(hostname | cut -d. -f1)
sleepers() { # ARG...: two nodes whose tasks sleep
	begin "$@" -N 2 -n 2 -- sh -c 'echo up; exec sleep 300'
	eventually has_lines "$tmpdir/out" 2 || diag "it does not begin: $(cat "$tmpdir/err")"
}
relay_alone() { # its agent has ended
	[ -s "$tmpdir/relay" ] && [ "$(cut -d' ' -f3 "/proc/$(children "$(cat "$tmpdir/relay")")/stat")" = Z ]
}
first() {
	head -n 1
}

sleepers
kill -9 "$(relays | first)"
finish
is "$status" 125 "a relay that is killed fails the step"
like "$(cat "$tmpdir/err")" "node $host-0 is lost: its launcher killed by signal 9" \
	"the node of a killed relay is named"
nothing_left_soon "a killed relay leaves no cgroup, process or file behind"

sleepers
kill -9 "$(agents | first)"
finish
is "$status" 125 "an agent that is killed fails the step"
like "$(cat "$tmpdir/err")" "$host-0: the agent has been killed" "the node of a killed agent is named"
nothing_left_soon "a killed agent leaves no cgroup, process or file behind"

# Its tasks run before it reports that they do.
begin -N 2 -n 2 -- sh -c '[ "$SLURM_PROCID" = 0 ] || kill -9 $PPID; exec sleep 300'
finish
is "$status" 125 "an agent that is killed as soon as its tasks run fails the step"
like "$(cat "$tmpdir/err")" "$host-1: the agent has been killed" "the node of an agent killed at once is named"
nothing_left_soon "an agent killed at once leaves no cgroup, process or file behind"

sleepers --launcher 'exec:%c; exit $?'
launcher=$(relays | first)
kill -9 "$launcher"
finish
is "$status" 125 "a launcher that is killed fails the step"
nothing_left_soon "a killed launcher leaves no cgroup, process or file behind"

sleepers
kill -9 "$pid"
finish 2>/dev/null
nothing_left_soon "a killed steprun leaves no cgroup, process or file behind"

sleepers
# shellcheck disable=SC2046 # numbers
kill -9 $(relays) "$pid"
finish 2>/dev/null
nothing_left_soon "a steprun killed with its relays leaves no cgroup, process or file behind"

begin -N 2 -n 2 --kill-sequence TERM:1h,KILL -- sh -c 'trap "" TERM; echo up; while :; do sleep 0.05; done'
eventually has_lines "$tmpdir/out" 2
kill -INT "$pid"
eventually grep -q 'again within a second' "$tmpdir/err"
like "$(cat "$tmpdir/err")" "running: tasks 0-1" "the first ^C reports which tasks run on all nodes"
kill -INT "$pid"
eventually grep -q 'ending the step' "$tmpdir/err"
kill -INT "$pid"
finish
is "$status" 130 "three times ^C kill the step"
nothing_left_soon "a step killed by three ^C leaves no cgroup, process or file behind"

# ---- tasks -------------------------------------------------------------------------------------
begin -q -N 2 -n 2 -K -- sh -c '[ "$SLURM_PROCID" = 0 ] && exec sleep 300; exit 3'
finish
is "$status" 3 "a task that fails ends the others with --kill-on-bad-exit"
# An agent whose relay had no time to hear of its tasks.
for option in -K '-W 1'; do
	rm -f "$tmpdir/relay" "$tmpdir/go"
	# shellcheck disable=SC2016,SC2086 # for the task's shell; words
	begin -q -N 2 -n 2 $option -- sh -c '[ "$SLURM_PROCID" = 1 ] || exec sleep 300
		relay=$(awk "/^PPid:/ { print \$2 }" /proc/$PPID/status)
		kill -STOP "$relay"; echo "$relay" >"$0.new"; mv "$0.new" "$0"; exit 3' "$tmpdir/relay"
	eventually relay_alone
	kill -CONT "$(cat "$tmpdir/relay")"
	finish
	is "$status" 3 "$option: the status of a task that failed before its relay knew counts"
done
begin -q -N 2 -n 2 -W 1 -- sh -c '[ "$SLURM_PROCID" = 0 ] && exec sleep 300; exit 0'
finish
is "$status" 0 "--wait counts from the first end on any node"
begin -q -N 2 -n 2 --time-limit 1s -- sleep 300
finish
is "$status" 124 "the time limit ends a step over nodes with 124"
begin -q -N 2 -n 2 -- sh -c '[ "$SLURM_PROCID" = 0 ] || kill -TERM $$; exit 200'
finish
is "$status" 143 "a signal on one node counts before a status on another"
begin -q -N 2 -n 2 -- /nonexistent/program
finish
is "$status" 127 "a missing program on all nodes gives 127"
printf '0 true\n1 /nonexistent/program\n' >"$tmpdir/programs"
begin -q -N 2 -n 2 --multi-prog "$tmpdir/programs"
finish
is "$status" 127 "a missing program on one node gives 127"
nothing_left_soon "steps over nodes that fail leave no cgroup, process or file behind"

# ---- launchers ---------------------------------------------------------------------------------
begin -N 2 --launcher 'exec:if [ %n = 1 ]; then exit 7; fi; %c' -- echo ran
finish
is "$status $(cat "$tmpdir/out")" "125 " "no task runs where a node can't be reached"
like "$(cat "$tmpdir/err")" "node $host-1 can't be reached: its launcher exited with status 7" \
	"a node that can't be reached is named"
begin -N 2 --launch-timeout 1s --launcher 'exec:if [ %n = 1 ]; then exec sleep 300; fi; %c' -- echo ran
finish
is "$status $(cat "$tmpdir/out")" "125 " "no task runs where a node does not answer"
like "$(cat "$tmpdir/err")" "node $host-1 has not answered within 1 s" "a node that does not answer is named"
begin -N 2 --launcher 'exec:echo Welcome; %c' -- echo ran
finish
is "$status $(sort -u "$tmpdir/out")" "0 ran" "a launcher's greeting does not disturb the step"
like "$(cat "$tmpdir/err")" "^steprun: .*Welcome" "a launcher's greeting is shown"
begin -N 2 --stepd /nonexistent/stepd -- echo ran
finish
is "$status" 125 "a missing stepd on a node gives 125"
like "$(cat "$tmpdir/err")" "/nonexistent/stepd" "a missing stepd on a node is named"
# Ranks that the launcher's variable has, and input for all, as srun has it.
if command -v python3 >/dev/null; then
	begin -w 'n[1-3]' -n 6 --launcher "exec:exec python3 $top_srcdir/tests/lib/start_all.py %N %q" -- \
		sh -c 'echo $SLURM_PROCID $SLURM_NODEID $SLURMD_NODENAME'
	finish
	is "$status $(sort -n "$tmpdir/out" | tr '\n' ' ')" "0 0 0 n1 1 0 n1 2 1 n2 3 1 n2 4 2 n3 5 2 n3 " "one command starts all relays"
	echo word | srun_here -w 'n[1-3]' -n 3 -i 2 --launcher "exec:exec python3 $top_srcdir/tests/lib/start_all.py %N %q" -- cat >"$tmpdir/out"
	is "$(cat "$tmpdir/out")" word "input reaches its node under one command for all relays"
else
	skip 2 "needs python3"
fi
nothing_left_soon "the job leaves no cgroup, process or file behind"

# Its descriptors for the wire are not the adopter's.
sleepers --mpi=pmi2
kill -9 "$(agents | first)"
finish
is "$status" 125 "an agent of connected nodes that is killed fails the step"
unlike "$(cat "$tmpdir/err")" "start the agent" "another agent adopts the part of its node"
nothing_left_soon "a killed agent of connected nodes leaves no cgroup, process or file behind"
done_testing
