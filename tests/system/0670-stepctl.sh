#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Each verb of stepctl on real steps, with every tracker: what it does, what it exits with, and that
# the output of --json is as doc/stepctl.schema.json has it.
. "${top_srcdir:?}/tests/lib/step.sh"

# fits NAME VERB ARG...: stepctl VERB --json ARG... exits with 0, and each line or the whole of what
# it prints fits the schema's $defs/NAME. $tmpdir/json has it.
fits() {
	name=$1
	shift
	"$stepctl" "$@" --json >"$tmpdir/json" 2>"$tmpdir/err"
	is "$?,$(cat "$tmpdir/err")" "0," "$b: stepctl $* --json succeeds without a message"
	valid "$name"
}

valid() { # NAME
	fits_schema "$b: the output of --json fits the schema of $1" stepctl.schema.json "$tmpdir/json" "$1"
}

of() { # EXPRESSION
	json_get "$tmpdir/json" "$1"
}

# agent STEP ARG...: a step in the background, once its tasks have printed something.
agent() {
	name=$1
	shift
	: >"$tmpdir/out.$name"
	"$stepd" run -q --job "$job" --step "$name" "$@" >"$tmpdir/out.$name" 2>"$tmpdir/log.$name" &
	agent=$!
	eventually test -s "$tmpdir/out.$name"
}

# An agent that is not scheduled in that time is shown with dashes.
top_shows() { # PROCESSES
	"$stepctl" top -b -n 1 -i 200ms | grep -Eq "^$job\.0 +[^ ]+ +running .* $1 "
}

