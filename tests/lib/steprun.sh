# shellcheck shell=sh
# SPDX-License-Identifier: BSD-3-Clause
#
# For tests of steprun, on top of step.sh:
#	$steprun            the program
#	srun_here ARG...    "steprun" in the test's job, with its tracker and a limit of time
#	begin ARG...        the same in the background; $pid, output in $tmpdir/out and $tmpdir/err
#	finish              waits for it; $status
#	children PID        pids of a process's children
#	relays, agents      pids of those of the test's job
#	stands PID          whether the processes below that one have written something, and then nothing
#	                    for half a second

# shellcheck source=tests/lib/step.sh
. "${top_srcdir:?}/tests/lib/step.sh"

steprun=${top_builddir:?}/stepd/cli/steprun

srun_here() {
	timeout -k 5 300 "$steprun" --job "$job" --proctrack "$tracker" "$@"
}

begin() {
	: >"$tmpdir/out"
	: >"$tmpdir/err" # before it begins, for who looks soon
	"$steprun" --job "$job" --proctrack "$tracker" "$@" >"$tmpdir/out" 2>"$tmpdir/err" &
	pid=$!
}

finish() {
	wait "$pid"
	# shellcheck disable=SC2034 # for the tests
	status=$?
}

children() {
	cat "/proc/$1/task/$1/children" 2>/dev/null | tr ' ' '\n' | grep .
}

# Of steprun's relays, by its pid.
relays() {
	children "$pid"
}

agents() {
	for relay in $(relays); do
		children "$relay"
	done
}

written_below() { # PID
	written=0
	for below in $(all_below "$1"); do
		written_one=$(sed -n 's/^wchar: //p' "/proc/$below/io" 2>/dev/null)
		written=$((written + ${written_one:-0}))
	done
	echo "$written"
}

all_below() { # PID
	for one_below in $(children "$1"); do
		echo "$one_below"
		all_below "$one_below"
	done
}

stands() {
	stands_at=$(written_below "$1")
	sleep 0.5
	[ "$stands_at" -gt 65536 ] && [ "$(written_below "$1")" = "$stands_at" ]
}
