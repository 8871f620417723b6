#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# A real step is asked, signalled, suspended and ended through its socket for Slurm's clients, at both
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
	"$stepd" run -q --job "$job" --step "$begun" --proctrack "$tracker" "$@" &
	step_agent=$!
	eventually running "$begun"
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
exec 2>/dev/null # where the shell tells of its child's signals
trap 'echo USR1 >>"$SAID"' USR1
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
	rm -f "$tmpdir"/said "$tmpdir"/count*
	SAID=$tmpdir/said COUNT=$tmpdir/count begin_step $step_number \
		--kill-sequence TERM:1h,KILL -n 2 -- sh "$tmpdir/task"
	step_number=$((step_number + 1))
	eventually test -s "$tmpdir/count.1"
	task=$(slurm tasks | sed -n 's/^0 0 \([0-9]*\) 0 -1$/\1/p')
	is "$(slurm state)" 2 "$version: it runs"
	is "$(slurm daemon_pid)" "$step_agent" "$version: its agent's pid"
	is "$(slurm uid)" "$(id -u)" "$version: its user"
	is "$(slurm nodeid)" 0 "$version: its node's number"
	is "$(slurm has_pid "$task")" 1 "$version: a task is the step's"
	is "$(slurm has_pid "$step_agent")" 0 "$version: the agent is not"
	is "$(slurm has_pid 1)" 0 "$version: nor is another process"
	like "$(slurm pids)" "^$task\$" "$version: its processes have the task among them"
	is "$(slurm signal 10)" "0 0" "$version: it is signalled"
	ok "$version: and gets it" eventually sh -c "[ \$(grep -c USR1 '$tmpdir/said') = 2 ]"
	is "$(slurm signal 0)" "0 0" "$version: signal 0 asks whether it is there"
	is "$(slurm suspend)" "0 0" "$version: it is suspended"
	ok "$version: and stands still" stands_still "$tmpdir/count.0"
	is "$(slurm state)" 2 "$version: which is a running step to Slurm"
	is "$(slurm resume)" "0 0" "$version: it is resumed"
	ok "$version: and goes on" goes_on "$tmpdir/count.0"
	is "$(slurm signal 996)" "0 0" "$version: it can be told of its time limit"
	: >"$tmpdir/count.end"
	eventually sh -c "! kill -0 $(slurm tasks | sed -n 's/^1 1 \([0-9]*\) .*/\1/p') 2>/dev/null"
	slurm_has_exited() {
		slurm tasks | grep -q '^1 1 -1 1 768$'
	}
	ok "$version: a task that has ended is told with its status" eventually slurm_has_exited
	is "$(slurm terminate)" "0 0" "$version: it is ended"
	wait "$step_agent" # an hour, if it were by SIGTERM
	is $? 143 "$version: by SIGKILL, on request"
	ok "$version: and its socket goes" eventually test ! -e "$socket"
done

# Signals that are Slurm's own.
version=11776
begin_step 5 -- sleep 600
is "$(slurm signal 991)" "0 0" "991 ends a step by its own sequence"
wait "$step_agent"
is $? 143 "that is, by SIGTERM first"
begin_step 6 -- sleep 600
is "$(slurm signal 997)" "0 0" "997 kills it"
wait "$step_agent"
is $? 137 "by SIGKILL"
begin_step 7 -- sh -c 'trap "" TERM; while :; do sleep 0.05; done'
is "$(slurm signal 15)" "0 0" "a signal that it ignores"
is "$(slurm state)" 2 "changes nothing"
is "$(slurm signal 9)" "0 0" "SIGKILL"
wait "$step_agent"
is $? 137 "ends it"

# A stopped agent answers nobody, and holds up nobody else.
begin_step 8 -- sleep 600
stopped=$step_agent
stopped_socket=$socket
begin_step 9 -- sleep 600
kill -STOP "$stopped"
socket=$stopped_socket
slurm state >"$tmpdir/stopped" &
asking=$!
socket=$(echo "$spool"/*_"$job.9")
is "$(slurm state)" 2 "while an agent is stopped another step is answered for"
ok "at once: the stopped one's client still waits" kill -0 "$asking"
wait "$asking"
is "$(cat "$tmpdir/stopped")" closed "and the stopped one's client is let go"
kill -CONT "$stopped"
socket=$stopped_socket
is "$(slurm state)" 2 "when it goes on it is asked again"

# kill -9 of an agent: nobody is left who could be asked.
kill -9 "$step_agent"
wait "$step_agent" 2>/dev/null
ok "an agent that is killed leaves no socket for Slurm" \
	eventually sh -c "! ls '$spool' | grep -q '_$job.9\$'"
left=$(cat "$run"/*_"$job.9/state.json" | sed -n 's/.*"rank":0,"pid":\([0-9]*\).*/\1/p')
kill -9 "$left"
ok "and what is left of its step is tidied up" "$stepctl" clean
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
	is "$(as_stranger uid)" 65534 "a stranger asks whose step it is"
	is "$(as_stranger signal 9)" "-1 1" "but can't signal it"
	is "$(as_stranger terminate)" "-1 1" "nor end it"
	is "$(as_owner suspend)" "-1 1" "its owner can't suspend it"
	is "$(as_owner signal 18)" "0 0" "but signals it"
	is "$(as_owner terminate)" "0 0" "and ends it"
	wait "$step_agent"
	is $? 143 "which it does"
else
	skip 7 "needs root and setpriv"
fi
end_adapter
nothing_left "all of it is gone"
done_testing
