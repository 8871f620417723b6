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
is "$(stat -c '%U %G %a' theirs/shared)" "nobody $group 644" "a file that tasks share is the user's"
is "$(stat -c '%U %G %a' theirs/err.1)" "nobody $group 644" "a task's own too"
is "$(cat theirs/shared)" "$(printf 'out\nout')" "and they write to it"
step --uid nobody -n 2 --label --output theirs/l.shared --error theirs/l.%t -- sh -c 'echo out; echo err >&2'
is "$(stat -c '%U %G' theirs/l.shared theirs/l.1 | sort -u)" "nobody $group" "with labels likewise"
is "$(cat theirs/l.1)" "1: err" "and they write to it"

for name in private/out private/out.%t; do
	for label in '' --label; do
		# shellcheck disable=SC2086 # an option or none
		out=$(step --uid nobody -n 2 $label --output "$tmpdir/$name" -- true 2>&1)
		isnt $? 0 "$name $label: refused where the user may not write"
		like "$out" "'$tmpdir/private/out.*: Permission denied" "with the file and the reason"
		like "$out" "^stepd $job.0: error: " "as an error of the step"
		is "$(ls private)" secret "no file was made"
		nothing_left "nothing is left"
	done
done
out=$(step --uid nobody --input "$tmpdir/private/secret" -- cat 2>/dev/null)
isnt $? 0 "root reads nothing for the user"
is "$out" "" "not a byte"
touch mine
chmod 600 mine
echo kept >mine
step --uid nobody --output "$tmpdir/mine" -- true 2>/dev/null
is "$(cat mine)" kept "root truncates nothing for the user"

is "$(step --uid nobody -l -- sh -c 'echo again >/dev/stderr' 2>&1)" "0: again" "/dev/stderr can be opened"
is "$(printf x | step --uid nobody -n 2 -- cat /dev/stdin)" xx "/dev/stdin too"
is "$(printf x | step --uid nobody -n 2 -l -- sh -c 'cat; stat -Lc %U /dev/fd/0' | sort)" \
	"$(printf '0: xnobody\n1: xnobody')" "the pipes are the user's"
nothing_left "nothing is left"
done_testing
