#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A task that can't be executed may end before the agent has noted it: the outcome is the same.
. "${top_srcdir:?}/tests/lib/step.sh"

# ROUNDS WANTED REGEX ARG...: runs the step so often and prints each other outcome.
outcomes() {
	rounds=$1 wanted=$2 regex=$3
	shift 3
	: >"$tmpdir/results"
	while [ "$rounds" -gt 0 ]; do
		rounds=$((rounds - 1))
		out=$(step --result "$tmpdir/r" "$@" 2>&1)
		status=$?
		cat "$tmpdir/r" >>"$tmpdir/results"
		[ $status = "$wanted" ] && printf '%s\n' "$out" | grep -Eq "$regex" || echo "$status: $out"
	done
	json_get "$tmpdir/results" '"".join(doc["reason"] for doc in docs if doc["reason"] != "exec-failed")'
}

for b in $(backends); do
	is "$(outcomes 40 126 "task 0 can't change to the directory '/nonexistent'" \
		--proctrack "$b" -n 4 --chdir /nonexistent -- true)" "" \
		"$b: a missing directory is reported in each of 40 rounds"
	is "$(outcomes 40 127 "can't execute '/nonexistent/x'" --proctrack "$b" -n 8 -- /nonexistent/x)" "" \
		"$b: a missing program is reported in each of 40 rounds"
done

name=/$(printf '%02000d' 0 | tr 0 '\001')
like "$(step -- "$name" 2>&1)" "(File name too long|No such file or directory)" \
	"a long name of control bytes is reported with the reason"
# A directory of PATH that is no good does not hide the program in the next.
long=/$(printf '%0300d' 0)
ok "a directory of PATH with too long a name is skipped" \
	env PATH="$long:/usr/bin:/bin" "$stepd" run -q --job "$job" -- true
nothing_left "the job leaves no cgroup, process or file behind"
done_testing
