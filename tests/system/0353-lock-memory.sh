#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# An agent whose memory stays out of swap.
# shellcheck source=tests/lib/reexec.sh
. "${top_srcdir:?}/tests/lib/reexec.sh"

command -v prlimit >/dev/null || skip_all "prlimit is missing"
# Their runtime's mlockall() does nothing.
! grep -q '^#define STEPD_SANITIZERS 1' "$top_builddir/config.h" || skip_all "a build with sanitizers"
[ -x "$next" ] || skip_all "no second program (make check builds it)"

locked() { # PID: whether any of its memory is
	awk '/^VmLck:/ { print ($2 > 0 ? "yes" : "no") }' "/proc/$1/status"
}
is_locked() { # PID
	[ "$(locked "$1")" = yes ]
}
serve() { # LOCK [COMMAND...]: with that before it
	put "$this"
	: >"$tmpdir/stay"
	: >"$tmpdir/out"
	printf '{"job": %s, "argv": ["sh", "-c", "echo up; %s"], "proctrack": "%s", "lock_memory": "%s", "env": {"PATH": "/usr/bin:/bin"}}\n' \
		"$job" "$until_gone" "$tracker" "$1" >"$tmpdir/spec"
	shift
	"$@" "$stepd" serve --spec "$tmpdir/spec" >"$tmpdir/out" 2>"$tmpdir/err" &
	agent=$!
	eventually has_output up
}

if [ "$(id -u)" = 0 ]; then
	for lock in current all; do
		serve $lock
		ok "$lock: the agent's memory is locked" eventually is_locked "$agent"
		is "$(locked "$(state_of 0 'tasks[0]["pid"]')")" no "$lock: its task's is not"
		upgrade
		ok "$lock: that of another program in its place is, too" eventually is_locked "$agent"
		rm "$tmpdir/stay"
		ended 0 "$lock: the step ends as its task does"
	done
	start_step --lock-memory=current -- sh -c "$until_gone"
	ok "stepd run --lock-memory does the same" eventually is_locked "$agent"
	rm "$tmpdir/stay"
	ended 0 "and its step ends as its task does"
	serve none
	is "$(locked "$agent")" no "nothing is locked without that"
	rm "$tmpdir/stay"
	ended 0 "and the step ends as its task does"
	without="setpriv --bounding-set=-ipc_lock --inh-caps=-ipc_lock"
fi
# shellcheck disable=SC2086 # words
serve all prlimit --memlock=0 ${without-}
ok "an agent that may not lock its memory says so" eventually grep -q "the agent's memory is not locked: " "$tmpdir/err"
rm "$tmpdir/stay"
ended 0 "and its step runs"
nothing_left "the job leaves no cgroup, process or file behind"
done_testing
