#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What changes a step by its socket: signals to all, some and one, suspending, ending, limits, and
# processes that join it.
# shellcheck disable=SC2016,SC2317 # what stands in single quotes is for eval, Python and the tasks
. "${top_srcdir:?}/tests/lib/control.sh"

# Tasks, each with a child, that write down which signals they get, and their child's.
cat >"$tmpdir/task.py" <<'END'
import os, signal, sys, time
out = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
parent = os.getpid()
def note(number, frame):
    who = "t" if os.getpid() == parent else "c"
    os.write(out, ("%s%s %d\n" % (who, os.environ["SLURM_PROCID"], number)).encode())
for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP, signal.SIGRTMIN + 3):
    signal.signal(number, note)
child = os.fork()
if child:
    os.write(out, ("child%s %d\n" % (os.environ["SLURM_PROCID"], child)).encode())
    print("up", flush=True)
while True:
    signal.pause()
END

heard() { # SIGNAL: who, in order
	sed -n "s/ $1\$//p" "$tmpdir/heard" | sort | tr '\n' ' '
}

hears() { # SIGNAL WHO
	[ "$(heard "$1")" = "$2" ]
}

ready() {
	[ "$(grep -c ^child "$tmpdir/heard")" = 3 ]
}

child_of() { # RANK
	sed -n "s/^child$1 //p" "$tmpdir/heard"
}

