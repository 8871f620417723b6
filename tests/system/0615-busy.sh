#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A step answers whatever it is about: while its many tasks are made (a thousand with --all), while a suspension hangs,
# while it is being ended, and with thousands of processes to list.
# shellcheck disable=SC2016,SC2317 # what stands in single quotes is for eval, Python and the tasks
. "${top_srcdir:?}/tests/lib/control.sh"

hostile=${top_builddir:?}/tests/lib/hostile
many=$(rounds 250 1000)

# call_often UNTIL: calls on one connection after the other until UNTIL, of the last Describe as d, holds;
# prints how often, and in which states.
cat >"$tmpdir/call_often.py" <<'END'
import glob, json, socket, sys, time
pattern, until, there = sys.argv[1:]
open(there, "w").write("there\n")
deadline = time.monotonic() + 300
while True:
	assert time.monotonic() < deadline
	try:
		s = socket.socket(socket.AF_UNIX)
		s.connect(glob.glob(pattern)[0])
		break
	except (IndexError, OSError):
		pass
s.settimeout(300)

def call(method, **parameters):
	s.sendall(json.dumps({"method": "io.stepd.Step." + method, "parameters": parameters}).encode() + b"\0")
	data = b""
	while not data.endswith(b"\0"):
		piece = s.recv(1 << 20)
		if not piece:
			sys.exit("closed")
		data += piece
	return json.loads(data[:-1])["parameters"]

states, n = {}, 0
d = {"state": None}
while not eval(until):
	d = call("Describe")
	call("ListTasks", ranks="0")
	call("FindPid", pid=1)
	states[d["state"]] = states.get(d["state"], 0) + 1
	n += 1
print(json.dumps({"n": n, "states": states}))
END

call_often() { # UNTIL
	timeout 300 python3 "$tmpdir/call_often.py" "$run/*_$job.0/socket" "$1" "$tmpdir/there"
}

answers_in() { # STATE: how often
	json_get "$tmpdir/counts" "states.get('$1', 0)"
}

# ---- a launch ------------------------------------------------------------------------------------
# By the launcher, and by a copy of the agent for each (as it carries their output).
for how in --no-label --label; do
	[ $how = --label ] || how=
	for b in $(backends); do
		# On a busy machine the client may have had no turn of its own meanwhile.
		for try in 1 2 3 4 5 6 7 8; do
			rm -f "$tmpdir/there"
			call_often 'd["state"] not in (None, "starting")' >"$tmpdir/counts" 2>"$tmpdir/call_often.err" &
			client_pid=$!
			eventually test -s "$tmpdir/there"
			# shellcheck disable=SC2086 # $how is a word, or none
			"$stepd" run -q --job "$job" --proctrack "$b" $how -n "$many" -- sleep 600 >/dev/null 2>"$tmpdir/err" &
			agent=$!
			wait $client_pid
			if [ "$try" = 8 ] || [ "$(answers_in starting)" != 0 ]; then break; fi
			request Signal '{"signal": "KILL"}' >/dev/null
			wait $agent
		done
		ok "$b $how: a step answers while it starts $many tasks ($(answers_in starting) times)" \
			test "$(answers_in starting)" -ge 1
		is "$(answers_in running)" 1 "$b $how: a step answers once its tasks run"
		is "$(reply 'len(p["tasks"])' ListTasks)" "$many" "$b $how: the step has all its tasks"
		request Signal '{"signal": "KILL"}' >/dev/null
		wait $agent
	done
done

# What acts on the step waits for its tasks.
rm -f "$tmpdir/there"
python3 - "$run/*_$job.0/socket" "$tmpdir/there" <<'END' >"$tmpdir/waited" &
import glob, socket, sys, time
open(sys.argv[2], "w").write("there\n")
deadline = time.monotonic() + 300
while time.monotonic() < deadline:
	try:
		s = socket.socket(socket.AF_UNIX)
		s.connect(glob.glob(sys.argv[1])[0])
		break
	except (IndexError, OSError):
		pass
s.sendall(b'{"method":"io.stepd.Step.Signal","parameters":{"signal":"TERM"}}\0')
print(s.recv(1000))
END
waiter=$!
eventually test -s "$tmpdir/there"
timeout 300 "$stepd" run -q --job "$job" --proctrack "$tracker" -n "$many" -- sleep 600 2>/dev/null
is $? 143 "a signal that is requested during the launch reaches the tasks"
wait $waiter
is "$(cat "$tmpdir/waited")" "b'{\"parameters\":{}}\\x00'" \
	"the request of a signal during the launch is answered"

