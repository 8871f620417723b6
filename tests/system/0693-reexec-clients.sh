#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A client that is connected to a step, calls, waits and follows does not notice that its agent is upgraded.
. "${top_srcdir:?}/tests/lib/reexec.sh"

[ -x "$next" ] || skip_all "no second program (make check builds it)"
command -v python3 >/dev/null || skip_all "needs python3"
clients=${top_srcdir:?}/tests/lib/reexec_clients.py
sock() {
	echo "$(step_dir 0)/socket"
}
value_of() { # NAME: the rest of the line that begins with NAME
	sed -n "s/^$1 //p" "$tmpdir/storm"
}

times=$(rounds 10 100)
start_step --proctrack "$tracker" -n 2 -- python3 "$clients" count
eventually has_lines "$tmpdir/out" 2
put "$next"
timeout 1200 python3 "$clients" storm "$(sock)" "$times" >"$tmpdir/storm" 2>&1
ended 0 "a step whose agent is upgraded $times times in a row, while clients storm it, succeeds"
diag "$(cat "$tmpdir/storm")"
is "$(value_of versions)" 99.1 "each of the $times calls is answered by the new program"
is "$(upgrades)" "$times" "the agent was upgraded $times times"
is "$(value_of wrong)" "" "no call fails and no connection ends over upgrades"
ok "clients send signals while the agent is upgraded" test "$(value_of signals)" -gt 20
is "$(sed -n 's/counted //p' "$tmpdir/out" | sort -n | tail -n 1)" "$(value_of signals)" \
	"each signal that was acknowledged arrived once"
is "$(value_of wait)" ended "Wait has the end of a step that was upgraded"
is "$(value_of followers)" "20 of 20" "20 followers have each event once, in its order, to the last"
is "$(value_of events)" "all the same" "all followers get the same events over upgrades"

# All kinds of calls in one go, over one upgrade.
start_step --proctrack "$tracker" -n 2 --suspend-timeout 60s -- sh -c "$until_gone"
varlink call "$(sock)" Wait >"$tmpdir/wait" &
varlink more "$(sock)" Wait >"$tmpdir/states" &
varlink more "$(sock)" Usage '{"interval_ms":100}' >"$tmpdir/usage" &
varlink more "$(sock)" Events '{"from":0}' >"$tmpdir/events" &
eventually test -s "$tmpdir/events" -a -s "$tmpdir/usage" -a -s "$tmpdir/states"
put "$next"
is "$(varlink call "$(sock)" Reexec)" '{"parameters":{"version":"99.1"}}' "Reexec answers with the new version"
is "$(varlink call "$(sock)" Describe | json_get - 'p["version"]')" 99.1 \
	"Describe has the new version after Reexec"
put /bin/false
like "$(varlink call "$(sock)" Reexec | json_get - 'error + " " + p["message"]')" \
	'^io.stepd.Step.Failed .*it ended with status 1' "Reexec fails with the reason"
varlink --uid 65534 call "$(sock)" Reexec >"$tmpdir/denied" 2>&1
[ "$(id -u)" = 0 ] && like "$(cat "$tmpdir/denied")" PermissionDenied "Reexec of another user is refused"
usages() {
	[ "$(grep -c . "$tmpdir/usage")" -ge "$1" ]
}
before=$(grep -c . "$tmpdir/usage")
eventually usages $((before + 3))
rm -f "$tmpdir/stay"
ended 0 "a step with clients of all kinds succeeds over an upgrade"
for file in wait states events usage; do # their clients have a last answer to write
	eventually grep -q '^{"parameters"' "$tmpdir/$file"
done
is "$(json_get "$tmpdir/wait" '[p["state"], "result" in p]')" '["ended", true]' \
	"Wait has the result over an upgrade"
is "$(json_get "$tmpdir/states" '" ".join(a["parameters"]["state"] for a in docs)')" "running draining ended" \
	"Wait with more has each state once over an upgrade"
is "$(json_get "$tmpdir/events" '[a["parameters"]["event"]["sequence"] for a in docs] == list(range(1, len(docs) + 1))')" \
	true "Events have each event once over an upgrade"
like "$(json_get "$tmpdir/events" '[e["text"] for e in (a["parameters"]["event"] for a in docs) if e["kind"] == "reexec"][0]')" \
	'^99.1 replaces ' "Events have the upgrade"
ok "Usage sends replies every interval over an upgrade" usages $((before + 3))

# Another way to end than the step's own is remembered. Where the step has ended before the upgrade, it
# gets a longer grace time.
grace_ms=1000
while :; do
	start_step --proctrack "$tracker" -n 1 -- sh -c 'trap "" TERM; while :; do sleep 0.1; done'
	begin=$(date +%s%N)
	varlink call "$(sock)" Terminate "{\"grace_ms\":$grace_ms}" >/dev/null
	put "$next"
	request_upgrade 2>/dev/null
	eventually upgraded_or_ended 0
	! upgraded_more_than 0 || break
	wait "$agent"
	grace_ms=$((grace_ms * 4))
done
ended 143 "a kill sequence of Terminate goes on over an upgrade"
took=$((($(date +%s%N) - begin) / 1000000))
ok "a kill sequence of Terminate keeps its times over an upgrade ($took ms with a grace time of $grace_ms ms)" \
	test "$took" -ge "$grace_ms"

# An answer of many pieces, read late: made before the change, or refused with a message.
start_step --proctrack "$tracker" -n 2 -- sh -c 'i=0; while [ $i -lt 20 ]; do sleep 600 & i=$((i+1)); done; wait'
has_pids() {
	[ "$("$stepctl" pids "$job.0" | wc -l)" -eq "$1" ]
}
eventually has_pids 42
python3 "$clients" slow "$(sock)" >"$tmpdir/slow" &
slow=$!
upgrade
wait $slow
is "$(cat "$tmpdir/slow")" "pids 42 42" "a slow reader gets all of a long reply over an upgrade"
ok "the new program answers at the socket" varlink call "$(sock)" Describe
kill -TERM "$agent"
ended 143 "a step with a slow reader ends by SIGTERM over an upgrade"
nothing_left "the job leaves no cgroup, process or file behind"
done_testing
