#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Where the ready line, the result and the trace go, however odd the place.
. "${top_srcdir:?}/tests/lib/step.sh"
cd "$tmpdir" || exit

# ---- files --------------------------------------------------------------------------------------
if mknod null c 1 3 2>/dev/null && : >null; then
	mknod full c 1 7
	ok "the result may go to a device" step --result "$tmpdir/null" --trace "$tmpdir/null" -- true
	ok "which stays one" test -c null
	out=$(step --result "$tmpdir/full" -- true 2>&1)
	is $? 0 "a full device does not change the status"
	like "$out" "write the result '$tmpdir/full': No space left" "but is named"
	ok "and stays one" test -c full
else
	skip 5 "devices can't be made here"
fi
# Not /dev/stdout: should this fail, root would have lost that link.
out=$(step --result /proc/self/fd/1 -- echo before)
like "$out" '"reason": "completed"' "a link of /proc is written to"
like "$out" "^before" "behind what the tasks wrote"
mkfifo fifo
cat fifo >from-fifo &
ok "the result may go to a FIFO" step --result fifo -- true
wait $!
like "$(cat from-fifo)" '"reason": "completed"' "and comes out of it"
ok "which stays one" test -p fifo

mkdir dir
for option in result trace; do
	out=$(step --$option dir -- touch started 2>&1)
	is $? 125 "--$option with a directory is refused"
	like "$out" "--$option: 'dir' can't be written: Is a directory" "by its name"
	out=$(step --$option nodir/file -- touch started 2>&1)
	is $? 125 "--$option in no directory is refused"
	like "$out" "--$option: 'nodir/file' can't be written: No such file" "by its name"
done
ok "all of it before a task has started" test ! -e started

name=$(printf '/nonexistent/\377x')
step --output "$name" --result r -- true 2>/dev/null
like "$(cat r)" '"error": "standard output: open ./nonexistent/\\\\xffx' "a name that is no UTF-8 is no obstacle"

# ---- descriptors --------------------------------------------------------------------------------
cat >spec <<X
{"job": $job, "argv": ["sleep", "60"], "time_limit_ms": 300, 
 "env": {"PATH": "$PATH", "STEPD_TEST_JOB": "$job"}}
X
mkfifo ready
exec 8<>ready
dd if=/dev/zero of=ready bs=65536 count=1 2>/dev/null
timeout 900 "$stepd" serve --spec spec --ready-fd 8 2>err
is $? 124 "a full ready pipe does not keep the agent from its work"
like "$(cat err)" "nobody reads the ready line" "and is named"
nothing_left "nothing is left"
exec 8>&-

sed 's/"argv".*"time_limit_ms"/"stdin": "all", "argv": ["cat"], "time_limit_ms"/' spec >spec.cat
out=$(timeout 900 "$stepd" serve --spec-fd 0 --ready-fd 1 <spec.cat)
is $? 0 "the standard streams may bring the spec and take the ready line"
like "$out" '^\{"step":' "the line comes"
out=$(timeout 900 "$stepd" serve --spec-fd 7 --ready-fd 7 7<>spec.cat 2>&1)
is $? 125 "one descriptor can't be both"
like "$out" "7 can't be both" "and that is said"

step --result /dev/fd/9 -- true 9>given
is $? 0 "the result may go to a descriptor of the caller's"
like "$(cat given)" '"exit_code": 0' "the result is written to the descriptor that the caller has named"
step --result /dev/fd/9 -- true 9>&- 2>err
is $? 125 "a result for a descriptor that the caller has not opened is refused"

for command in list plugins --help; do
	"$stepd" $command >/dev/full 2>err
	is $? 125 "'stepd $command' fails where its output is lost"
done
nothing_left "nothing is left"
done_testing
