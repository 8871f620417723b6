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
	is "$(printf '%s' "$ready" | json_get - '[step, pid, state, container["plugin"], container["id"] > 0]')" \
		"[\"$job.5\", $agent, \"running\", \"proctrack/$b\", true]" \
		"$b: the ready line reports that the step runs"
	eventually sh -c "[ \$('$stepctl' pids '$job.5' | wc -l) = 4 ]"
	pids=$("$stepctl" pids "$job.5" | sort -n)
	wanted=$(for p in $(living_children "$agent"); do echo "$p"; living_children "$p"; done | sort -n)
	is "$pids" "$wanted" "$b: pids lists the tasks and their children, and nothing else"
	task=$(printf '%s' "$ready" | json_get - '[t["pid"] for t in tasks if t["rank"] == 1][0]')
	child=$(living_children "$task")
	like "$("$stepctl" find "$child")" "^$child step $job.5 task 1 .*\(proctrack/$b\)" \
		"$b: stepctl find names step and task"
	out=$("$stepctl" find "$task" 1)
	is $? 1 "$b: stepctl find exits with 1 where a pid is in no step"
	like "$out" "^1 is in no step" "$b: stepctl find reports that a pid is in no step"
	like "$("$stepctl" list)" "^$job.5 .*running .*$b +$agent\$" "$b: stepctl list shows the running step"
	out=$("$stepd" run --job "$job" --step 5 -- true 2>&1)
	is $? 125 "$b: the same step can't be started twice"
	like "$out" "$job.5 already runs here, under the agent with pid $agent" \
		"$b: the refusal of the same step names its agent"
	kill -TERM "$agent"
	wait "$agent"
	is $? 143 "$b: SIGTERM ends an agent of stepd serve with 143"
	is "$(json_get "$tmpdir/r" step)" "$job.5" "$b: the result names the step"
	is "$(json_get "$tmpdir/t" '" ".join(sorted({e["name"].replace(" ", "-") for e in traceEvents}))')" \
		"container exec fork mpi-hook plan release socket spec task" "$b: the trace has the phases of the launch"
done
"$stepctl" pids "$job.5" >/dev/null 2>&1
is $? 1 "stepctl pids does not find a step that has ended"
unlike "$("$stepctl" list)" "^$job\.5 .* running " "stepctl list shows no ended step as running"

# Wherever the containers hang, a command from elsewhere finds them.
if backends | grep -qx cgroup && [ "$(id -u)" = 0 ]; then
	root=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)/stepd-test-root-$$
	mkdir "$root"
	at_exit "rmdir '$root'"
	STEPD_CGROUP_ROOT=$root "$stepd" run --job "$job" --step 6 -- sleep 99 &
	agent=$!
	eventually running 6
	pid=$("$stepctl" pids "$job.6")
	like "$("$stepctl" find "$pid")" "^$pid step $job.6 task 0" \
		"stepctl find knows a container below the agent's own cgroup root"
	kill -TERM $agent
	wait $agent
	out=$(STEPD_CGROUP_ROOT=/nonexistent step --proctrack auto -- true 2>&1)
	is $? 125 "a cgroup root that can't be used is refused, with auto too"
else
	skip 2 "needs proctrack/cgroup and root"
fi

# A closed ready descriptor or pipe is no reason to fail.
echo "{\"job\": $job, \"argv\": [\"true\"]}" >"$tmpdir/s"
"$stepd" serve --spec "$tmpdir/s" --ready-fd 9 2>"$tmpdir/err"
is $? 125 "a ready descriptor that is not open is refused"
like "$(cat "$tmpdir/err")" "--ready-fd: descriptor 9: Bad file descriptor" \
	"the refusal of a ready descriptor names the option"

# An agent that is killed leaves its tasks; the step can't be started again on top of them.
if backends | grep -qx cgroup; then
	"$stepd" run --job "$job" --step 8 --proctrack cgroup -- sleep 99 &
	agent=$!
	eventually sh -c "[ -n \"\$('$stepctl' pids '$job.8')\" ]"
	left=$("$stepctl" pids "$job.8")
	kill_agent
	ok "stepctl list shows that an agent died" eventually sh -c "'$stepctl' list | grep -q '^$job.8 .* died\$'"
	is "$("$stepctl" pids "$job.8")" "$left" "stepctl pids finds the tasks of a dead agent"
	out=$(step --step 8 --proctrack cgroup -- true 2>&1)
	is $? 125 "the step of a dead agent is not started again while tasks are left"
	like "$out" "left behind when it died" "the refusal names the tasks left behind by the dead agent"
	is "$("$stepctl" pids "$job.8")" "$left" "the refusal leaves the tasks of the dead agent alone"
	kill -9 $left
	eventually sh -c "! kill -0 $left"
	ok "the step starts again once the dead agent's tasks have ended" step --step 8 --proctrack cgroup -- true
else
	skip 7 "needs proctrack/cgroup"
fi
nothing_left "the job leaves no cgroup, process or file behind"
done_testing