# ---- an ending -----------------------------------------------------------------------------------
start_step --proctrack "$tracker" -n 2 -- sh -c 'trap "" TERM; echo up; while :; do sleep 0.1; done'
call_often 'states.get("ending", 0) > 100' >"$tmpdir/counts" &
client_pid=$!
request Terminate '{"kill_sequence": "TERM:600s,KILL"}' >/dev/null
wait $client_pid
ok "a step that is being ended answers" test "$(answers_in ending)" -gt 1
request Terminate '{"kill_sequence": "KILL"}' >/dev/null
wait "$agent"

# ---- a suspension that hangs ---------------------------------------------------------------------
hangs() {
	# shellcheck disable=SC2046 # pids
	hanging $(tree "$agent")
}
freezes() {
	[ "$(cat "$(find /sys/fs/cgroup -type d -path "*job_$job/step_0" | head -n 1)/cgroup.freeze")" = 1 ]
}

if [ -x "$hostile" ] && backends | grep -qx cgroup; then
	# Longer than any machine is busy.
	start_step --proctrack cgroup --suspend-timeout 600s -n 2 -- \
		sh -c 'echo up; [ $SLURM_PROCID = 0 ] || exec "$0" hang; while :; do sleep 0.02; done' "$hostile"
	eventually hangs
	request Suspend >"$tmpdir/s1" &
	s1=$!
	eventually freezes
	call_often 'n > 300' >"$tmpdir/counts"
	is "$(cat "$tmpdir/s1")" "" "cgroup: a step answers while a suspension of it hangs"
	is "$(request Resume)" '{"parameters":{}}' "cgroup: Resume cancels a suspension that is under way"
	wait $s1
	is "$(json_get "$tmpdir/s1" 'p["message"]')" "the step was resumed meanwhile" \
		"cgroup: the request of a cancelled suspension fails with the reason"
	request Suspend >"$tmpdir/s1" &
	s1=$!
	eventually freezes
	request Signal '{"signal": "KILL"}' >/dev/null
	wait "$agent"
	wait $s1
	like "$(json_get "$tmpdir/s1" error)" "SuspendFailed" \
		"cgroup: Signal KILL ends a suspension that is under way"

	start_step --proctrack cgroup --suspend-timeout 4s -n 2 -- \
		sh -c 'echo up; [ $SLURM_PROCID = 0 ] || exec "$0" hang; while :; do sleep 0.02; done' "$hostile"
	eventually hangs
	request Suspend >"$tmpdir/s1" &
	s1=$!
	request Suspend >"$tmpdir/s2" &
	s2=$!
	wait $s1
	wait $s2
	like "$(json_get "$tmpdir/s1" 'error + " " + p["message"]')" \
		"^io\.stepd\.Step\.SuspendFailed .*still running after 4 s: pid [0-9]+ \(hostile\)" "cgroup: a hanging suspension fails with the name of the process"
	is "$(cat "$tmpdir/s2")" "$(cat "$tmpdir/s1")" \
		"cgroup: all requests of a hanging suspension get the same error"
	request Signal '{"signal": "KILL"}' >/dev/null
	wait "$agent"
else
	skip 6 "needs proctrack/cgroup and cmocka"
fi

# ---- thousands of processes ----------------------------------------------------------------------
start_step --proctrack "$tracker" -- python3 -c '
import os, signal, sys
for i in range(4200):
	if os.fork() == 0:
		signal.pause()
print("up", flush=True)
signal.pause()'
is "$(request ListPids | json_get - error)" org.varlink.service.ExpectedMore \
	"ListPids of more than 4096 pids needs more"
follow ListPids >"$tmpdir/pieces"
is "$(json_get "$tmpdir/pieces" '[[len(a["parameters"]["pids"]), a.get("continues", False)] for a in docs]')" \
	"[[4096, true], [105, false]]" "ListPids with more sends pieces of 4096 pids"
is "$(json_get "$tmpdir/pieces" '"\n".join(str(x["pid"]) for a in docs for x in a["parameters"]["pids"])' | sort | md5sum)" "$(tree "$(reply 'p["tasks"][0]["pid"]' ListTasks)" | sort | md5sum)" \
	"the pieces of ListPids have all processes"
(
	until [ -e "$tmpdir/enough" ]; do follow ListPids >/dev/null; done
) &
lister=$!
call_often 'n > 200' >"$tmpdir/counts"
: >"$tmpdir/enough"
wait $lister
ok "a step answers while another client lists thousands of processes" test -s "$tmpdir/counts"
request Signal '{"signal": "KILL"}' >/dev/null
wait "$agent"
nothing_left "the job leaves no cgroup, process or file behind"

done_testing
