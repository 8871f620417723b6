#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Agents are killed and upgraded in random order while their tasks end: each status is right, or lost
# where the kernel doesn't have it, the result is there, a follower of the events misses none and gets none
# twice, and nothing is left. UPHEAVAL_ROUNDS rounds (12, 200 with --all); tests/lib/upheaval.py has the rest.
# shellcheck source=tests/lib/reexec.sh
. "${top_srcdir:?}/tests/lib/reexec.sh"

[ -x "$next" ] || skip_all "no second program (make check builds it)"
command -v python3 >/dev/null || skip_all "needs python3"
put "$next"
# shellcheck disable=SC2046 # words
"$top_srcdir/tests/lib/upheaval.py" "$stepd" "$next" "$job" "${UPHEAVAL_ROUNDS:-$(rounds 12 200)}" $(backends) >"$tmpdir/printed" 2>&1
status=$?
diag "$(tail -n 1 "$tmpdir/printed")"
is "$status$(sed '$d' "$tmpdir/printed")" 0 "every step whose agents were killed and upgraded ended as it should"
nothing_left "the job leaves no cgroup, process or file behind"
done_testing
