#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# An agent that may not open enough files reports it at once, and nothing else.
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
	0/) ok "a step runs with $files open files" ;;
	*) like "$out" "Too many open files" "a step with $files open files reports too many open files" ;;
	esac
done

out=$(limited 2000 -n 4000 --label -- sh -c 'echo ran >>"$0"' "$tmpdir/ran")
is $? 125 "a step of 4,000 labelled tasks is refused with 2,000 open files"
is "$(echo "$out" | sed 's/.*error: //; s/need [0-9]*/need N/')" \
	"the streams of 4000 tasks, which the agent carries, need N open files, and it may have 2000 (raise the limit, ulimit -Hn)" \
	"one sentence reports how many open files the tasks need"
fails "no task starts where the open files are too few" test -e "$tmpdir/ran"
is "$(limited 100 -n 8 --label -- echo up | sort -u | wc -l)" 8 \
	"a step of eight labelled tasks runs with 100 open files"
nothing_left "the job leaves no cgroup, process or file behind"
done_testing
