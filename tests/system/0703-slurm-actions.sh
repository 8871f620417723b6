#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# A real step is queried, signalled, suspended and ended through its socket for Slurm's clients, at both
# ends of the range of versions.
# shellcheck source=tests/lib/slurm.sh
. "${top_srcdir:?}/tests/lib/slurm.sh"

begin_adapter
socket=
version=9728
slurm() {
	timeout 900 python3 "$top_srcdir/tests/lib/slurm_step.py" "$socket" "$version" "$@"
}

begin_step() { # STEP ARG...
	begun=$1
	shift
	start_agent "$begun" --proctrack "$tracker" "$@"
	step_agent=$agent
	eventually sh -c "ls '$spool' | grep -q '_$job.$begun\$'"
	socket=$(echo "$spool"/*_"$job.$begun")
}

# Stopped by signals, or frozen in its cgroup, where it seems to sleep.
stands_still() {
	before=$(cat "$1")
	sleep 0.1
	[ "$(cat "$1")" = "$before" ]
}

goes_on() {
	before=$(cat "$1")
	eventually sh -c "[ \"\$(cat '$1')\" != '$before' ]"
}

cat >"$tmpdir/task" <<'END'
exec 2>/dev/null # where the shell reports its child's signals
trap 'echo USR1 >>"$SIGNALS"' USR1
trap '' TERM
i=0
while :; do
	i=$((i + 1))
	echo "$i" >"$COUNT.$SLURM_PROCID"
	[ "$SLURM_PROCID" != 1 ] || [ ! -e "$COUNT.end" ] || exit 3
	sleep 0.02
done
END

step_number=0
for version in 9728 11776; do
	rm -f "$tmpdir"/signals "$tmpdir"/count*
	SIGNALS=$tmpdir/signals COUNT=$tmpdir/count begin_step $step_number \
		--kill-sequence TERM:1h,KILL -n 2 -- sh "$tmpdir/task"
	step_number=$((step_number + 1))
	eventually test -s "$tmpdir/count.1"
	task=$(slurm tasks | sed -n 's/^0 0 \([0-9]*\) 0 -1$/\1/p')
	is "$(slurm state)" 2 "$version: a step's state is running to Slurm"
	is "$(slurm daemon_pid)" "$step_agent" "$version: the step's daemon is its agent"
	is "$(slurm uid)" "$(id -u)" "$version: the step has its user"
	is "$(slurm nodeid)" 0 "$version: the step has its node's number"
	is "$(slurm has_pid "$task")" 1 "$version: a task is in the step"
	is "$(slurm has_pid "$step_agent")" 0 "$version: the agent is not in the step"
	is "$(slurm has_pid 1)" 0 "$version: another process is not in the step"
	like "$(slurm pids)" "^$task\$" "$version: the step's processes have the task among them"
	is "$(slurm signal 10)" "0 0" "$version: a signal to the step is accepted"
	ok "$version: a signal to the step reaches both tasks" eventually sh -c "[ \$(grep -c USR1 '$tmpdir/signals') = 2 ]"
	is "$(slurm signal 0)" "0 0" "$version: signal 0 to the step is accepted"
	is "$(slurm suspend)" "0 0" "$version: suspend of the step is accepted"
	ok "$version: a task of the suspended step does not run" stands_still "$tmpdir/count.0"
	is "$(slurm state)" 2 "$version: a suspended step's state is running to Slurm"
	is "$(slurm resume)" "0 0" "$version: resume of the step is accepted"
	ok "$version: a task of the resumed step runs" goes_on "$tmpdir/count.0"
	is "$(slurm signal 996)" "0 0" "$version: signal 996 (time limit) to the step is accepted"
	: >"$tmpdir/count.end"
	eventually sh -c "! kill -0 $(slurm tasks | sed -n 's/^1 1 \([0-9]*\) .*/\1/p') 2>/dev/null"
	slurm_has_exited() {
		slurm tasks | grep -q '^1 1 -1 1 768$'
	}
	ok "$version: an ended task is listed with its status" eventually slurm_has_exited
	is "$(slurm terminate)" "0 0" "$version: terminate of the step is accepted"
	wait "$step_agent" # an hour, if it were by SIGTERM
	is $? 143 "$version: terminate ends the step by SIGKILL, on request"
	ok "$version: the socket of an ended step is removed" eventually test ! -e "$socket"
done

# Signals that are Slurm's own.
version=11776
begin_step 5 -- sleep 600
is "$(slurm signal 991)" "0 0" "signal 991 to a step is accepted"
wait "$step_agent"
is $? 143 "signal 991 ends a step by its own kill sequence"
begin_step 6 -- sleep 600
is "$(slurm signal 997)" "0 0" "signal 997 to a step is accepted"
wait "$step_agent"
is $? 137 "signal 997 ends a step by SIGKILL"
begin_step 7 -- sh -c 'trap "" TERM; while :; do sleep 0.05; done'
is "$(slurm signal 15)" "0 0" "a signal that the step ignores is accepted"
is "$(slurm state)" 2 "a signal that the step ignores changes nothing"
is "$(slurm signal 9)" "0 0" "SIGKILL to a step is accepted"
wait "$step_agent"
is $? 137 "SIGKILL ends a step"

# A stopped agent answers nobody, and holds up nobody else.
begin_step 8 -- sleep 600
stopped=$step_agent
stopped_socket=$socket
begin_step 9 -- sleep 600
kill -STOP "$stopped"
socket=$stopped_socket
slurm state >"$tmpdir/stopped" &
client_pid=$!
socket=$(echo "$spool"/*_"$job.9")
is "$(slurm state)" 2 "another step is answered for while an agent is stopped"
ok "the client of a stopped agent waits while another step is answered for" kill -0 "$client_pid"
wait "$client_pid"
is "$(cat "$tmpdir/stopped")" closed "the client of a stopped agent is disconnected"
kill -CONT "$stopped"
socket=$stopped_socket
is "$(slurm state)" 2 "a step whose agent was stopped is answered for again"

# kill -9 of an agent: nobody is left to answer.
kill -9 "$step_agent"
wait "$step_agent" 2>/dev/null
ok "an agent that is killed leaves no socket for Slurm" \
	eventually sh -c "! ls '$spool' | grep -q '_$job.9\$'"
left=$(state_of 9 'tasks[0]["pid"]')
kill -9 "$left"
ok "stepctl clean removes the step of a killed agent" "$stepctl" clean
kill "$stopped"
wait "$stopped"

# Another user's step.
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
	begin_step 10 --uid 65534 --gid 65534 -- sleep 600
	as_owner() {
		setpriv --reuid 65534 --regid 65534 --clear-groups timeout 300 \
			python3 "$top_srcdir/tests/lib/slurm_step.py" "$socket" "$version" "$@"
	}
	as_stranger() {
		setpriv --reuid 64999 --regid 64999 --clear-groups timeout 300 \
			python3 "$top_srcdir/tests/lib/slurm_step.py" "$socket" "$version" "$@"
	}
	is "$(as_stranger uid)" 65534 "a stranger gets the step's user"
	is "$(as_stranger signal 9)" "-1 1" "a stranger can't signal the step"
	is "$(as_stranger terminate)" "-1 1" "a stranger can't end the step"
	is "$(as_owner suspend)" "-1 1" "the owner can't suspend the step"
	is "$(as_owner signal 18)" "0 0" "the owner can signal the step"
	is "$(as_owner terminate)" "0 0" "the owner can end the step"
	wait "$step_agent"
	is $? 143 "the step ends by its owner's request"
else
	skip 7 "needs root and setpriv"
fi

# An extern step gets processes by root, and ends by TERM.
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
	"$stepd" run -q --job "$job" --proctrack "$tracker" --uid 65534 --gid 65534 --extern &
	step_agent=$!
	eventually running extern
	eventually sh -c "ls '$spool' | grep -q '_$job.4294967292\$'"
	socket=$(echo "$spool"/*_"$job.4294967292")
	sleep 600 &
	added=$!
	is "$(slurm pids)" "" "an extern step has no process of its own"
	is "$(as_owner add_pid "$added")" -1 "the owner of an extern step can add no process to it"
	is "$(slurm add_pid "$added")" 0 "root adds a process to an extern step"
	is "$(slurm pids) $(slurm has_pid "$added")" "$added 1" "a process that was added is in the extern step"
	is "$(slurm add_pid 0) $(slurm add_pid 1) $(slurm add_pid "$step_agent")" "-1 -1 -1" \
		"what can't be in a step is not added to it"
	is "$(slurm x11_display | tr '\n' ' ')$(slurm namespace)" "0 0 0" "a step has neither a display nor a namespace"
	is "$(slurm signal 15)" "0 0" "SIGTERM to an extern step is accepted"
	wait "$step_agent"
	is $? 143 "SIGTERM ends an extern step"
	wait "$added"
	is $? 143 "what was added to an extern step ends with it"
else
	skip 9 "needs root and setpriv"
fi
end_adapter
nothing_left "the job leaves no cgroup, process or file behind"
done_testing
