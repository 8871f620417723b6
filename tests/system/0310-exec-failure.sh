#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What can't be executed is named, with the reason, and ends the step in order.
. "${top_srcdir:?}/tests/lib/step.sh"

out=$(step -- nosuchprogram 2>&1)
is $? 127 "a program that is not in PATH: 127"
like "$out" "task 0 can't execute 'nosuchprogram' \(looked for in PATH\): No such file or directory" \
	"it is named"
out=$(step -- "$tmpdir/none/x" 2>&1)
is $? 127 "a path that does not exist: 127"
like "$out" "'$tmpdir/none/x': No such file" "it is named"
printf 'no program\n' >"$tmpdir/plain"
out=$(step -- "$tmpdir/plain" 2>&1)
is $? 126 "a file without x bits: 126"
like "$out" "Permission denied" "with the reason"
chmod 755 "$tmpdir/plain"
out=$(step -- "$tmpdir/plain" 2>&1)
is $? 126 "a file that is no program: 126, and no shell guesses"
like "$out" "Exec format error" "with the reason"
printf '#!/nonexistent/interpreter\n' >"$tmpdir/plain"
step -q -- "$tmpdir/plain" 2>/dev/null
is $? 127 "a missing interpreter: 127"
mkdir "$tmpdir/early" "$tmpdir/late"
printf 'x' >"$tmpdir/early/prog" # found first, not executable
printf '#!/bin/sh\necho late\n' >"$tmpdir/late/prog"
chmod 755 "$tmpdir/late/prog"
out=$(PATH="$tmpdir/early:$tmpdir/late:$PATH" step -- prog 2>&1)
is "$out" late "PATH is searched on where a file can't be executed"

cat >"$tmpdir/mpmd" <<X
0-2 sleep 99
3 nosuchprogram
X
out=$(step -n 4 --result "$tmpdir/r" --multi-prog "$tmpdir/mpmd" 2>&1)
is $? 127 "one of four that can't be executed ends the step"
like "$(cat "$tmpdir/r")" '"reason": "exec-failed"' "which says why it ended"
like "$(cat "$tmpdir/r")" '"text": "never executed \(not found\)"' "and which task it was"
like "$(cat "$tmpdir/r")" '"text": "killed by signal 15 \(TERM\), on request"' "the others were ended"

out=$(step --chdir "$tmpdir/nodir" -- true 2>&1)
is $? 126 "a directory that does not exist"
like "$out" "task 0 can't change to the directory '$tmpdir/nodir': No such file" "is named"
out=$(step --rlimit nofile=1000:5 -- true 2>&1)
is $? 125 "a soft limit above the hard one is refused before anything starts"
like "$out" "rlimit" "naming the option"
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
	out=$(setpriv --reuid=65534 --regid=65534 --clear-groups env -u STEPD_RUNTIME_DIR -u XDG_RUNTIME_DIR \
		"$stepd" run --proctrack linuxproc --nice=-5 -- true 2>&1)
	is $? 126 "what a user may not do ends the step"
	like "$out" "task 0 can't set the nice value: Permission denied" "and is named"
else
	skip 2 "needs root and setpriv"
fi
nothing_left "nothing is left"
done_testing
