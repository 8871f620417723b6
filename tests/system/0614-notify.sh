#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Notify: a line into the step's standard error, wherever that is.
# shellcheck disable=SC2016,SC2317 # what stands in single quotes is for eval, Python and the tasks
. "${top_srcdir:?}/tests/lib/control.sh"

notify='{"message": "maintenance at 18:00"}'
line="stepd $job.0: maintenance at 18:00"

finish() {
	ask Terminate '{"grace_ms": 0}' >/dev/null
	wait "$agent"
}

# ---- the agent's own -----------------------------------------------------------------------------
agent --proctrack "$tracker" -- sh -c 'echo up; sleep 600'
is "$(ask Notify "$notify")" '{"parameters":{}}' "a message is taken"
is "$(cat "$tmpdir/err")" "$line" "and written to the standard error that the agent has"
: >"$tmpdir/err"
ask Notify '{"message": "a\u001b[2Jb\nstepd: forged\u007f \u00e4"}' >/dev/null
is "$(cat "$tmpdir/err")" "stepd $job.0: a\\x1b[2Jb\\x0astepd: forged\\x7f ä" "what would disturb a terminal is shown"
: >"$tmpdir/err"
ask Notify "{\"message\": \"$(printf '%01000d' 1)\"}" >/dev/null
is "$(tail -c 3 "$tmpdir/err")" "01" "a thousand bytes are a line"
is "$(refused Notify "{\"message\": \"$(printf '%01001d' 1)\"}")" 'InvalidParameter {"parameter": "message"}' "more are refused"
is "$(refused Notify '{"message": ""}')" 'InvalidParameter {"parameter": "message"}' "and none"
finish

# ---- files ---------------------------------------------------------------------------------------
mkfifo "$tmpdir/go2"
agent --proctrack "$tracker" --error "$tmpdir/e" -n 2 -- sh -c 'echo one >&2; echo up; cat "$0" >/dev/null; echo two >&2; sleep 600' "$tmpdir/go2"
eventually eval '[ "$(grep -c up "$tmpdir/out")" = 2 ]'
is "$(ask Notify "$notify")" '{"parameters":{}}' "a file that the tasks share takes it"
mv "$tmpdir/e" "$tmpdir/e.moved"
ln -s /etc/stepd-test-forbidden "$tmpdir/e"
ask Notify "$notify" >/dev/null
echo >"$tmpdir/go2"
eventually eval '[ "$(grep -c two "$tmpdir/e.moved")" = 2 ]'
is "$(sort "$tmpdir/e.moved" | tr '\n' ' ')" "one one $line $line two two " "also when another has its name, and the tasks write on"
ok "which is not followed" test ! -e /etc/stepd-test-forbidden
rm "$tmpdir/e"
finish

agent --proctrack "$tracker" --label -n 2 -- sh -c 'echo up; sleep 600'
ask Notify "$notify" >/dev/null
is "$(cat "$tmpdir/err")" "$line" "among labelled lines it is one of its own"
finish
agent --proctrack "$tracker" --label --error "$tmpdir/labelled" -- sh -c 'echo up; printf half >&2; sleep 600'
ask Notify "$notify" >/dev/null
is "$(cat "$tmpdir/labelled")" "$line" "in a file of labelled lines, too"
finish

# ---- none ----------------------------------------------------------------------------------------
while IFS='|' read -r options text; do
	# shellcheck disable=SC2086 # options are words
	agent --proctrack "$tracker" $options -- sh -c 'echo up; sleep 600'
	is "$(refused Notify "$notify")" "NotSupported {\"message\": \"$text\"}" "with $options there is none"
	finish
done <<END
--error none|the step's standard error is /dev/null
--error $tmpdir/e.%t|the step has no standard error of its own: each task has a file
END

"$stepd" run -q --job "$job" --proctrack "$tracker" --extern 2>"$tmpdir/err" &
agent=$!
eventually running extern
is "$(python3 "$varlink" call "$run"/*_"$job".extern/socket Notify "$notify" | field 'p["message"]')" \
	"the step has no standard error: it has no tasks" "an extern step has none"
kill $agent
wait $agent
nothing_left "nothing is left"

done_testing
