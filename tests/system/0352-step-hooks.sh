#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Step hooks: a library of root's whose functions the agent calls; tests/lib/traced_hooks.c.
# shellcheck source=tests/lib/step.sh
. "${top_srcdir:?}/tests/lib/step.sh"

hooks=$(cd "$top_builddir" && pwd)/tests/lib/hooks/traced.so
cp "$hooks" "$tmpdir/hooks.so"
chmod 755 "$tmpdir/hooks.so"
hooks=$tmpdir/hooks.so

spec() { # STEP NTASKS COMMAND [VARIABLE...]
	printf '{"job": %s, "step": %s, "ntasks": %s, "argv": ["sh", "-c", "%s"], "cwd": "/usr", "proctrack": "%s", "stdout": {"mode": "file", "path": "%s", "append": true}' \
		"$job" "$1" "$2" "$3" "$tracker" "$tmpdir/out"
	[ "$(id -u)" != 0 ] || printf ', "uid": 65534, "gid": 65534, "groups": []'
	printf ', "env": {"PATH": "/usr/bin:/bin", "STEPD_TEST_JOB": "%s", "HOOKS_GONE": "x"' "$job"
	shift 3
	for variable; do
		printf ', "%s": "%s"' "${variable%%=*}" "${variable#*=}"
	done
	printf '}}\n'
}
hooked() { # SPEC-ARGUMENT...
	: >"$tmpdir/out"
	: >"$tmpdir/trace"
	chmod 666 "$tmpdir/out"
	spec "$@" >"$tmpdir/spec"
	timeout 120 "$stepd" serve --spec "$tmpdir/spec" --step-hooks "$hooks" --step-hooks-fd 3 --result "$tmpdir/r" 3>>"$tmpdir/trace" 2>"$tmpdir/err"
	status=$?
}
calls() { # of the step's own process, by name; or of tasks
	awk -v where="$1" '$2 == where { print $1 }' "$tmpdir/trace" | tr '\n' ' '
}

if [ "$(id -u)" != 0 ]; then
	hooked 0 1 true
	like "$status $(cat "$tmpdir/err")" "^125 .*step hooks '$hooks': only root's agent has them" "only root's agent has hooks"
	done_testing
	exit
fi

# shellcheck disable=SC2016 # for the tasks
hooked 0 2 'echo $HOOKS_SEEN$HOOKS_GONE; exit 3'
is "$status" 3 "a step with hooks ends as its tasks do"
is "$(calls agent)" "begin before_tasks task_forked task_forked task_ended_3 task_ended_3 end " "the agent calls the functions of the step in their order"
is "$(calls child | tr ' ' '\n' | sort | uniq -c | tr -s ' \n' ' ')" " 2 task 2 task_privileged " "each task calls its two functions"
is "$(cat "$tmpdir/out")" "begin,before_tasks,task_privileged,task,
begin,before_tasks,task_privileged,task," "a task has the variables that all functions before it have set, and none that was removed"
is "$(awk '{ print $1, $3 }' "$tmpdir/trace" | sort -u)" "before_tasks uid=0/65534
begin uid=0/0
end uid=0/0
task uid=65534/65534
task_ended_3 uid=0/0
task_forked uid=0/0
task_privileged uid=0/0" "each function runs as whom it is to run"
is "$(awk '$2 == "child" { print $1, $4, $6 }' "$tmpdir/trace" | sort -u)" "task calls=4 pid=own
task_privileged calls=3 pid=own" "a task's process is a copy of the agent's memory, and nothing of the other tasks'"
is "$(awk '{ print $1, $7, $8 }' "$tmpdir/trace" | grep -c '^\(before_tasks\|task\|task_privileged\) env cwd=/usr$')" 5 \
	"the functions of the user and the tasks run in the step's directory"
first=$(awk '$1 == "task" { print NR; exit }' "$tmpdir/trace")
is "$(head -n "$first" "$tmpdir/trace" | grep -c '^task_forked')" 2 "no task goes on before all have been forked"
nothing_left "a step with hooks leaves nothing"

