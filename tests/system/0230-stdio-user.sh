#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The files of a step as another user: made by that user, refused where that user may not.
. "${top_srcdir:?}/tests/lib/step.sh"
cd "$tmpdir" || bail "no $tmpdir"
[ "$(id -u)" = 0 ] || skip_all "needs root"

mkdir theirs private
chown nobody theirs
chmod 700 private
echo secret >private/secret
group=$(id -gn nobody)

step --uid nobody -n 2 --output theirs/shared --error theirs/err.%t -- sh -c 'echo out; echo err >&2'
is "$(stat -c '%U %G %a' theirs/shared)" "nobody $group 644" "a file that tasks share belongs to the user"
is "$(stat -c '%U %G %a' theirs/err.1)" "nobody $group 644" "a task's own file belongs to the user"
is "$(cat theirs/shared)" "$(printf 'out\nout')" "tasks of another user write to a shared file"
step --uid nobody -n 2 --label --output theirs/l.shared --error theirs/l.%t -- sh -c 'echo out; echo err >&2'
is "$(stat -c '%U %G' theirs/l.shared theirs/l.1 | sort -u)" "nobody $group" \
	"labelled output files belong to the user"
is "$(cat theirs/l.1)" "1: err" "labelled tasks of another user write to their file"

for name in private/out private/out.%t; do
	for label in '' --label; do
		# shellcheck disable=SC2086 # an option or none
		out=$(step --uid nobody -n 2 $label --output "$tmpdir/$name" -- true 2>&1)
		isnt $? 0 "--output $name $label is refused where the user may not write"
		like "$out" "'$tmpdir/private/out.*: Permission denied" \
			"the refusal of $name $label names the file and the reason"
		like "$out" "^stepd $job.0: error: " "the refusal of $name $label is an error of the step"
		is "$(ls private)" secret "the refusal of $name $label creates no file"
		nothing_left "a step refused for $name $label leaves no cgroup, process or file behind"
	done
done
out=$(step --uid nobody --input "$tmpdir/private/secret" -- cat 2>/dev/null)
isnt $? 0 "an input file that the user may not read is refused"
is "$out" "" "a refused input file gives the task not a byte"
touch mine
chmod 600 mine
echo kept >mine
step --uid nobody --output "$tmpdir/mine" -- true 2>/dev/null
is "$(cat mine)" kept "an output file that the user may not write is not truncated"

is "$(step --uid nobody -l -- sh -c 'echo again >/dev/stderr' 2>&1)" "0: again" \
	"a labelled task of another user can open /dev/stderr"
is "$(printf x | step --uid nobody -n 2 -- cat /dev/stdin)" xx "a task of another user can open /dev/stdin"
is "$(printf x | step --uid nobody -n 2 -l -- sh -c 'cat; stat -Lc %U /dev/fd/0' | sort)" \
	"$(printf '0: xnobody\n1: xnobody')" "a task's pipes belong to its user"
nothing_left "the job leaves no cgroup, process or file behind"
done_testing
