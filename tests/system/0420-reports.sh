#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Where the ready line, the result and the trace go, however odd the place.
. "${top_srcdir:?}/tests/lib/step.sh"
cd "$tmpdir" || exit

# ---- files --------------------------------------------------------------------------------------
if mknod null c 1 3 2>/dev/null && : >null; then
	mknod full c 1 7
	ok "the result may go to a device" step --result "$tmpdir/null" --trace "$tmpdir/null" -- true
	ok "a device for the result stays a device" test -c null
	out=$(step --result "$tmpdir/full" -- true 2>&1)
	is $? 0 "a full device does not change the status"
	like "$out" "write the result '$tmpdir/full': No space left" "a full device for the result is named"
	ok "a full device for the result stays a device" test -c full
else
	skip 5 "devices can't be made here"
fi
# Not /dev/stdout: should this fail, root would have lost that link.
out=$(step --result /proc/self/fd/1 -- echo before)
is "$(printf '%s\n' "$out" | sed 1d | json_get - reason)" completed \
	"the result is written through a link of /proc"
is "$(printf '%s\n' "$out" | head -n 1)" before "the result comes after the tasks' output"
mkfifo fifo
cat fifo >from-fifo &
ok "the result may go to a FIFO" step --result fifo -- true
wait $!
is "$(json_get from-fifo reason)" completed "the reader of a FIFO gets the result"
ok "a FIFO for the result stays a FIFO" test -p fifo

mkdir dir
for option in result trace; do
	out=$(step --$option dir -- touch started 2>&1)
	is $? 125 "--$option with a directory is refused"
	like "$out" "--$option: 'dir' can't be written: Is a directory" \
		"the refusal of a directory for --$option names it"
	out=$(step --$option nodir/file -- touch started 2>&1)
	is $? 125 "--$option in no directory is refused"
	like "$out" "--$option: 'nodir/file' can't be written: No such file" \
		"the refusal of --$option in no directory names the file"
done
ok "a result or trace that can't be written is refused before a task starts" test ! -e started

name=$(printf '/nonexistent/\377x')
step --output "$name" --result r -- true 2>/dev/null
like "$(json_get r error)" 'standard output: open ./nonexistent/\\xffx' \
	"the result has an error with a name that is not UTF-8"

# ---- descriptors --------------------------------------------------------------------------------
cat >spec <<X
{"job": $job, "argv": ["sleep", "60"], "time_limit_ms": 300, 
 "env": {"PATH": "$PATH", "STEPD_TEST_JOB": "$job"}}
X
mkfifo ready
exec 8<>ready
dd if=/dev/zero of=ready bs=65536 count=1 2>/dev/null
timeout 900 "$stepd" serve --spec spec --ready-fd 8 2>err
is $? 124 "a full ready pipe does not stop the agent"
like "$(cat err)" "nobody reads the ready line" "a full ready pipe is reported"
nothing_left "a step with a full ready pipe leaves no cgroup, process or file behind"
exec 8>&-

sed 's/"argv".*"time_limit_ms": 300/"stdin": "all", "argv": ["cat"]/' spec >spec.cat
out=$(timeout 900 "$stepd" serve --spec-fd 0 --ready-fd 1 <spec.cat)
is $? 0 "the standard streams may bring the spec and take the ready line"
like "$out" '^\{"step":' "the ready line comes by standard output"
out=$(timeout 900 "$stepd" serve --spec-fd 7 --ready-fd 7 7<>spec.cat 2>&1)
is $? 125 "one descriptor for the spec and the ready line is refused"
like "$out" "7 can't be both" "the refusal of one descriptor for both has the reason"

step --result /dev/fd/9 -- true 9>given
is $? 0 "the result may go to a descriptor of the caller's"
is "$(json_get given exit_code)" 0 "the result is written to the descriptor that the caller has named"
step --result /dev/fd/9 -- true 9>&- 2>err
is $? 125 "a result for a descriptor that the caller has not opened is refused"

for command in list plugins --help; do
	"$stepd" $command >/dev/full 2>err
	is $? 125 "'stepd $command' fails where its output is lost"
done
nothing_left "the job leaves no cgroup, process or file behind"
done_testing
