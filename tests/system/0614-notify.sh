#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Notify: a line into the step's standard error, wherever that is.
# shellcheck disable=SC2016,SC2317 # what stands in single quotes is for eval, Python and the tasks
. "${top_srcdir:?}/tests/lib/control.sh"

notify='{"message": "maintenance at 18:00"}'
line="stepd $job.0: maintenance at 18:00"

finish() {
	request Terminate '{"grace_ms": 0}' >/dev/null
	wait "$agent"
}

# ---- the agent's own -----------------------------------------------------------------------------
start_step --proctrack "$tracker" -- sh -c 'echo up; sleep 600'
is "$(request Notify "$notify")" '{"parameters":{}}' "Notify with a message is accepted"
is "$(cat "$tmpdir/err")" "$line" "the message of Notify is written to the agent's standard error"
: >"$tmpdir/err"
request Notify '{"message": "a\u001b[2Jb\nstepd: forged\u007f \u00e4"}' >/dev/null
is "$(cat "$tmpdir/err")" "stepd $job.0: a\\x1b[2Jb\\x0astepd: forged\\x7f ä" \
	"the message of Notify is written with control characters escaped"
: >"$tmpdir/err"
request Notify "{\"message\": \"$(printf '%01000d' 1)\"}" >/dev/null
is "$(tail -c 3 "$tmpdir/err")" "01" "a message of a thousand bytes is written"
is "$(refused Notify "{\"message\": \"$(printf '%01001d' 1)\"}")" 'InvalidParameter {"parameter": "message"}' \
	"a message of 1001 bytes is refused"
is "$(refused Notify '{"message": ""}')" 'InvalidParameter {"parameter": "message"}' \
	"an empty message is refused"
finish

# ---- files ---------------------------------------------------------------------------------------
mkfifo "$tmpdir/go2"
start_step --proctrack "$tracker" --error "$tmpdir/e" -n 2 -- sh -c 'echo one >&2; echo up; cat "$0" >/dev/null; echo two >&2; sleep 600' "$tmpdir/go2"
eventually eval '[ "$(grep -c up "$tmpdir/out")" = 2 ]'
is "$(request Notify "$notify")" '{"parameters":{}}' \
	"Notify is accepted where the tasks share a file for stderr"
mv "$tmpdir/e" "$tmpdir/e.moved"
ln -s /etc/stepd-test-forbidden "$tmpdir/e"
request Notify "$notify" >/dev/null
echo >"$tmpdir/go2"
eventually eval '[ "$(grep -c two "$tmpdir/e.moved")" = 2 ]'
is "$(sort "$tmpdir/e.moved" | tr '\n' ' ')" "one one $line $line two two " \
	"messages go to the tasks' shared file after it was renamed"
ok "a link in place of the tasks' shared file is not followed" test ! -e /etc/stepd-test-forbidden
rm "$tmpdir/e"
finish

start_step --proctrack "$tracker" --label -n 2 -- sh -c 'echo up; sleep 600'
request Notify "$notify" >/dev/null
is "$(cat "$tmpdir/err")" "$line" "the message among labelled lines is a line of its own"
finish
start_step --proctrack "$tracker" --label --error "$tmpdir/labelled" -- sh -c 'echo up; printf half >&2; sleep 600'
request Notify "$notify" >/dev/null
is "$(cat "$tmpdir/labelled")" "$line" "the message in a file of labelled lines is a line of its own"
finish

# ---- none ----------------------------------------------------------------------------------------
while IFS='|' read -r options text; do
	# shellcheck disable=SC2086 # options are words
	start_step --proctrack "$tracker" $options -- sh -c 'echo up; sleep 600'
	is "$(refused Notify "$notify")" "NotSupported {\"message\": \"$text\"}" "Notify is refused with $options"
	finish
done <<END
--error none|the step's standard error is /dev/null
--error $tmpdir/e.%t|the step has no standard error of its own: each task has a file
END

"$stepd" run -q --job "$job" --proctrack "$tracker" --extern 2>"$tmpdir/err" &
agent=$!
eventually running extern
is "$(varlink call "$(step_dir extern)/socket" Notify "$notify" | json_get - 'p["message"]')" \
	"the step has no standard error: it has no tasks" "Notify to an extern step is refused"
kill $agent
wait $agent
nothing_left "the job leaves no cgroup, process or file behind"

done_testing
