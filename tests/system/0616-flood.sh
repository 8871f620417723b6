#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A step's owner who sends signals faster than they can be delivered harms his step alone.
# shellcheck disable=SC2016 # what stands in single quotes is for Python
. "${top_srcdir:?}/tests/lib/control.sh"

[ "$(id -u)" = 0 ] || skip_all "needs root, to be another user"

owner=65533
calls=300

# UID: as that user so many signals, all sent before the agent reads the first: how many are refused.
flood() {
	python3 -c '
import json, os, signal, socket, sys
path, uid, calls, agent = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
os.kill(agent, signal.SIGSTOP)
pid = os.fork()
if pid:
    status = os.waitpid(pid, 0)[1]
    sys.exit(os.waitstatus_to_exitcode(status))
wake = os.popen("sleep 1; kill -CONT %d" % agent)
os.setresgid(uid, uid, uid)
os.setresuid(uid, uid, uid)
socks = []
for i in range(calls):
    s = socket.socket(socket.AF_UNIX)
    s.connect(path)
    s.sendall(b"{\"method\":\"io.stepd.Step.Signal\",\"parameters\":{\"signal\":\"URG\"}}\0")
    socks.append(s)
answers = [json.loads(s.makefile("rb").read1().rstrip(b"\0")) for s in socks]
refused = [a["parameters"]["errno"] for a in answers if "error" in a]
assert set(refused) <= {"EAGAIN"}, refused
print(len(refused))
' "$(socket)" "$1" $calls "$agent"
}

start_step --proctrack "$tracker" --uid $owner --gid $owner -- sh -c 'echo up; exec sleep 600'
refused=$(flood $owner)
ok "most of the owner's flood of signals is refused ($refused of $calls)" test "$refused" -gt 100
is "$(flood 0)" 0 "no signal of root's flood is refused"
as="--uid $owner --gid $owner"
is "$(request Signal '{"signal": "URG"}')" '{"parameters":{}}' \
	"a single signal of the owner is accepted after the flood"
is "$(request Terminate '{"grace_ms": 0}')" '{"parameters":{}}' "the owner can end the step after the flood"
as=
wait "$agent"

# ---- how many are logged ---------------------------------------------------------------------------
# The events that led there are not sent one by one: the agent is followed by another, which goes on
# from the last number in the file.
most=$((1 << 18))
start_step --proctrack "$tracker" -- sh -c 'trap "echo heard" URG; echo up; while :; do sleep 0.05; done'
kill_agent
events=$(step_dir 0)/events.jsonl
echo "{\"sequence\":$((most - 4)),\"time_usec\":1,\"kind\":\"signal\",\"text\":\"URG\"}" >>"$events"
"$stepd" adopt -q --keep-result 1h "$job.0" 2>"$tmpdir/err" &
agent=$!
eventually has_adoption 0
: >"$tmpdir/out"
for round in 1 2 3 4 5 6; do
	is "$(request Signal '{"signal": "URG"}')" '{"parameters":{}}' \
		"signal $round near the last event is accepted"
	heard() {
		[ "$(grep -c heard "$tmpdir/out")" -ge $round ]
	}
	ok "signal $round near the last event reaches the task" eventually heard
done
last=$(json_get "$events" 'max(e["sequence"] for e in docs if e["kind"] == "signal")')
is "$last" $most "signals after the limit of events are not logged"
exec 9<"$events" # which goes with the step
is "$(request Terminate '{"grace_ms": 0}')" '{"parameters":{}}' "a step at the limit of events can be ended"
wait "$agent"
is "$(json_get - 'docs[-1]["state"]' <&9)" ended "the end of a step at the limit of events is logged"
rm -r "$run"/*_"$job.0"
nothing_left "the job leaves no cgroup, process or file behind"
done_testing
