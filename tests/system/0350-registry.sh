#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What a node can know of its steps: list, pids, find, the ready line, the result, the trace.
. "${top_srcdir:?}/tests/lib/step.sh"

living_children() {
	for child in $(cat "/proc/$1/task/$1/children"); do
		grep -q '^State:	Z' "/proc/$child/status" || echo "$child"
	done
}

cat >"$tmpdir/spec" <<X
{"job": $job, "step": 5, "ntasks": 2, "argv": ["sh", "-c", "sleep 99 & exec sleep 99"],
 "env": {"PATH": "/usr/bin:/bin", "STEPD_TEST_JOB": "$job"}}
X
for b in $(backends); do
	sed "s/\"step\": 5,/\"step\": 5, \"proctrack\": \"$b\",/" "$tmpdir/spec" >"$tmpdir/spec.$b"
	mkfifo "$tmpdir/ready.$b"
	"$stepd" serve --spec-fd 3 --ready-fd 4 --result "$tmpdir/r" --trace "$tmpdir/t" \
		3<"$tmpdir/spec.$b" 4<>"$tmpdir/ready.$b" &
	agent=$!
	read -r ready <"$tmpdir/ready.$b"
	like "$ready" "^\{\"step\":\"$job.5\",\"pid\":$agent,\"state\":\"running\",\"container\":\{\"plugin\":\"proctrack/$b\",\"id\":[1-9]" \
		"$b: one line of JSON says that the step runs"
	eventually sh -c "[ \$('$stepctl' pids '$job.5' | wc -l) = 4 ]"
	pids=$("$stepctl" pids "$job.5" | sort -n)
	wanted=$(for p in $(living_children "$agent"); do echo "$p"; living_children "$p"; done | sort -n)
	is "$pids" "$wanted" "$b: pids lists the tasks and their children, and nothing else"
	task=$(printf '%s' "$ready" | sed 's/.*"rank":1,"pid":\([0-9]*\).*/\1/')
	child=$(living_children "$task")
	like "$("$stepctl" find "$child")" "^$child step $job.5 task 1 .*\(proctrack/$b\)" "$b: find names step and task"
	out=$("$stepctl" find "$task" 1)
	is $? 1 "$b: a pid that is in no step makes it 1"
	like "$out" "^1 is in no step" "$b: and is told so"
	like "$("$stepctl" list)" "^$job.5 .*running .*$b +$agent\$" "$b: list shows it"
	out=$("$stepd" run --job "$job" --step 5 -- true 2>&1)
	is $? 125 "$b: the same step can't be started twice"
	like "$out" "$job.5 already runs here, under the agent with pid $agent" "$b: and is told who has it"
	kill -TERM "$agent"
	wait "$agent"
	is $? 143 "$b: it ends"
	like "$(cat "$tmpdir/r")" "\"step\": \"$job.5\"" "$b: the result is there"
	if command -v python3 >/dev/null; then
		is "$(python3 -c 'import json,sys; print(sorted({e["name"] for e in json.load(open(sys.argv[1]))["traceEvents"]}))' "$tmpdir/t")" \
			"['container', 'exec', 'fork', 'mpi hook', 'plan', 'release', 'socket', 'spec', 'task']" \
			"$b: the trace has the phases"
	else
		skip 1 "needs python3"
	fi
done
"$stepctl" pids "$job.5" >/dev/null 2>&1
is $? 1 "a step that is over is not found"
unlike "$("$stepctl" list)" "^$job\.5 .* running " "nor listed as one that runs"

# Wherever the containers hang, a command from elsewhere finds them.
if backends | grep -qx cgroup && [ "$(id -u)" = 0 ]; then
	root=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)/stepd-test-root-$$
	mkdir "$root"
	at_exit "rmdir '$root'"
	STEPD_CGROUP_ROOT=$root "$stepd" run --job "$job" --step 6 -- sleep 99 &
	agent=$!
	eventually running 6
	pid=$("$stepctl" pids "$job.6")
	like "$("$stepctl" find "$pid")" "^$pid step $job.6 task 0" "a root from the agent's environment"
	kill -TERM $agent
	wait $agent
	out=$(STEPD_CGROUP_ROOT=/nonexistent step --proctrack auto -- true 2>&1)
	is $? 125 "one that can't be used is refused, with auto too"
else
	skip 2 "needs proctrack/cgroup and root"
fi

# A closed ready descriptor or pipe is no reason to fail.
echo "{\"job\": $job, \"argv\": [\"true\"]}" >"$tmpdir/s"
"$stepd" serve --spec "$tmpdir/s" --ready-fd 9 2>"$tmpdir/err"
is $? 125 "a descriptor that is not open is refused"
like "$(cat "$tmpdir/err")" "--ready-fd: descriptor 9: Bad file descriptor" "by its option"

# An agent that is killed leaves its tasks; the step can't be started again on top of them.
if backends | grep -qx cgroup; then
	"$stepd" run --job "$job" --step 8 --proctrack cgroup -- sleep 99 &
	agent=$!
	eventually sh -c "[ -n \"\$('$stepctl' pids '$job.8')\" ]"
	left=$("$stepctl" pids "$job.8")
	kill -9 $agent
	wait $agent 2>/dev/null
	ok "a dead agent is recognised" eventually sh -c "'$stepctl' list | grep -q '^$job.8 .* died\$'"
	is "$("$stepctl" pids "$job.8")" "$left" "its tasks are still found"
	out=$(step --step 8 --proctrack cgroup -- true 2>&1)
	is $? 125 "the step is not started on top of them"
	like "$out" "left behind when it died" "and the reason is told"
	is "$("$stepctl" pids "$job.8")" "$left" "and the advice can be followed"
	kill -9 $left
	eventually sh -c "! kill -0 $left"
	ok "once they have ended it is" step --step 8 --proctrack cgroup -- true
else
	skip 7 "needs proctrack/cgroup"
fi
nothing_left "nothing is left"
done_testing
