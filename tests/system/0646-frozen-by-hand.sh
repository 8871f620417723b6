#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# An operator freezes and thaws a step by its cgroup.freeze, or a cgroup above, while its agent is
# dead and while it lives: the agent believes the kernel, reports it in one line, and the limits of the
# step's time stand still as they do after stepctl suspend.
# shellcheck disable=SC2016,SC2317 # what stands in single quotes is for the tasks; for eventually
. "${top_srcdir:?}/tests/lib/step.sh"

command -v python3 >/dev/null || skip_all "python3 is missing"
[ "$tracker" = cgroup ] || skip_all "needs proctrack/cgroup"

hostile=${top_builddir:?}/tests/lib/hostile

kinds() { # FILE KIND: how many events of that kind it has
	json_get "$1" "sum(e['kind'] == '$2' for e in docs)"
}

begin() { # STEP ARG...
	begin_step=$1
	shift
	rm -f "$tmpdir/up"
	UP=$tmpdir/up start_agent "$begin_step" --proctrack cgroup --keep-result 1h "$@"
	eventually test -e "$tmpdir/up"
	group=$(find /sys/fs/cgroup -type d -path "*job_$job/step_$begin_step")
	members=$group
	[ ! -d "$group/members" ] || members=$group/members
}

adopt() { # STEP
	"$stepd" adopt "$job.$1" >"$tmpdir/out" 2>"$tmpdir/err" &
	agent=$!
	eventually has_agent "$1"
	# A signal waits for what the adoption itself requests of the container.
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
is "$(state_of 1 state)" suspended "a step that was frozen by hand without an agent is suspended once adopted"
is "$(cat "$group/cgroup.freeze")" 1 "adopt does not thaw a step that was frozen by hand"
is "$(lines "step $job.1 was frozen by hand, and counts as suspended: 'stepctl resume' resumes it")" 1 \
	"one line of adopt reports the step frozen by hand, and the remedy"
is "$(kinds "$(step_dir 1)/events.jsonl" suspend)" 1 "the events have the suspension by hand"
ok "stepctl resume resumes a step frozen by hand" "$stepctl" resume "$job.1"
is "$(cat "$group/cgroup.freeze")" 0 "stepctl resume thaws the cgroup of a step frozen by hand"
is "$(state_of 1 state)" running "a step frozen by hand is running after stepctl resume"
end 1

begin 2 -- sh -c "$task"
"$stepctl" suspend "$job.2"
kill_agent
freeze "$group" 0
adopt 2
is "$(state_of 2 state)" running "a suspended step that was thawed by hand is running once adopted"
is "$(cat "$group/cgroup.freeze")" 0 "adopt does not freeze a step that was thawed by hand"
is "$(lines "step $job.2 was suspended, and resumed by hand")" 1 \
	"one line of adopt reports the step thawed by hand"
ok "the suspended time of a step thawed by hand is counted" test "$(state_of 2 suspended_ns)" -gt 0
ok "stepctl suspend suspends a step that was thawed by hand" "$stepctl" suspend "$job.2"
is "$(cat "$group/cgroup.freeze")" 1 "stepctl suspend freezes the cgroup of a step thawed by hand"
end 2

# A time limit of 6 s, of which the step runs for a moment, dead agent or not.
begin 3 --time-limit 6s -- sh -c "$task"
"$stepctl" suspend "$job.3"
kill_agent
sleep 6
adopt 3
is "$(state_of 3 state)" suspended "a suspended step stays suspended once adopted"
"$stepctl" resume "$job.3"
ok "suspended time without an agent is not taken from the time limit" running 3
wait "$agent"
is $? 124 "a step adopted while suspended ends by the rest of its time limit"

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
	ok "adopt thaws a step that its dead agent had frozen for a signal" eventually grep -qx 0 "$group/cgroup.freeze"
	is "$(state_of 4 state)" running "a step frozen for a signal is running once adopted"
	is "$(lines "by hand")" 0 "adopt reports no freezing by hand for a step frozen for a signal"
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
is "$(state_of 5 state)" suspended "a step below a frozen cgroup is suspended once adopted"
is "$(lines "step $job.5 was frozen by hand, and counts as suspended: '$parent' is frozen; write 0 to its cgroup.freeze")" 1 \
	"the line of adopt names the frozen cgroup above"
out=$("$stepctl" resume "$job.5" 2>&1)
isnt $? 0 "stepctl resume fails while a cgroup above is frozen"
like "$out" "can't resume the step: '$parent' is frozen; write 0 to its cgroup.freeze" \
	"the failure of stepctl resume names the frozen cgroup above"
is "$(state_of 5 state)" suspended "a step below a frozen cgroup stays suspended after stepctl resume"
freeze "$parent" 0
ok "a step is running once the cgroup above is thawed" eventually running 5
is "$(cat "$group/cgroup.freeze")" 0 "the step's own cgroup is not frozen with the one above"
kill_agent
freeze "$parent" 1
eventually frozen "$group"
out=$("$stepctl" resume "$job.5" 2>&1)
isnt $? 0 "stepctl resume without an agent fails below a frozen cgroup"
like "$out" "'$parent' is frozen; write 0 to its cgroup.freeze" \
	"stepctl resume without an agent names the frozen cgroup above"
freeze "$parent" 0
adopt 5
is "$(state_of 5 state)" running "a failed stepctl resume without an agent changes nothing"
end 5

# ---- while the agent lives -------------------------------------------------------------------------
begin 6 --time-limit 6s -- sh -c "$task"
exec 9<"$(step_dir 6)/events.jsonl"
freeze "$group" 1
ok "a step that is frozen by hand is suspended for its agent" eventually suspended 6
is "$(lines "step $job.6 was frozen by hand")" 1 "one line reports that a running step was frozen by hand"
sleep 6
ok "the time limit of a step frozen by hand does not run" suspended 6
ok "a step frozen by hand can be signalled" "$stepctl" signal -s URG "$job.6"
is "$(cat "$group/cgroup.freeze")" 1 "a signal does not thaw a step frozen by hand"
freeze "$group" 0
ok "a step thawed by hand is running for its agent" eventually running 6
wait "$agent"
is $? 124 "a step thawed by hand ends by its time limit"
cat <&9 >"$tmpdir/events"
exec 9<&-
is "$(kinds "$tmpdir/events" suspend)$(kinds "$tmpdir/events" resume)" 11 \
	"the events have the freezing and the thawing by hand, once each"

begin 7 -- sh -c "$task"
freeze "$group" 1
eventually suspended 7
ok "stepctl suspend of a step frozen by hand succeeds" "$stepctl" suspend "$job.7"
ok "stepctl resume of a step frozen by hand and suspended succeeds" "$stepctl" resume "$job.7"
is "$(cat "$group/cgroup.freeze")" 0 "stepctl resume thaws a step frozen by hand and suspended"
freeze "$group" 1
eventually suspended 7
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
	ok "$name: the MPI step is suspended when this cgroup is frozen by hand" eventually suspended 8
	freeze "$what" 0
	ok "$name: the MPI step is running when this cgroup is thawed by hand" eventually running 8
done
# An agent that undid what it did not do would thaw the members again.
round=0
while [ $round -lt 20 ] && eventually running 8 && freeze "$members" 1 && eventually suspended 8; do
	freeze "$members" 0
	round=$((round + 1))
done
is $round 20 "an agent does not undo that its step is frozen by hand as soon as it was thawed by hand"
eventually running 8
kill_agent
freeze "$members" 1
eventually frozen "$members"
adopt 8
is "$(state_of 8 state)" suspended "a step with frozen members is suspended once adopted"
"$stepctl" resume "$job.8"
is "$(cat "$members/cgroup.freeze")" 0 "stepctl resume thaws the members of an MPI step"
freeze "$group" 1
eventually suspended 8
out=$("$stepctl" resume "$job.8" 2>&1)
like "$out" "'$group' is frozen; write 0 to its cgroup.freeze" \
	"stepctl resume of an MPI step names the frozen cgroup above its members"
freeze "$group" 0
ok "an MPI step is running once its cgroup is thawed" eventually running 8
end 8

nothing_left "the job leaves no cgroup, process or file behind"
done_testing