rtmin3=$(python3 -c 'import signal; print(signal.SIGRTMIN + 3)')
for b in $(backends); do
	: >"$tmpdir/heard"
	start_step --proctrack "$b" -n 3 -- python3 "$tmpdir/task.py" "$tmpdir/heard"
	eventually ready

	is "$(request Signal '{"signal": "USR1"}')" '{"parameters":{}}' "$b: Signal to the step is accepted"
	ok "$b: Signal reaches all processes of the step" eventually hears 10 "c0 c1 c2 t0 t1 t2 "
	request Signal '{"signal": "SIGUSR2", "ranks": "0,2"}' >/dev/null
	ok "$b: Signal with ranks reaches those tasks and their descendants" eventually hears 12 "c0 c2 t0 t2 "
	request Signal '{"signal": "1", "ranks": "1", "leader": true}' >/dev/null
	ok "$b: Signal with a rank and leader reaches that task's first process alone" eventually hears 1 "t1 "
	request Signal '{"signal": "1", "leader": true}' >/dev/null
	ok "$b: Signal with leader reaches the first process of each task" eventually hears 1 "t0 t1 t1 t2 "
	request Signal "{\"signal\": \"RTMIN+3\", \"pid\": $(child_of 1)}" >/dev/null
	ok "$b: Signal with a pid sends a real-time signal by name to that process" eventually hears "$rtmin3" "c1 "
	request Signal "{\"signal\": \"$rtmin3\", \"pid\": $(reply 'p["tasks"][0]["pid"]' ListTasks)}" >/dev/null
	ok "$b: Signal with a task's pid sends a signal by number to its descendants, too" eventually hears "$rtmin3" "c0 c1 t0 "
	is "$(refused Signal "{\"signal\": \"TERM\", \"pid\": $(child_of 0), \"start_ticks\": 5}")" \
		"NoSuchProcess {\"pid\": $(child_of 0)}" "$b: Signal with a pid of another start is refused"
	is "$(refused Signal '{"signal": "TERM", "pid": 1}')" 'NoSuchProcess {"pid": 1}' \
		"$b: Signal with a pid of no member is refused"

	# Suspended by two requests at once.
	request Suspend >"$tmpdir/s1" &
	s1=$!
	request Suspend >"$tmpdir/s2"
	wait $s1
	is "$(cat "$tmpdir/s1" "$tmpdir/s2")" '{"parameters":{}}
{"parameters":{}}' "$b: two requests to suspend are both answered"
	is "$(reply 'p["state"]' Describe)" suspended "$b: the step of two requests to suspend is suspended"
	is "$(request Signal '{"signal": "USR1"}')" '{"parameters":{}}' "$b: Signal to a suspended step is accepted"
	is "$(request Signal '{"signal": "CONT", "ranks": "1"}')" '{"parameters":{}}' \
		"$b: Signal CONT to a suspended step is accepted"
	is "$(reply 'p["state"]' Describe)" suspended "$b: Signal CONT does not resume a suspended step"
	is "$(heard 10)" "c0 c1 c2 t0 t1 t2 " "$b: no task gets a signal while the step is suspended"
	is "$(request Resume)" '{"parameters":{}}' "$b: Resume of a suspended step is accepted"
	ok "$b: all processes get the pending signal once the step is resumed" eventually hears 10 "c0 c0 c1 c1 c2 c2 t0 t0 t1 t1 t2 t2 "
	is "$(request Resume)" '{"parameters":{}}' "$b: Resume of a running step is no error"

	# A child alone is killed, then a task with all its own.
	request Signal "{\"signal\": \"KILL\", \"pid\": $(child_of 2), \"leader\": true}" >/dev/null
	ok "$b: Signal KILL with a pid and leader kills that process" eventually process_ended "$(child_of 2)"
	request Signal '{"signal": "KILL", "ranks": "1"}' >/dev/null
	ok "$b: Signal KILL with a rank ends that task" \
		eventually eval "reply 'p[\"tasks\"][1][\"state\"]' ListTasks | grep -qx ended"
	is "$(reply '[p["tasks"][1][x] for x in ("text", "wait_status", "exit_code", "on_request")]' ListTasks)" \
		'["killed by signal 9 (KILL)", 9, 137, false]' "$b: ListTasks has the end of a killed task"
	is "$(refused Signal '{"signal": "USR1", "ranks": "1"}')" 'NoSuchTask {"rank": 1}' \
		"$b: Signal to an ended task is refused"
	is "$(request Signal '{"signal": "KILL"}')" '{"parameters":{}}' "$b: Signal KILL to the step is accepted"
	wait "$agent"
	is $? 137 "$b: a step killed by Signal ends with its tasks' status"
	nothing_left "$b: the job leaves no cgroup, process or file behind"
done

while read -r method parameters error; do
	printf '%s\n' "$method|$parameters|$error"
done >"$tmpdir/wrong" <<'END'
Signal {"signal":"NOPE"} InvalidParameter {"parameter": "signal"}
Signal {"signal":"0"} InvalidParameter {"parameter": "signal"}
Signal {"signal":"65"} InvalidParameter {"parameter": "signal"}
Signal {"signal":""} InvalidParameter {"parameter": "signal"}
Signal {"signal":"TERM","ranks":"0","pid":4} InvalidParameter {"parameter": "pid"}
Signal {"signal":"TERM","start_ticks":4} InvalidParameter {"parameter": "start_ticks"}
Signal {"signal":"TERM","pid":4,"start_ticks":0} InvalidParameter {"parameter": "start_ticks"}
Signal {"signal":"TERM","pid":0} InvalidParameter {"parameter": "pid"}
Signal {"signal":"TERM","ranks":"3"} NoSuchTask {"rank": 3}
Terminate {"kill_sequence":"TERM:30s"} InvalidParameter {"parameter": "kill_sequence"}
Terminate {"kill_sequence":"KILL,TERM"} InvalidParameter {"parameter": "kill_sequence"}
Terminate {"kill_sequence":""} InvalidParameter {"parameter": "kill_sequence"}
Terminate {"grace_ms":-1} InvalidParameter {"parameter": "grace_ms"}
AddPid {"pid":-1} InvalidParameter {"parameter": "pid"}
END

# ---- members that join, and limits ---------------------------------------------------------------
start_step --proctrack "$tracker" -- sh -c 'echo up; sleep 600'
while IFS='|' read -r method parameters error; do
	is "$(refused "$method" "$parameters")" "$error" "$method $parameters is refused"
done <"$tmpdir/wrong"

sleep 602 &
stranger=$!
ticks=$(start_ticks $stranger)
is "$(refused AddPid "{\"pid\": $stranger, \"start_ticks\": 1}")" "NoSuchProcess {\"pid\": $stranger}" \
	"AddPid with a pid of another start is refused"
if [ "$tracker" = cgroup ]; then
	is "$(request AddPid "{\"pid\": $stranger, \"start_ticks\": $ticks}")" '{"parameters":{}}' \
		"AddPid of a process is accepted"
	is "$(reply 'p["found"]["step"]' FindPid "{\"pid\": $stranger}")" "$job.0" \
		"FindPid finds an added process in the step"
	is "$(request AddPid "{\"pid\": $stranger}")" '{"parameters":{}}' \
		"a second AddPid of the same process is no error"
	"$stepd" run -q --job "$job" --step 1 --proctrack cgroup -- sh -c "echo \$\$ >'$tmpdir/other'; sleep 600" &
	other=$!
	eventually test -s "$tmpdir/other"
	like "$(refused AddPid "{\"pid\": $(cat "$tmpdir/other")}")" "Failed .*EBUSY.*member of another step" \
		"AddPid of another step's member is refused"
	kill $other
	wait $other
else
	skip 4 "the processes that may be added depend on the tracker"
fi
like "$(refused AddPid '{"pid": 1}')" "Failed .*EINVAL.*process 1 can't be added to the step: it is the first" \
	"AddPid of process 1 is refused"
like "$(refused AddPid "{\"pid\": $agent}")" "Failed .*EINVAL.*it is the step's agent" \
	"AddPid of the step's agent is refused"
[ "$(id -u)" != 0 ] ||
	like "$(refused AddPid '{"pid": 2}')" "(NoSuchProcess|Failed .*it is a thread of the kernel)" \
		"AddPid of a thread of the kernel is refused"
like "$(refused SetLimits '{"limits": {}}')" "Failed .*EINVAL.*none is given" \
	"SetLimits without a limit is refused"
like "$(refused SetLimits '{"limits": {"pids_most": 5}}')" "Failed .*EINVAL.*limits\.pids_most: unknown field" \
	"SetLimits with an unknown limit names it"
is "$(refused SetLimits '{"limits": {"pids_max": 50}, "ranks": "4"}')" 'NoSuchTask {"rank": 4}' \
	"SetLimits with a missing task names it"
like "$(reply 'p["warnings"]' SetLimits '{"limits": {"cpuset_cpus": "9999"}, "best_effort": true}')" \
	'^\[".*limits\.cpuset_cpus: .*, ignoring"\]$' "SetLimits with best effort warns of a limit that can't be set"

# ---- an ending that is hurried -------------------------------------------------------------------
kill "$agent"
wait "$agent"
[ "$tracker" != cgroup ] || ok "an added process ends with the step" process_ended $stranger
end_child TERM $stranger
wait $stranger 2>/dev/null

start_step --proctrack "$tracker" -- sh -c 'trap "" TERM; echo up; while :; do sleep 0.1; done'
follow Wait >"$tmpdir/waited" &
waiter=$!
eventually test -s "$tmpdir/waited"
request Terminate '{"kill_sequence": "TERM:600s,KILL"}' >/dev/null
is "$(reply '[p["state"], p["reason"]]' Describe)" '["ending", "signal"]' \
	"Terminate with a kill sequence leaves the step in the state ending"
is "$(refused Suspend)" 'WrongState {"message": "the step is ending", "state": "ending"}' \
	"Suspend of an ending step is refused"
is "$(refused AddPid "{\"pid\": $$}")" 'WrongState {"message": "the step is ending", "state": "ending"}' \
	"AddPid to an ending step is refused"
request Terminate '{"kill_sequence": "TERM:1200s,KILL"}' >/dev/null
request Terminate '{"grace_ms": 300}' >/dev/null
wait "$agent"
is $? 143 "a second Terminate shortens the ending"
wait $waiter
is "$(json_get "$tmpdir/waited" 'docs[-1]["parameters"]["result"]["tasks"][0]["text"]')" "killed by signal 9 (KILL), on request" \
	"a shortened ending kills the task"
nothing_left "the job leaves no cgroup, process or file behind"

done_testing
