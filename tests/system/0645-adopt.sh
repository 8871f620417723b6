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
	UP=$tmpdir/up start_agent "$begin_step" --proctrack "$b" --keep-result 1h "$@"
}

adopt() { # STEP OPTION...
	adopt_step=$1
	shift
	timeout -k 5 900 "$stepd" adopt -q "$@" "$job.$adopt_step" 2>"$tmpdir/err"
}

result() { # STEP EXPRESSION
	json_get "$(step_dir "$1")/result.json" "$2"
}

begun_earlier() { # STEP: 99 s, as its state.json has it
	json_get "$(step_dir "$1")/state.json" \
		'{**d, "begin_ns": begin_ns - 99 * 10**9, "running_ns": running_ns - 99 * 10**9}' >"$tmpdir/state"
	cat "$tmpdir/state" >"$(step_dir "$1")/state.json"
}

first_exited() {
	[ "$(json_get "$(step_dir 1)/events.jsonl" 'any(e["kind"] == "task_exit" for e in docs)')" = true ]
}


# ---- a task before its exec ------------------------------------------------------------------
# It has all that the agent had open; stopped there it would have the agent's lock for ever.
b=$tracker
mkdir "$tmpdir/plugins"
for so in "$top_builddir"/stepd/cli/plugins/proctrack_*.so "$top_builddir/tests/lib/plugins/mpi_ailing.so"; do
	cp -L "$so" "$tmpdir/plugins/" || bail "no plugin (make check builds it)"
