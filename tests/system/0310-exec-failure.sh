#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What can't be executed is named, with the reason, and ends the step in order.
. "${top_srcdir:?}/tests/lib/step.sh"

out=$(step -- nosuchprogram 2>&1)
is $? 127 "a program that is not in PATH gives 127"
like "$out" "task 0 can't execute 'nosuchprogram' \(looked for in PATH\): No such file or directory" \
	"a program that is not in PATH is named"
out=$(step -- "$tmpdir/none/x" 2>&1)
is $? 127 "a path that does not exist gives 127"
like "$out" "'$tmpdir/none/x': No such file" "a path that does not exist is named"
printf 'no program\n' >"$tmpdir/plain"
out=$(step -- "$tmpdir/plain" 2>&1)
is $? 126 "a file without x bits gives 126"
like "$out" "Permission denied" "a file without x bits is reported as permission denied"
chmod 755 "$tmpdir/plain"
out=$(step -- "$tmpdir/plain" 2>&1)
is $? 126 "a file that is not a program gives 126, and no shell runs it"
like "$out" "Exec format error" "a file that is not a program is reported as a format error"
printf '#!/nonexistent/interpreter\n' >"$tmpdir/plain"
step -q -- "$tmpdir/plain" 2>/dev/null
is $? 127 "a missing interpreter gives 127"
mkdir "$tmpdir/early" "$tmpdir/late"
printf 'x' >"$tmpdir/early/prog" # found first, not executable
printf '#!/bin/sh\necho late\n' >"$tmpdir/late/prog"
chmod 755 "$tmpdir/late/prog"
out=$(PATH="$tmpdir/early:$tmpdir/late:$PATH" step -- prog 2>&1)
is "$out" late "the search of PATH goes on behind a file that can't be executed"

cat >"$tmpdir/mpmd" <<X
0-2 sleep 99
3 nosuchprogram
X
out=$(step -n 4 --result "$tmpdir/r" --multi-prog "$tmpdir/mpmd" 2>&1)
is $? 127 "one task of four that can't be executed ends the step"
is "$(json_get "$tmpdir/r" reason)" exec-failed "the result's reason is exec-failed"
like "$(json_get "$tmpdir/r" '[t["text"] for t in tasks]')" 'never executed \(not found\)' \
	"the result names the task that was never executed"
like "$(json_get "$tmpdir/r" '[t["text"] for t in tasks]')" 'killed by signal 15 \(TERM\), on request' \
	"the other tasks are ended where one can't be executed"

out=$(step --chdir "$tmpdir/nodir" -- true 2>&1)
is $? 126 "a directory that does not exist gives 126"
like "$out" "task 0 can't change to the directory '$tmpdir/nodir': No such file" \
	"a directory that does not exist is named"
out=$(step --rlimit nofile=1000:5 -- true 2>&1)
is $? 125 "a soft limit above the hard one is refused before anything starts"
like "$out" "rlimit" "the refusal of a resource limit names the option"
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
	out=$(setpriv --reuid=65534 --regid=65534 --clear-groups env -u STEPD_RUNTIME_DIR -u XDG_RUNTIME_DIR \
		"$stepd" run --proctrack linuxproc --nice=-5 -- true 2>&1)
	is $? 126 "a nice value that the user may not set gives 126"
	like "$out" "task 0 can't set the nice value: Permission denied" \
		"a nice value that the user may not set is reported"
else
	skip 2 "needs root and setpriv"
fi
nothing_left "the job leaves no cgroup, process or file behind"
done_testing