# shellcheck disable=SC2016 # the tasks' own
for b in $(backends); do
	agent 0 --proctrack "$b" -n 2 --kill-sequence TERM:5s,KILL -- sh -c \
		'trap "echo usr1 $SLURM_PROCID" USR1; sleep 300 & echo up; while :; do wait; done'
	eventually sh -c "[ \$(wc -l <'$tmpdir/out.0') = 2 ]"
	first=$agent

	# ---- queries
	like "$("$stepctl" list)" "^$job\.0 .*running .*$b +$first\$" \
		"$b: list shows the step, its tracker and its agent"
	fits list list
	is "$(of "[s['agent_pid'] for s in d['steps']]")" "[$first]" "$b: list --json has the agent's pid"
	is "$("$stepctl" list --names)" "$(hostname | cut -d. -f1)/$job.0" "$b: list --names prints the step's name"
	out=$("$stepctl" show "$job.0")
	like "$out" "^state +running\$" "$b: show prints the state"
	like "$out" "^ +1 +[0-9]+ +running " "$b: show prints the tasks"
	fits show show "$job.0"
	is "$(of "d['steps'][0]['agent_pid']")" "$first" "$b: show --json has what Describe has"
	"$stepctl" pids "$job.0" >"$tmpdir/pids"
	is "$(wc -l <"$tmpdir/pids")" 4 "$b: pids prints all processes"
	is "$("$stepctl" pids "$job.0" --tasks | awk '{ print $2 }' | sort | tr '\n' ' ')" "0 0 1 1 " \
		"$b: pids --tasks prints the ranks"
	is "$("$stepctl" pids "$job.0/1" --tasks | awk '{ print $2 }' | sort -u)" 1 \
		"$b: pids of a rank prints that rank's processes"
	fits pids pids "$job.0/0-1"
	out=$(LC_ALL=C "$stepctl" ps "$job.0/1")
	like "$out" "^ *[0-9]+ .* sh -c trap" "$b: ps prints commands"
	like "$out" " task 1\$" "$b: ps prints the tasks above their processes"
	like "$out" ' [`][-]sleep 300$' "$b: ps prints a tree"
	fits ps ps "$job.0"
	is "$(of '"\n".join({p["command"] for p in steps[0]["processes"] if p["command"].startswith("sh ")})')" \
		"sh -c trap \"echo usr1 \$SLURM_PROCID\" USR1; sleep 300 & echo up; while :; do wait; done" \
		"$b: ps --json has whole commands"
	# shellcheck disable=SC2046 # pids
	out=$("$stepctl" find $(cat "$tmpdir/pids") 1)
	is "$?" 1 "$b: find exits with 1 where a pid is in no step"
	is "$(printf '%s\n' "$out" | grep -c "step $job.0 task [01] ")" 4 \
		"$b: find prints the step and task of the other pids"
	is "$("$stepctl" find - <"$tmpdir/pids" | wc -l)" 4 "$b: find reads pids from standard input"
	fits find find "$(head -n 1 "$tmpdir/pids")"
	like "$("$stepctl" usage "$job.0")" "^processes now +4 +2 +2 " "$b: usage prints the number of processes"
	fits usage usage "$job.0"
	fits usage-line usage "$job.0" -i 100ms -n 2
	is "$(wc -l <"$tmpdir/json")" 2 "$b: usage -n 2 prints two lines"
	fits top-line top --batch -n 2 -i 100ms
	ok "$b: top --batch shows the step and how many processes it has" eventually top_shows 4

	# ---- actions
	fits signal signal -s USR1 "$job.0/1" --leader
	ok "$b: signal to one task reaches it" eventually grep -q "usr1 1" "$tmpdir/out.0"
	ok "$b: signal to one task does not reach the other" sh -c "! grep -q 'usr1 0' '$tmpdir/out.0'"
	pid=$("$stepctl" pids --tasks "$job.0/0" | sort -n | awk 'NR == 1 { print $1 }')
	ok "$b: signal --pid succeeds" "$stepctl" signal --signal=10 --pid "$pid" --leader "$job.0"
	ok "$b: signal --pid reaches the process" eventually grep -q "usr1 0" "$tmpdir/out.0"
	out=$("$stepctl" signal --pid 1 "$job.0" 2>&1)
	is "$?" 1 "$b: signal --pid of a process that is not the step's fails"
	out=$("$stepctl" signal "$job.0/7" 2>&1)
	is "$?" 1 "$b: signal to a missing task fails"
	fits suspend suspend "$job.0"
	like "$("$stepctl" list)" "^$job\.0 .*suspended" "$b: suspend suspends the step"
	fits resume resume "$job.0"
	like "$("$stepctl" list)" "^$job\.0 .*running" "$b: resume resumes the step"
	fits notify notify "$job.0" "hello, step"
	ok "$b: notify writes to the step's standard error" eventually grep -q "hello, step" "$tmpdir/log.0"
	sleep 300 &
	added=$!
	if [ "$b" = pgid ]; then
		out=$("$stepctl" add "$job.0" $added 2>&1)
		is "$?" 8 "$b: add is refused for a process of another session"
		like "$out" "AddPid: Failed: .*$added.*EPERM" "$b: the refusal of add has the system's reason"
		kill $added
		skip 1 "a process of another session can't be added to a process group"
	else
		fits add add "$job.0" $added
		like "$("$stepctl" find $added)" "^$added step $job.0 user" "$b: add makes a process a member"
	fi
	before=$("$stepctl" pids "$job.0")
	fits events-line events "$job.0"
	out=$("$stepctl" events "$job.0")
	like "$out" " 1 state +starting\$" "$b: events prints the first event"
	like "$out" " signal +.*task 1 " "$b: events prints the signal"
	is "$("$stepctl" events --from 3 "$job.0" | awk 'NR == 1 { print $3 }')" 3 \
		"$b: events --from begins with that event"
	fits reexec reexec "$job.0"
	like "$("$stepctl" show "$job.0")" "^agent +$first\$" "$b: reexec does not change the agent's pid"
	is "$("$stepctl" pids "$job.0")" "$before" "$b: reexec does not change the processes"

	# ---- the end
	"$stepctl" events --follow "$job.0" >"$tmpdir/events" &
	follower=$!
	"$stepctl" wait "$job.0" >"$tmpdir/waited" 2>&1 &
	waiter=$!
	out=$("$stepctl" wait --timeout 100ms "$job.0" 2>&1)
	is "$?" 125 "$b: wait --timeout exits with 125 while the step runs"
	fits terminate terminate --grace 200ms "$job.0"
	wait "$first"
	status=$?
	wait $waiter
	is "$?,$(cat "$tmpdir/waited")" "$status," "$b: wait ends with the step's status, silently"
	wait $follower
	is "$?" 0 "$b: events --follow ends with the step"
	like "$(cat "$tmpdir/events")" " task_exit +task 0 " "$b: events --follow prints the end of a task"
	for verb in show ps pids signal suspend resume terminate events usage add notify reexec; do
		set -- "$job.0"
		[ $verb != notify ] || set -- "$job.0" text
		[ $verb != add ] || set -- "$job.0" 1
		out=$("$stepctl" $verb "$@" 2>&1)
		is "$?" 1 "$b: $verb of a step that has ended exits with 1"
	done

	# ---- several
	agent 1 --proctrack "$b" -- sh -c 'echo up; exec sleep 300'
	first=$agent
	agent 2 --proctrack "$b" -- sh -c 'echo up; exec sleep 300'
	ok "$b: suspend of two steps succeeds" "$stepctl" suspend "$job.1" "$job.2"
	is "$("$stepctl" list | grep -c suspended)" 2 "$b: suspend of two steps suspends both"
	"$stepctl" resume --json "$job.1" "$job.7" "$job.2" >"$tmpdir/json" 2>"$tmpdir/err"
	is "$?" 1 "$b: resume with a missing step among others exits with 1"
	valid resume
	is "$(of "[s.get('done', s.get('error', {}).get('code')) for s in steps]")" '[true, "not_found", true]' \
		"$b: resume with a missing step among others resumes the others"
	out=$("$stepctl" show "$job." 2>&1)
	is "$?" 2 "$b: show refuses a beginning that two steps have"
	out=$("$stepctl" set-limits --json --pids 100 "$job.1" 2>"$tmpdir/err")
	status=$?
	printf '%s\n' "$out" >"$tmpdir/json"
	ok "$b: set-limits succeeds, or is not supported" test $status = 0 -o $status = 7
	valid set-limits
	"$stepctl" wait --json "$job.1" "$job.2" >"$tmpdir/json" &
	waiter=$!
	eventually sh -c "[ \$(ls -l /proc/$waiter/fd | grep -c socket) = 2 ]"
	ok "$b: terminate --now of two steps succeeds" "$stepctl" terminate --now "$job.1" "$job.2"
	wait $waiter
	isnt "$?" 0 "$b: wait for two killed steps exits with a failure"
	valid wait
	wait "$first" "$agent"
	rm -rf "${run:?}"/*
	nothing_left "$b: the job leaves no cgroup, process or file behind"
done

# ---- a retained result ---------------------------------------------------------------------------
printf '{"job": %s, "argv": ["/bin/sh", "-c", "exit 7"]}\n' "$job" >"$tmpdir/spec"
b=kept
"$stepd" serve -q --spec "$tmpdir/spec" --keep-result 1h 2>/dev/null
out=$("$stepctl" wait "$job.0")
is "$?,$out" "7," "wait exits with the status of a step that ended before"
"$stepctl" wait --json "$job.0" >"$tmpdir/json"
valid wait
like "$("$stepctl" list)" "^$job\.0 .*ended .* -\$" "list shows a step with a retained result"
fits show show "$job.0"
like "$("$stepctl" show "$job.0")" "^exit status +7\$" "show prints a retained result"
rm -rf "${run:?}"/*

# ---- wrong usage ---------------------------------------------------------------------------------
while read -r wanted args; do
	# shellcheck disable=SC2086 # words
	out=$("$stepctl" $args 2>&1 </dev/null)
	is "$?" "$wanted" "stepctl $args exits with $wanted"
	isnt "$out" "" "stepctl $args prints something"
done <<X
2 nonsense
2 show
2 list x
2 list --nonsense
2 signal -s NONSENSE $job.0
2 signal --pid x $job.0
2 find x
2 find --namespace x 1
1 find 999999999
2 terminate --now --grace 1s $job.0
2 usage --count 3 $job.0
2 usage -i 1ms $job.0
2 top
2 top --batch --sort nonsense
2 add $job.0 x
2 notify $job.0
125 wait $job.0
125 wait
1 show $job.0
0 --help
0 signal --help
0 help
0 help signal
2 help nonsense
2 --json list
2 --timeout 5s show $job.0
2 show $job.0/1
X
like "$("$stepctl" --json list 2>&1)" "^stepctl: '--json' before the verb: options follow the verb" \
	"an option before the verb is refused with the remedy"
is "$("$stepctl" nonsense 2>&1 | wc -l)" 1 "a wrong verb is reported in one line"
is "$("$stepctl" help signal)" "$("$stepctl" signal --help)" "stepctl help VERB prints what VERB --help prints"
like "$("$stepctl" show "$job.0/1" 2>&1)" "show takes whole steps only: the ranks '1'" \
	"ranks are refused by a verb that takes whole steps"
ok "the list of verbs fits 80 columns" test "$("$stepctl" --help | wc -L)" -le 80

# ---- a step that goes on -------------------------------------------------------------------------
agent 0 -n 2 -- sh -c 'echo up; sleep 300'
like "$("$stepctl" wait --timeout 100ms "$job.0" 2>&1)" \
	"it has not ended within the --timeout of 100 ms" "wait --timeout reports that the step has not ended"
like "$("$stepctl" add "$job.0" 4194305 2>&1)" "there is no process 4194305 on this node" \
	"add of a missing process fails with the reason"
is "$("$stepctl" notify "$job.0" '' 2>&1)" "stepctl notify: the message is empty" \
	"notify of an empty message fails with the reason"
"$stepctl" top --batch --json -n 1 -i 1s "$job.0" >"$tmpdir/json"
is "$(of 'steps[0]["cpus"] is not None')" true "top -n 1 has the CPU use"
"$stepctl" terminate --now "$job.0"
wait "$agent"

# ---- a step that has ended, beside others whose names begin with its -------------------------------
agent 10 -- sh -c 'echo up; exec sleep 300'
out=$("$stepctl" terminate --now "$job.1" 2>&1)
like "$?,$out" "^1,stepctl terminate: step $job\.1: there is no step '$job\.1'" \
	"terminate of step 1, which has ended, is no terminate of step 10"
out=$("$stepctl" signal KILL "${job%?}" 2>&1)
is "$?" 1 "signal to a job is no signal to one whose number goes on"
like "$("$stepctl" list)" "^$job\.10 .*running" "the step with the longer number runs on"
"$stepctl" terminate --now "$job."
wait "$agent"
done_testing
