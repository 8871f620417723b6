#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# An agent whose caller has set tight limits: the step is refused, or runs, and nothing is left.
. "${top_srcdir:?}/tests/lib/step.sh"

bad=
for limit in 12 14 16 18 20 22 24 26 28 30 32 34 36 38 40; do
	(
		ulimit -n "$limit"
		timeout 300 "$stepd" run -q --job "$job" -n 3 -- true 2>/dev/null
	)
	status=$?
	[ $status = 125 ] || [ $status = 0 ] || bad="$bad $limit:$status"
	[ -z "$(find "$run" -mindepth 1)" ] || bad="$bad $limit:files"
done
is "$bad" "" "a step with 12 to 40 descriptors runs or is refused"
nothing_left "a step with few descriptors leaves no cgroup, process or file behind"

out=$( (
	ulimit -f 0
	step -- true 2>&1
) | cat)
like "$out" "/spec.json': File too large" "a limit of file sizes is an error, not the agent's end"
nothing_left "a step with a limit of file sizes leaves no cgroup, process or file behind"
out=$(step --result "$tmpdir/r" --rlimit fsize=0 -- sh -c 'ulimit -f')
is "$out" "0" "a task has its own limit of file sizes"
ok "the result is written though the tasks may write no file" test -s "$tmpdir/r"
done_testing
