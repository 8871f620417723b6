#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# steprun by an ordinary user, and by root for one.
# shellcheck source=tests/lib/steprun.sh
. "${top_srcdir:?}/tests/lib/steprun.sh"

[ "$(id -u)" = 0 ] || skip_all "needs root, to become another user"
command -v setpriv >/dev/null || skip_all "needs setpriv"
nobody=$(id -u nobody)
mkdir "$tmpdir/own" && chown nobody "$tmpdir/own"
as_nobody() {
	STEPD_RUNTIME_DIR=$tmpdir/own timeout -k 5 300 setpriv --reuid=nobody --regid=nogroup --clear-groups \
		"$steprun" --job "$job" --proctrack linuxproc "$@"
}
if setpriv --reuid=nobody --regid=nogroup --clear-groups test -x "$steprun"; then
	is "$(as_nobody -N 2 -n 4 -- sh -c 'echo $(id -u) $SLURM_PROCID' | sort | tr '\n' ' ')" \
		"$nobody 0 $nobody 1 $nobody 2 $nobody 3 " "a user's tasks over nodes run as that user"
	is "$(as_nobody -- id -u)" "$nobody" "a user's task on one node runs as that user"
	is "$(echo word | as_nobody -N 2 cat)" word "a user's task over nodes gets input"
	is "$(ls -A "$tmpdir/own")" "" "a user's steps leave nothing in the runtime directory"
else
	skip 4 "the build is not readable for others"
fi
is "$(srun_here -N 2 -n 2 --uid nobody -- id -u | tr '\n' ' ')" "$nobody $nobody " \
	"root's tasks with --uid over nodes run as that user"
begin -N 2 -n 2 --uid nobody -- sh -c 'echo up; exec sleep 300'
eventually has_lines "$tmpdir/out" 2
# shellcheck disable=SC2046 # pids
kill -9 $(relays) "$pid"
finish 2>/dev/null
nothing_left_soon "a step with --uid ends when steprun and its relays are killed"
done_testing