# ---- functions that fail ---------------------------------------------------------------------
for name in begin before_tasks task_forked; do
	hooked 1 2 'echo ran' HOOKS_FAIL=$name
	like "$status $(cat "$tmpdir/err")" "^125 .*step hooks '$hooks' let the step fail in $name\(\)" "$name: a step that it fails does not begin"
	is "$(cat "$tmpdir/out")" "" "$name: no task of such a step is executed"
	is "$(calls agent | grep -c 'end $')" "$([ $name = begin ] && echo 0 || echo 1)" "$name: end() is called if begin() has not failed"
done
for name in task_privileged task; do
	hooked 2 1 'echo ran' HOOKS_STATUS=$name:9
	is "$status $(cat "$tmpdir/out")" "9 " "$name: a task that it ends has its exit status"
	is "$(grep -c "can't" "$tmpdir/err")" 0 "$name: nothing is wrong with the program of such a task"
done
nothing_left "steps that hooks fail leave nothing"

# ---- a running step --------------------------------------------------------------------------
: >"$tmpdir/trace"
: >"$tmpdir/out"
spec 3 1 'echo up; exec sleep 300' >"$tmpdir/spec"
"$stepd" serve --spec "$tmpdir/spec" --step-hooks "$hooks" --step-hooks-fd 3 3>>"$tmpdir/trace" 2>"$tmpdir/err" &
agent=$!
eventually has_output up
like "$("$stepctl" reexec "$job.3" 2>&1)" "the step has hooks of '$hooks', which a new program could not continue" "an upgrade of such an agent is refused"
kill_agent
"$stepd" adopt --quiet "$job.3" 2>"$tmpdir/adopt" &
adopter=$!
eventually adopted 3
"$stepctl" signal -s KILL "$job.3"
wait $adopter
# 121: an older kernel does not tell an adopter how a task has ended.
like $? '^1(37|21)$' "a step with hooks whose agent was killed can be adopted"
is "$(calls agent)" "begin before_tasks task_forked " "no function is called any more once the agent was killed"
nothing_left "an adopted step with hooks leaves nothing"

# ---- an extern step, which has no tasks -------------------------------------------------------
: >"$tmpdir/trace"
printf '{"kind": "extern", "job": %s, "proctrack": "%s"}\n' "$job" "$tracker" >"$tmpdir/spec"
mkfifo "$tmpdir/ready"
"$stepd" serve --spec "$tmpdir/spec" --step-hooks "$hooks" --step-hooks-fd 3 --ready-fd 4 3>>"$tmpdir/trace" \
	4>"$tmpdir/ready" 2>"$tmpdir/err" &
agent=$!
read -r _ <"$tmpdir/ready"
is "$(awk '{ print $1, $2, $3, $5 }' "$tmpdir/trace")" "begin agent uid=0/0 task=-1
task_forked agent uid=0/0 task=-1" "an extern step's functions are called before it is reported to run, without a task"
kill "$agent"
wait "$agent"
is "$(calls agent)" "begin task_forked end " "the last function is called when an extern step ends"
nothing_left "an extern step with hooks leaves nothing"

# ---- libraries that are refused --------------------------------------------------------------
hooks=$tmpdir/nothing.so
hooked 4 1 true
like "$status $(cat "$tmpdir/err")" "^125 .*open the step hooks '$hooks'" "a library that is missing is refused"
hooks=hooks.so
hooked 4 1 true
like "$status $(cat "$tmpdir/err")" "^125 .*step hooks '$hooks': it must be an absolute path" "a library without a whole path is refused"
hooks=$tmpdir/spec
hooked 4 1 true
like "$status $(cat "$tmpdir/err")" "^125 .*load the step hooks '$hooks'" "a file that is no library is refused"
hooks=$(cd "$top_builddir" && pwd)/tests/lib/hooks/other.so
cp "$hooks" "$tmpdir/other.so"
hooks=$tmpdir/other.so
hooked 4 1 true
like "$status $(cat "$tmpdir/err")" "^125 .*'$hooks' has step hooks of version 0, this stepd wants 1" "a library of another version is refused"
hooks=$tmpdir/hooks.so
chown 65534 "$hooks"
hooked 4 1 true
like "$status $(cat "$tmpdir/err")" "^125 .*$hooks" "a library that others than root could change is refused"
fails "a step that is adopted has no hooks" "$stepd" serve --adopt "$job.4" --step-hooks "$hooks"
nothing_left "steps without their hooks leave nothing"
done_testing
