#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# An operator freezes and thaws a step by its cgroup.freeze, or a cgroup above, while its agent is
# dead and while it lives: the agent believes the kernel, says so in one line, and the limits of the
# step's time stand still as they do after stepctl suspend.
# shellcheck disable=SC2016,SC2317 # what stands in single quotes is for the tasks; for eventually
. "${top_srcdir:?}/tests/lib/step.sh"

command -v python3 >/dev/null || skip_all "python3 is missing"
[ "$tracker" = cgroup ] || skip_all "needs proctrack/cgroup"

hostile=${top_builddir:?}/tests/lib/hostile

field() { # STEP NAME: of its state.json
	python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))[sys.argv[2]])' "$run"/*_"$job.$1"/state.json "$2"
}

state_is() { # STEP STATE
	[ "$(field "$1" state)" = "$2" ]
}

kinds() { # FILE KIND: how many events of that kind it has
	python3 -c 'import json, sys
print(sum(json.loads(line)["kind"] == sys.argv[2] for line in open(sys.argv[1])))' "$@"
}

begin() { # STEP ARG...
	begin_step=$1
	shift
	rm -f "$tmpdir/up"
	UP=$tmpdir/up "$stepd" run --job "$job" --step "$begin_step" --proctrack cgroup --keep-result 1h "$@" \
		>"$tmpdir/out" 2>"$tmpdir/err" &
	agent=$!
	eventually running "$begin_step"
	eventually test -e "$tmpdir/up"
	group=$(find /sys/fs/cgroup -type d -path "*job_$job/step_$begin_step")
	members=$group
	[ ! -d "$group/members" ] || members=$group/members
}

kill_agent() {
	kill -9 "$agent"
	wait "$agent" 2>/dev/null
}

