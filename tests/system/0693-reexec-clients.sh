#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Who is connected to a step, asks, waits and follows does not notice that its agent is upgraded.
. "${top_srcdir:?}/tests/lib/reexec.sh"

[ -x "$next" ] || skip_all "no second program (make check builds it)"
command -v python3 >/dev/null || skip_all "needs python3"
clients=${top_srcdir:?}/tests/lib/reexec_clients.py
varlink() {
	"$top_srcdir/tests/lib/varlink.py" "$@"
}
sock() {
	echo "$run"/*_"$job.0"/socket
}
words() { # NAME: what stands behind that word
	sed -n "s/^$1 //p" "$tmpdir/storm"
}

times=$(rounds 10 100)
agent --proctrack "$tracker" -n 2 -- python3 "$clients" count
eventually test "$(wc -l <"$tmpdir/out")" -ge 2
put "$next"
timeout 1200 python3 "$clients" storm "$(sock)" "$times" >"$tmpdir/storm" 2>&1
ended 0 "a step whose agent is upgraded $times times in a row, while clients storm it"
diag "$(cat "$tmpdir/storm")"
is "$(words versions)" 99.1 "each of the $times calls is answered by the new program"
is "$(upgrades)" "$times" "there were so many"
is "$(words wrong)" "" "no call failed and no connection ended"
ok "signals were sent meanwhile" test "$(words signals)" -gt 20
is "$(sed -n 's/counted //p' "$tmpdir/out" | sort -n | tail -n 1)" "$(words signals)" \
	"each signal that was acknowledged arrived once"
is "$(words wait)" ended "who waits is told the end"
is "$(words followers)" "20 of 20" "20 followers have each event once, in its order, to the last"
is "$(words events)" "all the same" "the same ones"

# All kinds of calls in one go, over one upgrade.
agent --proctrack "$tracker" -n 2 --suspend-timeout 5s -- sh -c "$until_gone"
varlink call "$(sock)" Wait >"$tmpdir/wait" &
varlink more "$(sock)" Wait >"$tmpdir/states" &
varlink more "$(sock)" Usage '{"interval_ms":100}' >"$tmpdir/usage" &
varlink more "$(sock)" Events '{"from":0}' >"$tmpdir/events" &
eventually test -s "$tmpdir/events" -a -s "$tmpdir/usage" -a -s "$tmpdir/states"
put "$next"
is "$(varlink call "$(sock)" Reexec)" '{"parameters":{"version":"99.1"}}' "Reexec answers with the new version"
like "$(varlink call "$(sock)" Describe)" '"version":"99.1"' "which Describe has from then on"
put /bin/false
like "$(varlink call "$(sock)" Reexec)" '"io.stepd.Step.Failed".*it ended with status 1' \
	"and with the reason where it fails"
varlink --uid 65534 call "$(sock)" Reexec >"$tmpdir/denied" 2>&1
[ "$(id -u)" = 0 ] && like "$(cat "$tmpdir/denied")" PermissionDenied "others may not ask for it"
usages() {
	[ "$(grep -c . "$tmpdir/usage")" -ge "$1" ]
}
before=$(grep -c . "$tmpdir/usage")
eventually usages $((before + 3))
rm -f "$tmpdir/stay"
ended 0 "the step ends"
for file in wait states events usage; do # their clients have a last answer to write
	eventually grep -q '^{"parameters"' "$tmpdir/$file"
done
like "$(cat "$tmpdir/wait")" '"state":"ended","result"' "Wait over the upgrade"
is "$(sed -n 's/.*"parameters":{"state":"\([a-z]*\)".*/\1/p' "$tmpdir/states" | tr '\n' ' ')" "running draining ended " \
	"with more: each state once"
is "$(sed -n 's/.*"sequence":\([0-9]*\),.*/\1/p' "$tmpdir/events" | tr '\n' ' ')" \
	"$(seq 1 "$(wc -l <"$tmpdir/events")" | tr '\n' ' ')" "no event is missing or comes twice"
like "$(cat "$tmpdir/events")" '"kind":"reexec","text":"99.1 in the place of ' "one of them tells of the upgrade"
ok "Usage goes on in its interval" usages $((before + 3))

# Another way to end than the step's own is remembered.
agent --proctrack "$tracker" -n 1 -- sh -c 'trap "" TERM; while :; do sleep 0.1; done'
begin=$(date +%s%N)
varlink call "$(sock)" Terminate '{"grace_ms":1000}' >/dev/null
upgrade
ended 143 "an escalation by a sequence of the caller's goes on"
took=$((($(date +%s%N) - begin) / 1000000))
ok "when it would have (after $took ms)" test "$took" -ge 1000

# An answer of many pieces, read late: made before the change, or refused in words.
agent --proctrack "$tracker" -n 2 -- sh -c 'i=0; while [ $i -lt 20 ]; do sleep 600 & i=$((i+1)); done; wait'
eventually test "$("$stepctl" pids "$job.0" | wc -l)" -eq 42
python3 "$clients" slow "$(sock)" >"$tmpdir/slow" &
slow=$!
upgrade
wait $slow
is "$(cat "$tmpdir/slow")" "pids 42 42" "a slow reader of a long answer has all of it"
ok "the socket answers the new program" varlink call "$(sock)" Describe
kill -TERM "$agent"
ended 143 "and the step ends"
nothing_left "nothing is left"
done_testing
