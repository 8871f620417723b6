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

state() { # PID: T, S, ...
	sed 's/.*) \(.\) .*/\1/' "/proc/$1/stat"
}

fails_alive() { # PID
	! kill -0 "$1" 2>/dev/null || [ "$(state "$1")" = Z ]
}

rtmin3=$(python3 -c 'import signal; print(signal.SIGRTMIN + 3)')
for b in $(backends); do
	: >"$tmpdir/heard"
	agent --proctrack "$b" -n 3 -- python3 "$tmpdir/task.py" "$tmpdir/heard"
	eventually ready

	is "$(ask Signal '{"signal": "USR1"}')" '{"parameters":{}}' "$b: a signal goes to the step"
	ok "$b: to all of it" eventually hears 10 "c0 c1 c2 t0 t1 t2 "
	ask Signal '{"signal": "SIGUSR2", "ranks": "0,2"}' >/dev/null
	ok "$b: or to some tasks and what descends from them" eventually hears 12 "c0 c2 t0 t2 "
	ask Signal '{"signal": "1", "ranks": "1", "leader": true}' >/dev/null
	ok "$b: or to a first process alone" eventually hears 1 "t1 "
	ask Signal '{"signal": "1", "leader": true}' >/dev/null
	ok "$b: or to all of those" eventually hears 1 "t0 t1 t1 t2 "
	ask Signal "{\"signal\": \"RTMIN+3\", \"pid\": $(child_of 1)}" >/dev/null
	ok "$b: or to one process, a real-time signal by name" eventually hears "$rtmin3" "c1 "
	ask Signal "{\"signal\": \"$rtmin3\", \"pid\": $(answer 'p["tasks"][0]["pid"]' ListTasks)}" >/dev/null
	ok "$b: and by number, to one with its descendants" eventually hears "$rtmin3" "c0 c1 t0 "
	is "$(refused Signal "{\"signal\": \"TERM\", \"pid\": $(child_of 0), \"start_ticks\": 5}")" \
		"NoSuchProcess {\"pid\": $(child_of 0)}" "$b: but to none that only has the number of one"
	is "$(refused Signal '{"signal": "TERM", "pid": 1}')" 'NoSuchProcess {"pid": 1}' "$b: nor to one of others"

	# Suspended by several askers at once.
	ask Suspend >"$tmpdir/s1" &
	s1=$!
	ask Suspend >"$tmpdir/s2"
	wait $s1
	is "$(cat "$tmpdir/s1" "$tmpdir/s2")" '{"parameters":{}}
{"parameters":{}}' "$b: two ask to suspend, and are told when it stands"
	is "$(answer 'p["state"]' Describe)" suspended "$b: it stands"
	is "$(ask Signal '{"signal": "USR1"}')" '{"parameters":{}}' "$b: a signal to it is sent"
	is "$(ask Signal '{"signal": "CONT", "ranks": "1"}')" '{"parameters":{}}' "$b: one of job control waits, and is answered"
	is "$(answer 'p["state"]' Describe)" suspended "$b: it still stands"
	is "$(heard 10)" "c0 c1 c2 t0 t1 t2 " "$b: and nobody has heard it"
	is "$(ask Resume)" '{"parameters":{}}' "$b: it is resumed"
	ok "$b: then they have" eventually hears 10 "c0 c0 c1 c1 c2 c2 t0 t0 t1 t1 t2 t2 "
	is "$(ask Resume)" '{"parameters":{}}' "$b: resuming what runs is no error"

	# A child alone is killed, then a task with all its own.
	ask Signal "{\"signal\": \"KILL\", \"pid\": $(child_of 2), \"leader\": true}" >/dev/null
	ok "$b: one process can be killed" eventually fails_alive "$(child_of 2)"
	ask Signal '{"signal": "KILL", "ranks": "1"}' >/dev/null
	ok "$b: and one task with what descends from it" \
		eventually eval "answer 'p[\"tasks\"][1][\"state\"]' ListTasks | grep -qx ended"
	is "$(answer '[p["tasks"][1][x] for x in ("text", "wait_status", "exit_code", "on_request")]' ListTasks)" \
		'["killed by signal 9 (KILL)", 9, 137, false]' "$b: its end is told"
	is "$(refused Signal '{"signal": "USR1", "ranks": "1"}')" 'NoSuchTask {"rank": 1}' "$b: nothing of it is left to signal"
	is "$(ask Signal '{"signal": "KILL"}')" '{"parameters":{}}' "$b: the whole step is killed"
	wait "$agent"
	is $? 137 "$b: which is not the step's own ending"
	nothing_left "$b: nothing is left"
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
agent --proctrack "$tracker" -- sh -c 'echo up; sleep 600'
while IFS='|' read -r method parameters error; do
	is "$(refused "$method" "$parameters")" "$error" "$method $parameters is refused"
done <"$tmpdir/wrong"

sleep 602 &
stranger=$!
ticks=$(sed 's/.*) //' /proc/$stranger/stat | cut -d' ' -f20)
is "$(refused AddPid "{\"pid\": $stranger, \"start_ticks\": 1}")" "NoSuchProcess {\"pid\": $stranger}" \
	"a process that only has the number is not added"
if [ "$tracker" = cgroup ]; then
	is "$(ask AddPid "{\"pid\": $stranger, \"start_ticks\": $ticks}")" '{"parameters":{}}' "a process is added"
	is "$(answer 'p["found"]["step"]' FindPid "{\"pid\": $stranger}")" "$job.0" "it is the step's"
	is "$(ask AddPid "{\"pid\": $stranger}")" '{"parameters":{}}' "adding it twice is no error"
	"$stepd" run -q --job "$job" --step 1 --proctrack cgroup -- sh -c "echo \$\$ >'$tmpdir/other'; sleep 600" &
	other=$!
	eventually test -s "$tmpdir/other"
	like "$(refused AddPid "{\"pid\": $(cat "$tmpdir/other")}")" "Failed .*EBUSY.*member of another step" \
		"a member of another step is not added"
	kill $other
	wait $other
else
	skip 4 "who may be added depends on the tracker"
fi
like "$(refused AddPid '{"pid": 1}')" "Failed .*EINVAL.*process 1 can't be added to the step: it is the first" \
	"nor is process 1"
like "$(refused AddPid "{\"pid\": $agent}")" "Failed .*EINVAL.*it is the step's agent" "nor the agent"
[ "$(id -u)" != 0 ] ||
	like "$(refused AddPid '{"pid": 2}')" "(NoSuchProcess|Failed .*it is a thread of the kernel)" "nor a thread of the kernel"
like "$(refused SetLimits '{"limits": {}}')" "Failed .*EINVAL.*none is given" "no limit is no change of limits"
like "$(refused SetLimits '{"limits": {"pids_most": 5}}')" "Failed .*EINVAL.*limits\.pids_most: unknown field" \
	"a limit that is none is named"
is "$(refused SetLimits '{"limits": {"pids_max": 50}, "ranks": "4"}')" 'NoSuchTask {"rank": 4}' "as is a task that is none"
like "$(answer 'p["warnings"]' SetLimits '{"limits": {"cpuset_cpus": "9999"}, "best_effort": true}')" \
	'^\[".*limits\.cpuset_cpus: .*, ignoring"\]$' "with best effort what can't be had is a warning"

# ---- an ending that is hurried -------------------------------------------------------------------
kill "$agent"
wait "$agent"
[ "$tracker" != cgroup ] || is "$(state $stranger 2>/dev/null || echo gone)" gone "what was added ends with the step"
kill $stranger 2>/dev/null
wait $stranger 2>/dev/null

agent --proctrack "$tracker" -- sh -c 'trap "" TERM; echo up; while :; do sleep 0.1; done'
follow Wait >"$tmpdir/waited" &
waiter=$!
eventually test -s "$tmpdir/waited"
ask Terminate '{"kill_sequence": "TERM:600s,KILL"}' >/dev/null
is "$(answer '[p["state"], p["reason"]]' Describe)" '["ending", "signal"]' "an ending leaves it time"
is "$(refused Suspend)" 'WrongState {"message": "the step is ending", "state": "ending"}' "it can't be suspended then"
is "$(refused AddPid "{\"pid\": $$}")" 'WrongState {"message": "the step is ending", "state": "ending"}' "nor joined"
ask Terminate '{"kill_sequence": "TERM:1200s,KILL"}' >/dev/null
ask Terminate '{"grace_ms": 300}' >/dev/null
wait "$agent"
is $? 143 "a shorter one takes its place"
wait $waiter
is "$(field 'p["result"]["tasks"][0]["text"]' <<END
$(tail -n 1 "$tmpdir/waited")
END
)" "killed by signal 9 (KILL), on request" "which comes to its end"
nothing_left "nothing is left"

done_testing
