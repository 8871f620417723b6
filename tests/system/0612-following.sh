#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Who follows a step: Wait and Events, from anywhere, to its end; and its last moments.
# shellcheck disable=SC2016,SC2317 # what stands in single quotes is for eval, Python and the tasks
. "${top_srcdir:?}/tests/lib/control.sh"

kinds() { # FILE of replies of Events: their kinds, states and ranks
	json_get "$1" '" ".join("/".join([e["kind"], *(str(e[x]) for x in ("state", "rank", "exit_code") if x in e)])
		for e in (reply["parameters"]["event"] for reply in docs))'
}

numbered() { # FILE FROM: the events are numbered from there on without a gap
	[ "$(json_get "$1" "[r['parameters']['event']['sequence'] for r in docs] == list(range($2, $2 + len(docs)))")" = true ]
}

events() {
	reply 'p["last_event"]' Describe
}

# ---- two followers -------------------------------------------------------------------------------
# shellcheck disable=SC2016
start_step --proctrack "$tracker" --keep-result 1h -n 2 -- sh -c 'echo up; until [ -e "$0.$SLURM_PROCID" ]; do sleep 0.02; done
	exit $SLURM_PROCID' "$tmpdir/go"
directory=$(dirname "$(socket)")
follow Events '{"from": 0}' >"$tmpdir/all" &
all=$!
eventually eval '[ "$(wc -l <"$tmpdir/all")" -ge 4 ]'
first=$(events)
follow Events >"$tmpdir/new" &
new=$!
follow Wait >"$tmpdir/wait" &
waiter=$!
request Wait >"$tmpdir/once" &
once=$!
eventually test -s "$tmpdir/wait"
request Suspend >/dev/null
request Resume >/dev/null
: >"$tmpdir/go.1"
eventually eval '[ "$(reply "p[\"tasks\"][1][\"state\"]" ListTasks)" = ended ]'
follow Events "{\"from\": $first}" >"$tmpdir/from" &
from=$!
eventually test -s "$tmpdir/from"
: >"$tmpdir/go.0"
wait "$agent"
is $? 1 "the step ends as it does without followers"
wait $all && wait $new && wait $from && wait $waiter && wait $once
is $? 0 "all followers of a step end with it"

is "$(kinds "$tmpdir/all")" "state/starting task_start/0 task_start/1 state/running suspend state/suspended resume state/running task_exit/1/1 task_exit/0/0 state/draining state/ended" \
	"Events has all events of the step in order"
ok "Events from 0 are numbered from 1 without a gap" numbered "$tmpdir/all" 1
ok "Events without from begin with the next event" numbered "$tmpdir/new" $((first + 1))
ok "Events from an earlier event begin with it" numbered "$tmpdir/from" "$first"
is "$(tail -n 1 "$tmpdir/new")" "$(tail -n 1 "$tmpdir/all")" "a follower from now on gets the same last event"
is "$(tail -n 1 "$tmpdir/from")" "$(tail -n 1 "$tmpdir/all")" \
	"a follower from an earlier event gets the same last event"
is "$(json_get "$tmpdir/wait" '" ".join(reply["parameters"]["state"] for reply in docs)')" \
	"running suspended running draining ended" "Wait with more reports each state"
is "$(cat "$tmpdir/once")" "$(tail -n 1 "$tmpdir/wait")" \
	"Wait without more has the same result as Wait with more"
is "$(json_get "$tmpdir/once" 'p["result"]')" \
	"$(json_get "$directory/result.json" '{k: v for k, v in d.items() if k != "keep_until_time_usec"}')" \
	"the result of Wait is the retained one"
is "$(ls "$directory")" "result.json" "only the result of an ended step is retained"
rm -r "$directory"

# ---- a result is on the disk before any client has it---------------------------------------------
start_step --proctrack "$tracker" --keep-result 1h -- sh -c 'echo up; sleep 600'
# The agent's end of a connection has the socket's path, and state 3.
is_connected() {
	grep -q " 03 *[0-9]* $run/.*_${job}[.]0/socket\$" /proc/net/unix
}
request Wait >"$tmpdir/once" &
once=$!
eventually is_connected
strace -f -o "$tmpdir/trace" -e trace=fsync,fdatasync,renameat,renameat2,rename,sendmsg,sendto,write,writev -p "$agent" 2>/dev/null &
tracer=$!
is_traced_or_never() {
	! kill -0 $tracer 2>/dev/null || grep -q '^TracerPid:[[:space:]]*[1-9]' "/proc/$agent/status"
}
eventually is_traced_or_never
if kill -0 $tracer 2>/dev/null; then
	request Terminate '{"grace_ms": 0}' >/dev/null
	wait "$agent"
	wait $tracer
	wait $once
	synced=$(grep -n 'sync(' "$tmpdir/trace" | tail -n 1 | cut -d: -f1)
	replied=$(grep -n '"state.*ended.*result\|"ended' "$tmpdir/trace" | grep -E 'send|writev' | head -n 1 | cut -d: -f1)
	if [ -n "$synced" ] && [ -n "$replied" ]; then
		ok "the result is synced before the first reply has the end" test "$synced" -lt "$replied"
	else
		skip 1 "nothing could be traced"
	fi
