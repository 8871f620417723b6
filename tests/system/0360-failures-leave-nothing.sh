#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A step that can't start leaves no process, cgroup, file or directory, whatever it failed at.
. "${top_srcdir:?}/tests/lib/step.sh"

refused() { # NAME REGEX ARG...
	name=$1 regex=$2
	shift 2
	out=$(step "$@" 2>&1)
	is $? 125 "$name: the step fails with the agent's own status"
	like "$out" "$regex" "$name: the refusal has the reason"
	is "$(printf '%s\n' "$out" | wc -l)" 1 "$name: the refusal is one sentence"
	nothing_left "$name: the job leaves no cgroup, process or file behind"
}

refused "no plugin" "there is no plugin proctrack/nosuch in" --proctrack nosuch -- true
refused "no MPI plugin" "there is no plugin mpi/nosuch in" --mpi nosuch -- true
refused "a plugin's name that is a path" "no name of a proctrack plugin|proctrack" --proctrack ../x -- true
refused "no runtime directory" "runtime directory" --runtime-dir /nonexistent/dir -- true
refused "no plugin directory" "plugin directory '/nonexistent'" --plugin-dir /nonexistent -- true
refused "a shared file that can't be opened" "$tmpdir/no/file" --output "$tmpdir/no/file" -- true
refused "no such input" "$tmpdir/no/input|Is a directory|No such file" --label --output "$tmpdir/no/out.%t" -n 4 -- true
mkfifo "$tmpdir/fifo"
refused "a FIFO that nobody reads" "fifo" --output "$tmpdir/fifo" -- true
if backends | grep -qx cgroup; then
	refused "a cgroup root that is none" "/tmp" --proctrack cgroup --cgroup-root /tmp -- true
fi
# The pipes are counted before the first is made.
# shellcheck disable=SC3045 # dash and bash have it
ulimit -n 64
refused "no more descriptors" "need [0-9]+ open files, and it may have 64" -n 200 --label -- true
done_testing
