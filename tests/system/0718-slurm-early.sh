#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Signals that come before a step's tasks run, as --kill-on-bad-exit of a step whose first node is faster: beside
# Slurm's own slurmstepd. A SPANK plugin holds the start until the signals are there.
# shellcheck source=tests/lib/local_slurm.sh
. "${top_srcdir:?}/tests/lib/local_slurm.sh"

needs_slurm python3 srun
command -v "${CC:-cc}" >/dev/null || skip_all "needs a compiler"
[ -z "$slurm_root" ] || skip_all "the plugin is one of this system's Slurm"
serve srun
PYTHONPATH=$top_srcdir/tests/lib
PYTHONDONTWRITEBYTECODE=1
export PYTHONPATH PYTHONDONTWRITEBYTECODE
# shellcheck disable=SC2154 # of tap.sh
"${CC:-cc}" -shared -fPIC -I"$top_srcdir/tests/lib" -o "$tmpdir/waiting.so" "$top_srcdir/tests/lib/spank_waiting.c" ||
	bail "can't compile the plugin"
echo "required $tmpdir/waiting.so" >"$tmpdir/plugstack.conf"

# slurmstepd answers when its tasks run, so nothing waits for an answer before that.
cat >"$tmpdir/commands" <<'S'
cd "$1/$2" || exit 1
. "$1/functions"
node=$(ls "$at/spool")
limit="timeout 200"
early() { # NAME NUMBER...
	name=$1
	shift
	mkfifo "$name.fifo"
	line "$name" env WAITING="$PWD/$name" srun -Q --overlap -n 1 sh -c "trap '' TERM; exec sleep 1000"
	until_true test -e "$name.step"
	socket=$at/spool/$node/${node}_$SLURM_JOB_ID.$(cat "$name.step")
	for number in "$@"; do
		python3 "$PYTHONPATH/slurm_step.py" "$socket" "$STEPD_TEST_PROTOCOL" signal "$number" >"$name.$number" 2>&1 &
	done
	until_true has_requests "$name" "$@"
	echo >"$name.fifo"
}
# A request that has not been taken yet would be no early one: slurmstepd's has its first bytes, ours the answer.
has_requests() { # NAME NUMBER...
	of=$1
	shift
	for number in "$@"; do
		[ "$which" = real ] || [ -s "$of.$number" ] || return 1
	done
}
which=$2
early terminated 991
early both 991 15
early killed 15 9
wait
S
cat >"$tmpdir/inside" <<'S'
mkdir "$1/$2"
cd "$1/$2" || exit 1
. "$1/functions"
salloc -Q -n 8 sh "$1/commands" "$1" "$2" >salloc 2>&1
until_true no_step
echo >over
S

# shellcheck disable=SC2154 # of local_slurm.sh
BENCH_SLURM_LINES="FirstJobId=$first_job
KillWait=2
PlugStackConfig=$tmpdir/plugstack.conf
$slurmd_log"
export BENCH_SLURM_LINES
in_both

for name in terminated both killed; do
	for number in "$tmpdir/served/$name".[0-9]*; do
		is "$(cat "$number")" "0 0" "$name: the signal ${number##*.} is accepted before the task runs"
	done
	is "$(cat "$tmpdir/served/$name.rc")" 137 "$name: a task that ignores TERM is killed"
	is "$(cat "$tmpdir/served/$name.rc")" "$(cat "$tmpdir/real/$name.rc")" "$name: srun's status is that with slurmstepd"
done
is "$(log_lines | grep -c ' served$')" 3 "each step was served"
done_testing