else
	skip 1 "strace can't be used"
	kill "$agent"
	wait "$agent"
	wait $once
fi
rm -rf "$run"/*_"$job".0

# ---- clients that wait for a step that can't be started ------------------------------------------
# Its program is not there: that is seen when all have been forked.
python3 - "$run" "$tmpdir/failed" <<'END' &
import glob, socket, sys, time
print("there", file=open(sys.argv[2] + ".there", "w"), flush=True)
deadline = time.monotonic() + 20
while time.monotonic() < deadline:
	for path in glob.glob(sys.argv[1] + "/*/socket"):
		s = socket.socket(socket.AF_UNIX)
		try:
			s.connect(path)
			s.sendall(b'{"method":"io.stepd.Step.Wait"}\0')
			data = b""
			while not data.endswith(b"\0"):
				piece = s.recv(65536)
				if not piece:
					sys.exit(2)
				data += piece
			open(sys.argv[2], "wb").write(data[:-1])
			sys.exit(0)
		except OSError:
			sys.exit(1)
sys.exit(1)
END
waiter=$!
eventually test -s "$tmpdir/failed.there"
timeout 120 "$stepd" run -q --job "$job" --proctrack "$tracker" -n 200 -- /nonexistent/program >/dev/null 2>&1
status=$?
wait $waiter
waited=$?
is $status 127 "a step of 200 tasks without a program gives 127"
if [ $waited = 0 ]; then
	is "$(json_get "$tmpdir/failed" '[p["state"], p["result"]["reason"], p["result"]["exit_code"]]')" \
		'["ended", "exec-failed", 127]' "Wait has the reason why a step was not started"
else
	skip 1 "nobody came in time"
fi

# ---- one who takes nothing -----------------------------------------------------------------------
start_step --proctrack "$tracker" -- sh -c 'echo up; sleep 600'
python3 - "$(socket)" "$tmpdir/stopped" <<'END' &
import socket, sys, time
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.sendall(b'{"method":"io.stepd.Step.Events","more":true,"parameters":{"from":1}}\0')
open(sys.argv[2], "w").write("there\n")
time.sleep(600)
END
stopped=$!
eventually test -s "$tmpdir/stopped"
python3 - "$(socket)" <<'END'
import json, socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
frame = json.dumps({"method": "io.stepd.Step.Notify", "parameters": {"message": "x" * 1000}}).encode() + b"\0"
for i in range(1000):
	s.sendall(frame)
	while not s.recv(4096).endswith(b"\0"):
		pass
END
is "$(reply 'p["last_event"] > 1000' Describe)" true \
	"a step has a thousand events though a follower reads nothing"
rss=$(awk '/^VmRSS/ { print $2 }' "/proc/$agent/status")
most=20000
! grep -q '^#define STEPD_SANITIZERS 1' "$top_builddir/config.h" || most=80000 # they keep what is freed
ok "a follower that reads nothing does not let the agent's memory grow ($rss KiB)" test "$rss" -lt $most
begin=$(now_ms)
kill -TERM "$agent"
wait "$agent"
took=$(($(now_ms) - begin))
kill $stopped
wait $stopped 2>/dev/null
start_step --proctrack "$tracker" -- sh -c 'echo up; sleep 600'
begin=$(now_ms)
kill -TERM "$agent"
wait "$agent"
alone=$(($(now_ms) - begin))
ok "a follower that reads nothing does not delay the step's end ($took ms, and $alone without followers)" \
	no_slower $took $((alone + 100)) # what is under way has a second to go out

# ---- many who follow -----------------------------------------------------------------------------
start_step --proctrack "$tracker" -- sh -c 'echo up; sleep 600'
python3 - "$(socket)" "$agent" <<'END' >"$tmpdir/many"
import json, os, signal, socket, sys
everyone = []
for i in range(200):
	s = socket.socket(socket.AF_UNIX)
	s.connect(sys.argv[1])
	s.sendall(b'{"method":"io.stepd.Step.Events","more":true,"parameters":{"from":1}}\0')
	everyone.append(s)
begun = [s.recv(65536) for s in everyone]
os.kill(int(sys.argv[2]), signal.SIGTERM)
ends = []
for s, data in zip(everyone, begun):
	while True:
		piece = s.recv(65536)
		if not piece:
			break
		data += piece
	answers = [json.loads(x) for x in data.split(b"\0") if x]
	ends.append((answers[-1].get("continues", False), answers[-1]["parameters"]["event"].get("state")))
print(len(ends), set(ends))
END
wait "$agent"
is "$(cat "$tmpdir/many")" "200 {(False, 'ended')}" "two hundred followers get all events"
nothing_left "the job leaves no cgroup, process or file behind"

done_testing
