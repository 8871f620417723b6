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
is "$bad" "" "12 to 40 descriptors: the step runs or is refused at once"
nothing_left "and nothing is left"

out=$( (
	ulimit -f 0
	step -- true 2>&1
) | cat)
like "$out" "/spec.json': File too large" "a limit of file sizes is an error, not the agent's end"
nothing_left "and nothing is left"
out=$(step --result "$tmpdir/r" --rlimit fsize=0 -- sh -c 'ulimit -f')
is "$out" "0" "the limit of the tasks is theirs alone"
ok "the result is written" test -s "$tmpdir/r"
done_testing
