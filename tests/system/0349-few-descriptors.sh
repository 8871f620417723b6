#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# An agent that may not open enough files says so, at once, and blames nothing else.
# shellcheck disable=SC2016 # single quotes are for the tasks
. "${top_srcdir:?}/tests/lib/step.sh"

# limited FILES ARG...: a step whose agent may have so many open.
limited() {
	limited_files=$1
	shift
	timeout 900 prlimit --nofile="$limited_files" "$stepd" run -q --job "$job" --proctrack "$tracker" "$@" 2>&1
}

command -v prlimit >/dev/null || skip_all "prlimit is missing"
for files in 6 7 8 9 10 11 12 16 24 32; do
	out=$(limited $files -- true)
	case $?/$out in
	0/) ok "$files open files are enough" ;;
	*) like "$out" "Too many open files" "with $files open files it is said that these are too few" ;;
	esac
done

out=$(limited 2000 -n 4000 --label -- sh -c 'echo ran >>"$0"' "$tmpdir/ran")
is $? 125 "the pipes of 4,000 tasks don't go into 2,000 open files"
is "$(echo "$out" | sed 's/.*error: //; s/need [0-9]*/need N/')" \
	"the streams of 4000 tasks, which the agent carries, need N open files, and it may have 2000 (raise the limit, ulimit -Hn)" \
	"which one sentence says"
fails "and no task was started before that was known" test -e "$tmpdir/ran"
is "$(limited 100 -n 8 --label -- echo up | sort -u | wc -l)" 8 "those of eight go into 100"
nothing_left "nothing is left"
done_testing
