#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# A step whose agent was killed is taken over: by each backend, suspended, with a time limit, while
# it ends, by one agent and no second one, and by nobody who may not.
# shellcheck source=tests/lib/step.sh
. "${top_srcdir:?}/tests/lib/step.sh"

command -v python3 >/dev/null || skip_all "python3 is missing"

begin() { # STEP ARG...
	begin_step=$1
	shift
	rm -f "$tmpdir/up"
	UP=$tmpdir/up "$stepd" run -q --job "$job" --step "$begin_step" --proctrack "$b" --keep-result 1h "$@" \
		>"$tmpdir/out" 2>&1 &
	dead=$!
	eventually running "$begin_step"
}

kill_agent() {
	kill -9 "$dead"
	wait "$dead" 2>/dev/null
}

adopt() { # STEP OPTION...
	adopt_step=$1
	shift
	timeout -k 5 900 "$stepd" adopt -q "$@" "$job.$adopt_step" 2>"$tmpdir/err"
}

result() { # STEP FILTER: the value of a field
	sed -n "s/^ *\"$2\": \"*\([^\",]*\)\"*,*\$/\1/p" "$run"/*_"$job.$1"/result.json
}

# ---- agents of other versions ----------------------------------------------------------------
# What a newer one adds is passed over, what an older one lacks has a default; a file that means
# something else is not guessed at.
b=$tracker
begin 21 -- sleep 60
kill_agent
state=$(echo "$run"/*_"$job.21"/state.json)
cp "$state" "$tmpdir/state"
sed 's/"version":1,/"version":2,/' "$tmpdir/state" >"$state"
out=$(adopt 21; cat "$tmpdir/err")
like "$out" "state.json has version 2, and this stepd knows version 1: adopt the step with the stepd of its agent" \
	"a step of an agent whose state.json means something else is left alone"
sed 's/"gid":[0-9]*,//' "$tmpdir/state" >"$state"
out=$(adopt 21; cat "$tmpdir/err")
like "$out" "state.json is not what an agent writes, or one of another version: .*gid" "what is wrong in it is named"
ok "its tasks live" kill -0 "$(sed 's/.*"rank":0,"pid":\([0-9]*\).*/\1/' "$tmpdir/state")"
sed 's/"suspending":false,//; s/"adopted":0,//; s/"options":{[^}]*}/"future":[1]/' "$tmpdir/state" >"$state"
unlike "$(cat "$state")" 'suspending|"options"' "fields are missing"
adopt 21 --keep-result 1h &
adopter=$!
eventually grep -q '"adopted":1' "$state"
"$stepctl" terminate --now "$job.21"
wait $adopter
is $? 143 "that of an agent which wrote less, and more, is adopted"
is "$(result 21 adopted)" true "and its result says so"

for b in $(backends); do
	# Statuses of those who end under the new agent, of one that had ended before, and of one that
	# ends in between: that one is lost where it was reaped meanwhile.
	begin 1 -n 3 -- sh -c '[ "$SLURM_PROCID" != 0 ] || exit 7
		touch "$UP.$SLURM_PROCID"; while [ ! -e "$UP" ]; do sleep 0.02; done; exit $SLURM_PROCID'
	eventually grep -q '"kind":"task_exit"' "$run"/*_"$job.1"/events.jsonl
	kill_agent
	(sleep 0.4 && touch "$tmpdir/up") &
	adopt 1 --result "$tmpdir/r"
	is $? 7 "$b: the adopted step exits with the largest status"
	is "$(result 1 exit_code | tr '\n' ' ')" "7 7 1 2 " "$b: each task's is known, the one before too"
	is "$(result 1 adopted) $(result 1 reason)" "true completed" "$b: the result says that it was adopted"
	is "$(sed '/keep_until/d' "$run"/*_"$job.1"/result.json)" "$(cat "$tmpdir/r")" "$b: and stands at --result, too"

	# A step whose agent lives is not taken from it, and two adopters are one too many.
	begin 2 -- sleep 60
	out=$("$stepd" adopt "$job.2" 2>&1)
	is $? 125 "$b: an agent that lives keeps its step"
	like "$out" "step $job.2 already runs here, under the agent with pid $dead" "$b: and is named"
	kill_agent
	rm -f "$tmpdir/err1" "$tmpdir/err2" # of the tracker before
	"$stepd" adopt -q "$job.2" 2>"$tmpdir/err1" &
	one=$!
	"$stepd" adopt -q "$job.2" 2>"$tmpdir/err2" &
	two=$!
	eventually grep -hq 'already' "$tmpdir/err1" "$tmpdir/err2"
	eventually grep -q '"adopted":1' "$run"/*_"$job.2"/state.json
	is "$(cat "$tmpdir/err1" "$tmpdir/err2" | grep -c already)" 1 "$b: of two that adopt at once one is refused"
	pid=$(sed 's/.*"agent_pid":\([0-9]*\).*/\1/' "$run"/*_"$job.2"/state.json)
	kill -9 "$pid"
	wait $one $two
	(eventually grep -q '"adopted":2' "$run"/*_"$job.2"/state.json
		kill -TERM "$(sed 's/.*"agent_pid":\([0-9]*\).*/\1/' "$run"/*_"$job.2"/state.json)") &
	adopt 2
	is $? 143 "$b: it can be adopted again, and ended by SIGTERM"
	is "$(result 2 on_request)" "true" "$b: its task has ended on request"

	# What is left of its time, and no more: that it began 99 s ago is written where the dead agent
	# has written when.
	begin 3 --time-limit 100s -- sleep 600
	kill_agent
	python3 - "$run"/*_"$job.3"/state.json <<'END'
import json, sys
state = json.load(open(sys.argv[1]))
for when in "begin_ns", "running_ns":
    state[when] -= 99 * 10**9
json.dump(state, open(sys.argv[1], "w"), separators=(",", ":"))
END
	begun=$(date +%s)
	adopt 3
	is "$? $(result 3 reason)" "124 time-limit" "$b: the time limit goes on"
	took=$(($(date +%s) - begun))
	ok "$b: from where it stood, not for another 100 s ($took s)" test "$took" -lt 100

	# Suspended it stays, and so does its time. But who was stopped by a signal in the agent's
	# session does not outlive the agent: the kernel sends SIGHUP to stopped processes of an
	# orphaned process group.
	if [ "$b" != pgid ]; then
		begin 4 --time-limit 2s -- sleep 60
		kill -TSTP "$dead"
		eventually grep -q '"state":"suspended"' "$run"/*_"$job.4"/state.json
		kill_agent
		adopt 4 &
		adopter=$!
		eventually grep -q '"adopted":1' "$run"/*_"$job.4"/state.json
		sleep 2.5
		like "$(cat "$run"/*_"$job.4"/state.json)" '"state":"suspended"' "$b: a suspended step stays suspended"
		agent=$(sed 's/.*"agent_pid":\([0-9]*\).*/\1/' "$run"/*_"$job.4"/state.json)
		kill -CONT "$agent"
		eventually grep -q '"state":"running"' "$run"/*_"$job.4"/state.json
		wait $adopter
		is $? 124 "$b: and goes on when it is told to, for the rest of its time"
	else
		begin 4 -- sleep 60
		kill -TSTP "$dead"
		eventually grep -q '"state":"suspended"' "$run"/*_"$job.4"/state.json
		kill_agent
		adopt 4
		is $? 129 "$b: what was stopped is ended by the kernel with its agent"
	fi

	if [ "$b" = cgroup ]; then
		# What was done to it while it had no agent counts, not what the dead agent knew.
		state_of() { # STEP
			python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["state"])' \
				"$run"/*_"$job.$1"/state.json
		}
		freeze_of() { # STEP
			cat "$(find /sys/fs/cgroup -type d -path "*job_$job/step_$1")/cgroup.freeze"
		}
		# A container that somebody else has removed, as systemd removes an empty scope, is gone.
		begin 13 -- sleep 60
		kill_agent
		"$stepd" adopt "$job.13" >"$tmpdir/said" 2>&1 &
		adopter=$!
		eventually grep -q '"adopted":1' "$run"/*_"$job.13"/state.json
		task=$("$stepctl" pids "$job.13")
		group=$(find /sys/fs/cgroup -type d -path "*job_$job/step_13")
		kill -STOP $adopter
		kill -9 "$task"
		ok "$b: the container is removed by another" eventually find "$group" -depth -type d -exec rmdir {} +
		kill -CONT $adopter
		wait $adopter
		unlike "$(cat "$tmpdir/said")" "can't remove|No such" "$b: its agent does not complain that it is gone"
		begin 14 -- sh -c 'touch "$UP"; exec sleep 60'
		eventually test -e "$tmpdir/up"
		"$stepctl" suspend "$job.14"
		kill_agent
		ok "$b: a suspended step without an agent is resumed" "$stepctl" resume "$job.14"
		adopt 14 &
		adopter=$!
		eventually grep -q '"adopted":1' "$run"/*_"$job.14"/state.json
		is "$(state_of 14)" running "$b: its adopter reports that it runs"
		# A signal waits for what the adoption itself asks of the container.
		ok "$b: and delivers signals" "$stepctl" signal -s URG "$job.14"
		is "$(freeze_of 14)" 0 "$b: to a container that is not frozen"
		"$stepctl" terminate --now "$job.14"
		wait $adopter
		begin 15 -- sh -c 'touch "$UP"; exec sleep 60'
		eventually test -e "$tmpdir/up" # until its program runs a task holds what the agent has open
		kill_agent
		ok "$b: a running step without an agent is suspended" "$stepctl" suspend "$job.15"
		adopt 15 &
		adopter=$!
		eventually grep -q '"adopted":1' "$run"/*_"$job.15"/state.json
		is "$(state_of 15)" suspended "$b: its adopter reports that it stands"
		ok "$b: and suspends it again where it stands" "$stepctl" suspend "$job.15"
		is "$(freeze_of 15)" 1 "$b: in a container that is frozen"
		"$stepctl" terminate --now "$job.15"
		wait $adopter
	fi

	# All had ended, and nobody was there.
	begin 5 -n 2 -- sh -c 'while [ ! -e "$UP" ]; do sleep 0.02; done'
	pids=$(sed 's/.*"tasks":\[\([^]]*\).*/\1/; s/{"rank":[0-9]*,"pid":\([0-9]*\)},*/\1 /g' "$run"/*_"$job.5"/state.json)
	kill_agent
	touch "$tmpdir/up"
	for pid in $pids; do eventually sh -c "! kill -0 $pid || grep -q '^State:	Z' /proc/$pid/status"; done
	adopt 5
	code=$?
	ok "$b: a step that ended meanwhile exits with 121, or with what the kernel still knew ($code)" \
		test $code = 121 -o $code = 0
	is "$(result 5 state)" "ended" "$b: and has its result"
	fails "$b: it can't be adopted again" adopt 5
	like "$(cat "$tmpdir/err")" "step $job.5 has ended; its result is there" "$b: which is said"
done

b=$tracker
# Not by who is neither root nor the agent's user.
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
	begin 6 -- sleep 60
	kill_agent
	out=$(setpriv --reuid 65534 --regid 65534 --clear-groups "$stepd" adopt --runtime-dir "$run" "$job.6" 2>&1)
	is $? 125 "another user can't adopt it"
	like "$out" "belongs to|another user's" "and is told why"
	(eventually grep -q '"adopted":1' "$run"/*_"$job.6"/state.json
		kill -TERM "$(sed 's/.*"agent_pid":\([0-9]*\).*/\1/' "$run"/*_"$job.6"/state.json)") &
	adopt 6
	is $? 143 "root can"
else
	skip 3 "needs root and setpriv"
fi

out=$("$stepd" adopt "$job.99" 2>&1)
is $? 125 "a step that there is not"
like "$out" "there is no step $job.99 in '$run'" "is named"
out=$("$stepd" adopt seven 2>&1)
like "$out" "'seven' is no step; write JOB.STEP or NODE/JOB.STEP" "and what is none"
nothing_left "nothing is left but results"
done_testing
