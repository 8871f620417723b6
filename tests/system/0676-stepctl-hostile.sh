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

start_step --proctrack "$tracker" -- sh -c 'echo up; exec sleep 300'
real=$(step_dir 0)
json_get "$real/state.json" '{**d, "job": 7, "node": "n1"}' >"$tmpdir/state"

# ---- a link to another step's socket, behind which root's agent listens --------------------------
fresh
cp "$tmpdir/state" "$evil/n1_7.0/state.json"
ln -s "$real/socket" "$evil/n1_7.0/socket"
is "$(hostile list)" 0 "list of a hostile directory succeeds"
like "$(cat "$tmpdir/printed")" "^7\.0 " "list of a hostile directory prints the step's name"
for verb in show terminate; do
	is "$(hostile $verb 7.0)" 8 "$verb refuses a link in place of a socket"
	like "$(cat "$tmpdir/printed")" "/n1_7.0/socket' is not a socket" "$verb reports a link in place of a socket"
done
ok "the step that the link leads to goes on" kill -0 $agent

# ---- FIFOs, whose reader would block for ever ----------------------------------------------------
for file in state.json result.json lock events.jsonl; do
	fresh
	[ $file = state.json ] || cp "$tmpdir/state" "$evil/n1_7.0/state.json"
	mkfifo "$evil/n1_7.0/$file"
	for verb in list "show 7.0" "events 7.0" "find 1"; do
		# shellcheck disable=SC2086 # words
		isnt "$(hostile $verb)" 124 "$verb does not wait for a writer of the FIFO $file"
	done
done

# ---- a tracker that does not exist ---------------------------------------------------------------
mkdir -m 755 "$run/n1_7.0"
sed 's|"proctrack/[a-z]*"|"proctrack/nosuch"|' "$tmpdir/state" >"$run/n1_7.0/state.json"
chown -R 65533:65533 "$run/n1_7.0"
pid=$("$stepctl" pids "$job.0" | head -n 1)
out=$("$stepctl" find "$pid" 1 2>"$tmpdir/printed")
is $? 7 "find exits with 7 where one step has an unknown tracker"
like "$out" "^$pid step $job\.0 task 0 " "find finds the processes of other steps beside an unknown tracker"
like "$out" "^1 is in no step that could be searched" \
	"find reports that a pid may be in the step that can't be read"
like "$(cat "$tmpdir/printed")" "step 7\.0: .*nosuch" "find names the step with an unknown tracker"
is "$("$stepctl" find --json "$pid" 1 2>/dev/null |
	json_get - '[len(processes), not_found, [[s["step"], s["error"]["code"]] for s in unanswered]]')" \
	'[1, [1], [["7.0", "not_supported"]]]' "find --json names the step with an unknown tracker"
rm -r "$run/n1_7.0"
is "$("$stepctl" find --json "$pid" | json_get - unanswered)" "[]" \
	"find --json names no step once all can be read"

# ---- links to files of another user --------------------------------------------------------------
fresh
cp "$tmpdir/state" "$evil/n1_7.0/state.json"
ln -s "$real/events.jsonl" "$evil/n1_7.0/events.jsonl"
is "$(hostile events 7.0)" 8 "events refuses a link to another step's events"
unlike "$(cat "$tmpdir/printed")" task_start "events prints nothing of another step's events"
fresh
cp "$tmpdir/state" "$evil/state"
hostile list >/dev/null
ln -s ../state "$evil/n1_7.0/state.json" # root's, as one is that root has once made for that user
timeout 900 "$stepctl" suspend --runtime-dir "$evil" 7.0 >"$tmpdir/printed" 2>&1
is "$?" 1 "suspend refuses a link of root's to another user's state.json"
is "$("$stepctl" show --json "$job.0" | json_get - 'steps[0]["state"]')" running \
	"a refused suspend by a link changes nothing"

ok "the step can be ended under its own name" "$stepctl" terminate "$job.0"
wait $agent
rm -rf "$evil"
done_testing
