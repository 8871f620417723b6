#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# steprun as the job of a shell on a terminal: typed input reaches rank 0, ^C reports and then ends,
# ^Z stops the step with it, and it goes on in the foreground.
# shellcheck source=tests/lib/steprun.sh
. "${top_srcdir:?}/tests/lib/steprun.sh"

# shellcheck source=tests/lib/terminal.sh
. "$top_srcdir/tests/lib/terminal.sh"

for n in 1 2; do
	program="$steprun --job $job --proctrack $tracker -N $n -n $n --"
	# shellcheck disable=SC2086 # words
	is "$(talk 'see up' 'type hello\n' 'see got hello' 'type \x04' 'see shell: status 0' -- $program \
		sh -c '[ $SLURM_PROCID = 0 ] || exit 0; echo up; read x; echo "got $x"; cat')" ok \
		"$n: typed input reaches rank 0, and ^D ends it"
	# shellcheck disable=SC2086
	is "$(talk 'see up' 'type \x03' 'see running: tasks 0' 'see interrupt again' 'type \x03' 'see shell: status 130' -- \
		$program sh -c '[ $SLURM_PROCID != 0 ] || echo up; exec sleep 300')" ok "$n: the first ^C reports, the second ends the step"
	# shellcheck disable=SC2086
	is "$(talk 'see up' 'type \x1c' 'see shell: status 131' -- \
		$program sh -c '[ $SLURM_PROCID != 0 ] || echo up; exec sleep 300')" ok "$n: ^\\ ends the step"
	rm -f "$tmpdir/go"
	# shellcheck disable=SC2086
	is "$(talk 'see up' 'type \x1a' 'see shell: stopped' "still $tmpdir/beats" fg 'type more\n' 'see got more' 'see shell: status 0' -- \
		$program sh -c '[ $SLURM_PROCID = 0 ] || exit 0; (while :; do echo x; sleep 0.05; done >"$0") & b=$!
			sleep 0.1; echo up; read x; echo "got $x"; kill $b' "$tmpdir/beats")" ok "$n: ^Z stops the step, fg resumes it"
done
nothing_left_soon "the job leaves no cgroup, process or file behind"
done_testing