done
chmod go-w "$tmpdir"/plugins/*
STEP_AILING=hook
export STEP_AILING
start_agent 22 --plugin-dir "$tmpdir/plugins" --proctrack "$b" --mpi=ailing -- sleep 60
unset STEP_AILING
kill_agent
adopt 22 --plugin-dir "$tmpdir/plugins" &
adopter=$!
ok "a step is adopted whose task has not executed its program" eventually adopted 22 1
"$stepctl" terminate --now "$job.22"
wait $adopter
is $? 143 "a step whose task has not executed its program ends by request"


# ---- agents of other versions ----------------------------------------------------------------
# What a newer one adds is passed over, what an older one lacks has a default; a file that means
# something else is not guessed at.
b=$tracker
begin 21 -- sleep 60
kill_agent
state=$(step_dir 21)/state.json
cp "$state" "$tmpdir/state"
json_get "$tmpdir/state" '{**d, "version": 2}' >"$state"
out=$(adopt 21; cat "$tmpdir/err")
like "$out" "state.json has version 2, and this stepd knows version 1: adopt the step with the stepd of its agent" \
	"adopt refuses a step whose state.json has another version"
json_get "$tmpdir/state" '{k: v for k, v in d.items() if k != "gid"}' >"$state"
out=$(adopt 21; cat "$tmpdir/err")
like "$out" "state.json is not what an agent writes, or one of another version: .*gid" \
	"adopt names what is wrong in a state.json"
ok "the tasks live on after a refused adopt" kill -0 "$(json_get "$tmpdir/state" 'tasks[0]["pid"]')"
is "$(json_get "$tmpdir/state" '{"suspending", "adopted", "options"} <= d.keys()')" true \
	"the state has the fields to be removed"
json_get "$tmpdir/state" '{**{k: v for k, v in d.items() if k not in ("suspending", "adopted", "options")}, "future": [1]}' \
	>"$state"
adopt 21 --keep-result 1h &
adopter=$!
eventually adopted 21 1
"$stepctl" terminate --now "$job.21"
wait $adopter
is $? 143 "adopt accepts a state.json with fewer and unknown fields"
is "$(result 21 adopted)" true "the result of a step with another agent's state has adopted"

for b in $(backends); do
	# Statuses of those who end under the new agent, of one that had ended before, and of one that
	# ends in between: that one is lost where it was reaped meanwhile.
	begin 1 -n 3 -- sh -c '[ "$SLURM_PROCID" != 0 ] || exit 7
		touch "$UP.$SLURM_PROCID"; while [ ! -e "$UP" ]; do sleep 0.02; done; exit $SLURM_PROCID'
	eventually first_exited
	kill_agent
	(sleep 0.4 && touch "$tmpdir/up") &
	adopt 1 --result "$tmpdir/r"
	is $? 7 "$b: the adopted step exits with the largest status"
	is "$(result 1 '[exit_code, *(t["exit_code"] for t in tasks)]')" "[7, 7, 1, 2]" \
		"$b: the adopted step's result has each task's status, also of one that ended before"
	is "$(result 1 '[adopted, reason]')" '[true, "completed"]' "$b: the result of the adopted step has adopted"
	is "$(sed '/keep_until/d' "$run"/*_"$job.1"/result.json)" "$(cat "$tmpdir/r")" \
		"$b: adopt writes the result to --result, too"

	# A step whose agent lives is not taken from it, and two adopters are one too many.
	begin 2 -- sleep 60
	out=$("$stepd" adopt "$job.2" 2>&1)
	is $? 125 "$b: adopt is refused while the agent lives"
	like "$out" "step $job.2 already runs here, under the agent with pid $agent" \
		"$b: the refusal of adopt names the living agent"
	kill_agent
	rm -f "$tmpdir/err1" "$tmpdir/err2" # of the tracker before
	"$stepd" adopt -q "$job.2" 2>"$tmpdir/err1" &
	one=$!
	"$stepd" adopt -q "$job.2" 2>"$tmpdir/err2" &
	two=$!
	eventually grep -hq 'already' "$tmpdir/err1" "$tmpdir/err2"
	eventually adopted 2 1
	is "$(cat "$tmpdir/err1" "$tmpdir/err2" | grep -c already)" 1 "$b: of two simultaneous adopts one is refused"
	pid=$(state_of 2 agent_pid)
	kill -9 "$pid"
	wait $one $two
	(eventually adopted 2 2
		kill -TERM "$(state_of 2 agent_pid)") &
	adopt 2
	is $? 143 "$b: an adopted step can be adopted again, and ended by SIGTERM"
	is "$(result 2 'tasks[0]["on_request"]')" true \
		"$b: the task of an adopted step ended by SIGTERM has on_request"

	# What is left of its time, and no more: that it began 99 s ago is written where the dead agent
	# has written when.
	begin 3 --time-limit 100s -- sleep 600
	kill_agent
	begun_earlier 3
	begun=$(date +%s)
	adopt 3
	is "$? $(result 3 reason)" "124 time-limit" "$b: the time limit of an adopted step ends it"
	took=$(($(date +%s) - begun))
	ok "$b: the time limit of an adopted step does not begin again ($took s of 100)" test "$took" -lt 100

	# Suspended it stays, and so does its time. But who was stopped by a signal in the agent's
	# session does not outlive the agent: the kernel sends SIGHUP to stopped processes of an
	# orphaned process group.
	if [ "$b" != pgid ]; then
		begin 4 --time-limit 100s -- sleep 600
		kill -TSTP "$agent"
		eventually suspended 4
		kill_agent
		begun_earlier 4
		adopt 4 &
		adopter=$!
		eventually adopted 4 1
		sleep 2.5 # more than what is left of its time limit, which must not run meanwhile
		ok "$b: an adopted step stays suspended" suspended 4
		kill -CONT "$(state_of 4 agent_pid)"
		wait $adopter
		is $? 124 "$b: an adopted step that is resumed runs for the rest of its time"
	else
		begin 4 -- sleep 60
		kill -TSTP "$agent"
		eventually suspended 4
		kill_agent
		adopt 4
		is $? 129 "$b: the kernel ends stopped tasks with their agent"
	fi

	if [ "$b" = cgroup ]; then
		# What was done to it while it had no agent counts, not what the dead agent knew.
		freeze_of() { # STEP
			cat "$(find /sys/fs/cgroup -type d -path "*job_$job/step_$1")/cgroup.freeze"
		}
		# A container that somebody else has removed, as systemd removes an empty scope, is gone.
		begin 13 -- sleep 60
		kill_agent
		"$stepd" adopt "$job.13" >"$tmpdir/printed" 2>&1 &
		adopter=$!
		eventually adopted 13 1
		task=$("$stepctl" pids "$job.13")
		group=$(find /sys/fs/cgroup -type d -path "*job_$job/step_13")
		kill -STOP $adopter
		kill -9 "$task"
		ok "$b: the container of an adopted step is removed by another" eventually find "$group" -depth -type d -exec rmdir {} +
		kill -CONT $adopter
		wait $adopter
		unlike "$(cat "$tmpdir/printed")" "can't remove|No such" \
			"$b: the agent reports no failure where another removed the container"
		begin 14 -- sh -c 'touch "$UP"; exec sleep 60'
		eventually test -e "$tmpdir/up"
		"$stepctl" suspend "$job.14"
		kill_agent
		ok "$b: a suspended step without an agent is resumed" "$stepctl" resume "$job.14"
		adopt 14 &
		adopter=$!
		eventually adopted 14 1
		is "$(state_of 14 state)" running "$b: a step resumed without an agent is running once adopted"
		# A signal waits for what the adoption itself requests of the container.
		ok "$b: a step resumed without an agent gets signals once adopted" "$stepctl" signal -s URG "$job.14"
		is "$(freeze_of 14)" 0 "$b: a step resumed without an agent is not frozen once adopted"
		"$stepctl" terminate --now "$job.14"
		wait $adopter
		begin 15 -- sh -c 'touch "$UP"; exec sleep 60'
		eventually test -e "$tmpdir/up" # until its program runs a task holds what the agent has open
		kill_agent
		ok "$b: a running step without an agent is suspended" "$stepctl" suspend "$job.15"
		adopt 15 &
		adopter=$!
		eventually adopted 15 1
		is "$(state_of 15 state)" suspended "$b: a step suspended without an agent is suspended once adopted"
		ok "$b: a step suspended without an agent can be suspended again once adopted" "$stepctl" suspend "$job.15"
		is "$(freeze_of 15)" 1 "$b: a step suspended without an agent is frozen once adopted"
		"$stepctl" terminate --now "$job.15"
		wait $adopter
	fi

	# All had ended, and nobody was there.
	begin 5 -n 2 -- sh -c 'while [ ! -e "$UP" ]; do sleep 0.02; done'
	pids=$(state_of 5 '" ".join(str(t["pid"]) for t in tasks)')
	kill_agent
	touch "$tmpdir/up"
	for pid in $pids; do eventually process_ended "$pid"; done
	adopt 5
	code=$?
	ok "$b: adopt of a step that has ended exits with 121, or with what the kernel still knew ($code)" \
		test $code = 121 -o $code = 0
	is "$(result 5 state)" "ended" "$b: adopt of a step that has ended writes its result"
	fails "$b: a step with a result can't be adopted" adopt 5
	like "$(cat "$tmpdir/err")" "step $job.5 has ended; its result is there" \
		"$b: the refusal to adopt a step with a result has the reason"
done

b=$tracker
# Not by who is neither root nor the agent's user.
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
	begin 6 -- sleep 60
	kill_agent
	out=$(setpriv --reuid 65534 --regid 65534 --clear-groups "$stepd" adopt --runtime-dir "$run" "$job.6" 2>&1)
	is $? 125 "adopt by another user is refused"
	like "$out" "belongs to|another user's" "the refusal of adopt by another user has the reason"
	(eventually adopted 6 1
		kill -TERM "$(state_of 6 agent_pid)") &
	adopt 6
	is $? 143 "root adopts a step that another user could not"
else
	skip 3 "needs root and setpriv"
fi

out=$("$stepd" adopt "$job.99" 2>&1)
is $? 125 "adopt of a missing step is refused"
like "$out" "there is no step $job.99 in '$run'" "the refusal to adopt a missing step names it"
out=$("$stepd" adopt seven 2>&1)
like "$out" "'seven' is not a step; write JOB.STEP or NODE/JOB.STEP" "adopt of a name that is no step is refused"
nothing_left "the adopted steps leave only results behind"
done_testing