adopt() { # STEP
	"$stepd" adopt "$job.$1" >"$tmpdir/out" 2>"$tmpdir/err" &
	agent=$!
	eventually grep -q "\"agent_pid\":$agent," "$run"/*_"$job.$1"/state.json
	# A signal waits for what the adoption itself asks of the container.
	"$stepctl" signal -s URG "$job.$1"
}

freeze() { # FILE VALUE
	echo "$2" >"$1/cgroup.freeze"
}

frozen() { # CGROUP: all of it stands still
	grep -qx 'frozen 1' "$1/cgroup.events"
}

end() { # STEP
	"$stepctl" terminate --now "$job.$1"
	wait "$agent"
}

lines() { # WHAT: so many lines of the agent have it
	grep -c "$1" "$tmpdir/err"
}

task='touch "$UP"; exec sleep 600'

# ---- while the agent is dead -----------------------------------------------------------------------
begin 1 -- sh -c "$task"
kill_agent
freeze "$group" 1
eventually frozen "$group"
adopt 1
is "$(field 1 state)" suspended "a step that was frozen by hand is suspended for who adopts it"
is "$(cat "$group/cgroup.freeze")" 1 "the adoption does not let it go on"
is "$(lines "step $job.1 was frozen by hand, and counts as suspended: 'stepctl resume' lets it go on")" 1 \
	"one line of the adopter tells so, and the remedy"
is "$(kinds "$(echo "$run"/*_"$job.1"/events.jsonl)" suspend)" 1 "the suspension is among the events"
ok "stepctl resume lets it go on" "$stepctl" resume "$job.1"
is "$(cat "$group/cgroup.freeze")" 0 "the group is thawed then"
is "$(field 1 state)" running "the step is running then"
end 1

begin 2 -- sh -c "$task"
"$stepctl" suspend "$job.2"
kill_agent
freeze "$group" 0
adopt 2
is "$(field 2 state)" running "a suspended step that was thawed by hand is running for who adopts it"
is "$(cat "$group/cgroup.freeze")" 0 "the adoption does not freeze it again"
is "$(lines "step $job.2 was suspended, and let go on by hand")" 1 "one line of the adopter tells so"
ok "the time that it stood still is counted" test "$(field 2 suspended_ns)" -gt 0
ok "stepctl suspend stops it again" "$stepctl" suspend "$job.2"
is "$(cat "$group/cgroup.freeze")" 1 "the group is frozen then"
end 2

# A time limit of 3 s, of which the step runs for a moment, dead agent or not.
begin 3 --time-limit 3s -- sh -c "$task"
"$stepctl" suspend "$job.3"
kill_agent
sleep 3
adopt 3
is "$(field 3 state)" suspended "what was suspended stays so when nobody has touched it"
"$stepctl" resume "$job.3"
ok "time that it stood still without an agent is not taken from its limit" state_is 3 running
wait "$agent"
is $? 124 "the rest of its time is its limit"

# What a signal freezes for a moment is not the operator's, though its sender died on the way.
if [ -x "$hostile" ]; then
	begin 4 -- sh -c 'touch "$UP"; exec "$0" hang' "$hostile"
	ok "a process hangs in the kernel" eventually grep -q handle_userfault "/proc/$("$stepctl" pids "$job.4")/wchan"
	"$stepctl" signal -s URG "$job.4" 2>/dev/null &
	sender=$!
	eventually grep -qx 1 "$group/cgroup.freeze"
	kill_agent
	wait $sender
	is "$(cat "$group/cgroup.freeze")" 1 "an agent is killed while it signals a step"
	"$stepd" adopt "$job.4" >"$tmpdir/out" 2>"$tmpdir/err" &
	agent=$!
	ok "its adopter lets the step go on" eventually grep -qx 0 "$group/cgroup.freeze"
	is "$(field 4 state)" running "the step is running for it"
	is "$(lines "by hand")" 0 "no line speaks of an operator"
	end 4
else
	skip 5 "needs cmocka"
fi

# ---- a group above ---------------------------------------------------------------------------------
parent=$(dirname "$group")
begin 5 -- sh -c "$task"
kill_agent
freeze "$parent" 1
eventually frozen "$group"
adopt 5
is "$(field 5 state)" suspended "a step below a frozen group is suspended for who adopts it"
is "$(lines "step $job.5 was frozen by hand, and counts as suspended: '$parent' is frozen; write 0 to its cgroup.freeze")" 1 \
	"the line names the group above"
out=$("$stepctl" resume "$job.5" 2>&1)
isnt $? 0 "stepctl resume fails while a group above is frozen"
like "$out" "can't resume the step: '$parent' is frozen; write 0 to its cgroup.freeze" "and names that group"
is "$(field 5 state)" suspended "the step stays suspended"
freeze "$parent" 0
ok "with that group thawed it is running, for its agent, too" eventually state_is 5 running
is "$(cat "$group/cgroup.freeze")" 0 "its own group was never frozen"
kill_agent
freeze "$parent" 1
eventually frozen "$group"
out=$("$stepctl" resume "$job.5" 2>&1)
isnt $? 0 "without an agent stepctl resume fails, too"
like "$out" "'$parent' is frozen; write 0 to its cgroup.freeze" "and names the group above"
freeze "$parent" 0
adopt 5
is "$(field 5 state)" running "a failed resumption without an agent changes nothing"
end 5

# ---- while the agent lives -------------------------------------------------------------------------
begin 6 --time-limit 3s -- sh -c "$task"
exec 9<"$(echo "$run"/*_"$job.6"/events.jsonl)"
freeze "$group" 1
ok "a step that is frozen by hand is suspended for its agent" eventually state_is 6 suspended
is "$(lines "step $job.6 was frozen by hand")" 1 "one line tells so"
sleep 3
ok "its time limit stands still" state_is 6 suspended
ok "it can be signalled" "$stepctl" signal -s URG "$job.6"
is "$(cat "$group/cgroup.freeze")" 1 "a signal does not let it go on"
freeze "$group" 0
ok "thawed by hand it is running again" eventually state_is 6 running
wait "$agent"
is $? 124 "and ends by its time limit"
cat <&9 >"$tmpdir/events"
exec 9<&-
is "$(kinds "$tmpdir/events" suspend)$(kinds "$tmpdir/events" resume)" 11 "both are among the events, once"

begin 7 -- sh -c "$task"
freeze "$group" 1
eventually state_is 7 suspended
ok "stepctl suspend makes a suspension of it" "$stepctl" suspend "$job.7"
ok "stepctl resume thaws it" "$stepctl" resume "$job.7"
is "$(cat "$group/cgroup.freeze")" 0 "the group is thawed then"
freeze "$group" 1
eventually state_is 7 suspended
kill -TERM "$agent"
wait "$agent"
is $? 143 "a step that was frozen by hand can be ended"

# ---- a step with a service process -----------------------------------------------------------------
# Its members have a group of their own.
begin 8 --mpi=pmi2 -- sh -c "$task"
isnt "$members" "$group" "members of an MPI step have a group of their own"
for what in "$group" "$members"; do
	name=${what##*/}
	freeze "$what" 1
	ok "$name: frozen by hand, the step is suspended" eventually state_is 8 suspended
	freeze "$what" 0
	ok "$name: thawed by hand, it is running" eventually state_is 8 running
done
kill_agent
freeze "$members" 1
eventually frozen "$members"
adopt 8
is "$(field 8 state)" suspended "frozen members are seen by who adopts the step"
"$stepctl" resume "$job.8"
is "$(cat "$members/cgroup.freeze")" 0 "stepctl resume thaws them"
freeze "$group" 1
eventually state_is 8 suspended
out=$("$stepctl" resume "$job.8" 2>&1)
like "$out" "'$group' is frozen; write 0 to its cgroup.freeze" "of a frozen step the members can't be resumed, and the group is named"
freeze "$group" 0
ok "the step is running once it is thawed" eventually state_is 8 running
end 8

nothing_left "nothing is left"
done_testing
