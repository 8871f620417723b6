#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Questions at a step's socket: what it is, its processes and tasks, whose a pid is, what it uses.
# shellcheck disable=SC2016,SC2317 # what stands in single quotes is for eval, Python and the tasks
. "${top_srcdir:?}/tests/lib/control.sh"

numbers() { # of standard input, on one line
	sort -n | tr '\n' ' '
}

# shellcheck disable=SC2016 # $0 and the like are the tasks'
script='sleep 600 & [ $SLURM_PROCID != 1 ] || { sleep 601 & } ; echo $$ $! >"$0.$SLURM_PROCID.new"
	mv "$0.$SLURM_PROCID.new" "$0.$SLURM_PROCID"; echo up; wait'

both_up() {
	[ -s "$tmpdir/p.0" ] && [ -s "$tmpdir/p.1" ]
}

for b in $(backends); do
	rm -f "$tmpdir"/p.?
	start_step --proctrack "$b" -n 2 --time 0 -- sh -c "$script" "$tmpdir/p"
	eventually both_up
	read -r task0 child0 <"$tmpdir/p.0"
	read -r task1 child1 <"$tmpdir/p.1"

	is "$(reply '[p["step"], p["job_id"], p["step_name"], p["kind"], p["state"], p["ntasks"], p["running_tasks"]]' Describe)" \
		"[\"$job.0\", $job, \"0\", \"normal\", \"running\", 2, 2]" "$b: Describe has the step's names, kind, state and tasks"
	is "$(reply '[p["proctrack"], p["agent_pid"], p["agent_start_ticks"], p["uid"], p["mpi"]]' Describe)" \
		"[\"proctrack/$b\", $agent, $(start_ticks "$agent"), $(id -u), \"mpi/none\"]" "$b: Describe has the tracker, the agent, the user and the MPI plugin"
	is "$(reply 'p["pid_namespace"]' Describe)" "$(stat -Lc %i /proc/self/ns/pid)" \
		"$b: Describe has the pid namespace"

	# All five, with rank and start.
	is "$(reply '" ".join(str(x["pid"]) for x in p["pids"])' ListPids | tr ' ' '\n' | numbers)" \
		"$(tree "$task0" "$task1" | numbers)" "$b: ListPids has the processes that the tracker has"
	is "$(reply "[(x['rank'], x['start_ticks']) for x in p['pids'] if x['pid'] in ($task1, $child1)]" ListPids)" \
		"[[1, $(start_ticks "$task1")], [1, $(start_ticks "$child1")]]" "$b: ListPids has the rank and the start of each process"
	is "$(reply 'sorted(x["rank"] for x in p["pids"])' ListPids '{"ranks": "1"}')" "[1, 1, 1]" \
		"$b: ListPids with ranks has the processes of that task alone"
	is "$(reply 'sorted(list(x) for x in p["pids"])[0]' ListPids '{"start_ticks": false}')" '["pid", "rank"]' \
		"$b: ListPids omits the start if start_ticks is false"

	is "$(reply '[(x["rank"], x["local_id"], x["state"], x["text"], x["pid"], x["on_request"]) for x in p["tasks"]]' ListTasks)" \
		"[[0, 0, \"running\", \"running\", $task0, false], [1, 1, \"running\", \"running\", $task1, false]]" \
		"$b: ListTasks has both tasks"
	is "$(reply '[x["rank"] for x in p["tasks"]]' ListTasks '{"ranks": "1"}')" "[1]" \
		"$b: ListTasks with ranks has that task alone"

	is "$(reply '[p["found"][x] for x in ("pid", "step", "rank", "start_ticks", "namespace_pids")]' FindPid "{\"pid\": $child1}")" \
		"[$child1, \"$job.0\", 1, $(start_ticks "$child1"), [$child1]]" "$b: FindPid has the step and the rank of a process"
	is "$(refused FindPid '{"pid": 1}')" 'NoSuchProcess {"pid": 1}' \
		"$b: FindPid refuses a process that is not the step's"
	is "$(reply '[x["pid"] for x in p["found"]]' FindPids "{\"pids\": [1, $child0, $$, $task1, $child0]}")" \
		"[$child0, $task1, $child0]" "$b: FindPids omits processes that are not the step's"
	is "$(reply 'p["found"]' FindPids '{"pids": []}')" "[]" "$b: FindPids finds none of no pids"

	is "$(reply '[p["step"]["usage"]["processes"], [x["rank"] for x in p["tasks"]]]' Usage)" "[5, [0, 1]]" \
		"$b: Usage has the step and its tasks"
	is "$(reply '[p["step"]["usage"]["processes"], p["tasks"]]' Usage '{"tasks": false}')" "[5, []]" \
		"$b: Usage without tasks has the step alone"

	is "$(request Terminate '{"kill_sequence": "KILL"}')" '{"parameters":{}}' \
		"$b: Terminate with a kill sequence is accepted"
	wait "$agent"
	nothing_left "$b: the job leaves no cgroup, process or file behind"
done

# ---- refused queries -------------------------------------------------------------------------
start_step --proctrack "$tracker" -n 2 -- sh -c 'echo up; sleep 600'
while read -r method parameters error; do
	is "$(refused "$method" "$parameters")" "$error" "$method $parameters is refused"
done <<END
ListPids {"ranks":"7"} NoSuchTask {"rank": 7}
ListPids {"ranks":"0-4000000000"} NoSuchTask {"rank": 2}
ListPids {"ranks":""} InvalidParameter {"parameter": "ranks"}
ListPids {"ranks":"1-"} InvalidParameter {"parameter": "ranks"}
ListTasks {"ranks":"-1"} InvalidParameter {"parameter": "ranks"}
FindPid {"pid":0} InvalidParameter {"parameter": "pid"}
FindPid {"pid":-5} InvalidParameter {"parameter": "pid"}
FindPid {"pid":4294967297} InvalidParameter {"parameter": "pid"}
FindPid {"pid":1,"pid_namespace":-1} InvalidParameter {"parameter": "pid_namespace"}
FindPid {"pid":1,"pid_namespace":17} NoSuchProcess {"pid": 1}
FindPids {"pids":[1,-1]} InvalidParameter {"parameter": "pids"}
Usage {"interval_ms":1000} ExpectedMore {}
Usage {"interval_ms":99} InvalidParameter {"parameter": "interval_ms"}
Usage {"interval_ms":-1} InvalidParameter {"parameter": "interval_ms"}
Events {} ExpectedMore {}
END
is "$(python3 -c 'import json; print(json.dumps({"pids": [1] * 16385}))' >"$tmpdir/many"; refused FindPids "$(cat "$tmpdir/many")")" \
	'InvalidParameter {"parameter": "pids"}' "more than 16384 pids are refused"
is "$(python3 -c 'import json; print(json.dumps({"pids": [1] * 16384}))' >"$tmpdir/many"; reply 'p["found"]' FindPids "$(cat "$tmpdir/many")")" \
	'[]' "16384 pids are accepted"

# ---- again and again -----------------------------------------------------------------------------
follow Usage '{"interval_ms": 100, "tasks": false}' >"$tmpdir/usages" &
usages=$!
eventually eval '[ "$(wc -l <"$tmpdir/usages")" -ge 3 ]'
request Terminate '{"grace_ms": 0}' >/dev/null
wait "$agent"
wait $usages
is $? 0 "Usage every interval ends with the step"
is "$(grep -c continues "$tmpdir/usages")" "$(($(wc -l <"$tmpdir/usages") - 1))" \
	"Usage every interval sends one last reply without continues"

# ---- another pid namespace -----------------------------------------------------------------------
if [ "$(id -u)" = 0 ] && unshare -pf --mount-proc true 2>/dev/null; then
	# shellcheck disable=SC2016
	start_step --proctrack "$tracker" -- unshare -pf --mount-proc sh -c 'sleep 600 & echo $! >"$0"; echo up; wait' "$tmpdir/inner"
	eventually test -s "$tmpdir/inner"
	inner=$(cat "$tmpdir/inner")
	outer=$(tree "$agent" | while read -r pid; do
		[ "$(awk '/^NSpid:/ { print $3 }' "/proc/$pid/status")" != "$inner" ] || echo "$pid"
	done)
	namespace=$(stat -Lc %i "/proc/$outer/ns/pid")
	is "$(reply '[p["found"][x] for x in ("pid", "namespace_pids")]' FindPid "{\"pid\": $inner, \"pid_namespace\": $namespace}")" \
		"[$inner, [$outer, $inner]]" "FindPid finds a pid of another pid namespace"
	is "$(reply 'p["found"]["namespace_pids"]' FindPid "{\"pid\": $outer}")" "[$outer, $inner]" \
		"FindPid has a process's pid of another pid namespace"
	is "$(reply '[x["pid"] for x in p["found"]]' FindPids "{\"pids\": [1, $inner, 99999], \"pid_namespace\": $namespace}")" \
		"[1, $inner]" "FindPids finds pids of another pid namespace, its first process among them"
	kill "$agent"
	wait "$agent"
else
	skip 3 "no pid namespace can be made"
fi
nothing_left "the job leaves no cgroup, process or file behind"

done_testing
