#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# stepctl, run by root on directories that another user has made to harm it.
. "${top_srcdir:?}/tests/lib/step.sh"

[ "$(id -u)" = 0 ] || skip_all "needs root, the user to be attacked"

evil=$tmpdir/evil
chmod 755 "$tmpdir"

fresh() { # a directory of step 7.0 in $evil, without anything in it
	rm -rf "$evil"
	mkdir -p "$evil/n1_7.0"
}

hostile() { # VERB ARG...: prints the exit status, which is 124 for a timeout
	chown -hR 65533:65533 "$evil"
	chmod 755 "$evil" "$evil/n1_7.0"
	verb=$1
	shift
	timeout 900 "$stepctl" "$verb" --runtime-dir "$evil" "$@" >"$tmpdir/printed" 2>&1
	echo $?
}

: >"$tmpdir/out"
"$stepd" run -q --job "$job" --proctrack "$tracker" -- sh -c 'echo up; exec sleep 300' >"$tmpdir/out" &
agent=$!
eventually test -s "$tmpdir/out"
real=$(echo "$run"/*_"$job.0")
sed "s/\"job\":$job\\>/\"job\":7/; s/\"node\":\"[^\"]*\"/\"node\":\"n1\"/" "$real/state.json" >"$tmpdir/state"

# ---- a link to another step's socket, behind which root's agent listens --------------------------
fresh
cp "$tmpdir/state" "$evil/n1_7.0/state.json"
ln -s "$real/socket" "$evil/n1_7.0/socket"
is "$(hostile list)" 0 "the step is listed"
like "$(cat "$tmpdir/printed")" "^7\.0 " "the step is listed by its name"
for verb in show terminate; do
	is "$(hostile $verb 7.0)" 8 "$verb: a link is no agent's socket"
	like "$(cat "$tmpdir/printed")" "/n1_7.0/socket' is no socket" "$verb: the message names the socket"
done
ok "the step that the link leads to goes on" kill -0 $agent

# ---- FIFOs, whose reader would block for ever ----------------------------------------------------
for file in state.json result.json lock events.jsonl; do
	fresh
	[ $file = state.json ] || cp "$tmpdir/state" "$evil/n1_7.0/state.json"
	mkfifo "$evil/n1_7.0/$file"
	for verb in list "show 7.0" "events 7.0" "find 1"; do
		# shellcheck disable=SC2086 # words
		isnt "$(hostile $verb)" 124 "$verb: a FIFO named $file does not block it"
	done
done

# ---- a tracker that does not exist ---------------------------------------------------------------
mkdir -m 755 "$run/n1_7.0"
sed 's|"proctrack/[a-z]*"|"proctrack/nosuch"|' "$tmpdir/state" >"$run/n1_7.0/state.json"
chown -R 65533:65533 "$run/n1_7.0"
pid=$("$stepctl" pids "$job.0" | head -n 1)
out=$("$stepctl" find "$pid" 1 2>"$tmpdir/printed")
is $? 7 "find: one step's bad tracker makes its result incomplete"
like "$out" "^$pid step $job\.0 task 0 " "find: the processes of other steps are found"
like "$out" "^1 is in no step that could be asked" "find: a pid in none of them may be of the step with the bad tracker"
like "$(cat "$tmpdir/printed")" "step 7\.0: .*nosuch" "find: the step with the bad tracker is named"
is "$("$stepctl" find --json "$pid" 1 2>/dev/null | python3 -c 'import json, sys
d = json.load(sys.stdin)
print(len(d["processes"]), d["not_found"], [(s["step"], s["error"]["code"]) for s in d["unanswered"]])')" \
	"1 [1] [('7.0', 'not_supported')]" "find --json: the step with the bad tracker is in unanswered"
rm -r "$run/n1_7.0"
is "$("$stepctl" find --json "$pid" | tr -d ' \n' | grep -c '"unanswered":\[\]')" 1 "find --json: without a bad tracker unanswered is empty"

# ---- links to files of another user --------------------------------------------------------------
fresh
cp "$tmpdir/state" "$evil/n1_7.0/state.json"
ln -s "$real/events.jsonl" "$evil/n1_7.0/events.jsonl"
is "$(hostile events 7.0)" 8 "events: a link to another step's events is not followed"
unlike "$(cat "$tmpdir/printed")" task_start "events: nothing of the other step is printed"
fresh
cp "$tmpdir/state" "$evil/state"
hostile list >/dev/null
ln -s ../state "$evil/n1_7.0/state.json" # root's, as one is that root has once made for that user
timeout 900 "$stepctl" suspend --runtime-dir "$evil" 7.0 >"$tmpdir/printed" 2>&1
is "$?" 1 "suspend: a link of root does not give a user root's permission"
is "$("$stepctl" show --json "$job.0" | sed -n 's/.*"state": "\(suspended\|running\)".*/\1/p' | head -n 1)" running \
	"the step still runs after the refused suspension"

ok "the step can be ended under its own name" "$stepctl" terminate "$job.0"
wait $agent
rm -rf "$evil"
done_testing
