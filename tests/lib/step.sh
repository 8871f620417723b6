# shellcheck shell=sh
# SPDX-License-Identifier: BSD-3-Clause
#
# For tests that run real steps, on top of tap.sh:
#	$stepd, $stepctl    the programs
#	$job                a job id of this test's own
#	$first_job          the first of 2,500 that are no other test's at the time, for daemons that count jobs: Slurm's
#	                    are below 67,043,328. They name cgroups, those of served steps, too
#	$run                a runtime directory of its own, below $tmpdir
#	step ARG...         "stepd run" in that job and directory, with
#	start_step ARG...   "stepd run -q" in that job in the background, until a task has written "up"; $agent
#	                    is its pid, its output is in $tmpdir/out, its log in $tmpdir/err
#	start_agent STEP ARG...  "stepd run" of that step likewise, until its tasks run
#	kill_agent          kills $agent, and waits for it
#	ended STATUS NAME   waits for $agent, and checks its exit status
#	step_dir STEP       its directory
#	state_of STEP EXPRESSION  what json_get makes of its state.json
#	adopted STEP [COUNT]  whether it has been adopted, once or so often
#	has_agent STEP      whether $agent has it
#	has_output REGEX    whether $tmpdir/out has such a line
#	has_lines FILE COUNT  whether it has as many lines at least
#	$tracker            cgroup where it can be used, else linuxproc
#	backends            the proctrack backends that this machine and user can use
#	running STEP, suspended [STEP], is_state STATE STEP  whether its agent has it in that state
#	process_state PID   its letter in proc_pid_stat(5); start_ticks PID: when it began;
#	                    cpu_ticks PID: the processor time that it has used
#	has_adoption STEP   whether its events have an adoption
#	stream_holder       the pids of the processes that hold streams of the job's steps for adopters
#	held, not_held      whether there is such a process
#	process_ended PID...  whether all are gone, or zombies of somebody else
#	varlink ARG...      tests/lib/varlink.py
#	hanging PID...      whether one of them hangs in the kernel as "tests/lib/hostile hang" does
#	eventually COMMAND  waits until it succeeds; where it never does the test fails
#	comes COMMAND       the same where that is no failure
#	nothing_left NAME   checks that no cgroup, directory or process of $job is there
#	nothing_left_soon NAME  the same, for agents that this shell does not wait for
#	now_ms              a clock
#	no_slower MS CONTROL_MS  whether what took MS did not wait for anything that a control in the same
#	                    run did not wait for: less than twenty times as much, and 50 ms count as least
# Tasks are marked by the variable STEPD_TEST_JOB in their environment.

# shellcheck source=tests/lib/tap.sh
. "${top_srcdir:?}/tests/lib/tap.sh"

stepd=${top_builddir:?}/stepd/cli/stepd
# shellcheck disable=SC2034 # of those who read this
stepctl=$top_builddir/stepd/cli/stepctl
# In a guest of tests/testbed pids begin anew, and the host may see its groups.
job=$((${STEPD_TEST_JOB_BASE:-0} + $$))
# shellcheck disable=SC2034 # of those who read this
first_job=$((4200000 + $$ % 25000 * 2500))
tmpdir
chmod 755 "$tmpdir"
run=$tmpdir/run
mkdir "$run"
STEPD_RUNTIME_DIR=$run
STEPD_TEST_JOB=$job
export STEPD_RUNTIME_DIR STEPD_TEST_JOB

# Requested by name: "auto" logs a line where it can't take cgroup, which is right, but not
# what these tests look at.
tracker=linuxproc
! "$stepd" run -q --job "$job" --proctrack cgroup -- true 2>/dev/null || tracker=cgroup

step() {
	timeout 300 "$stepd" run --job "$job" --proctrack "$tracker" "$@"
}

backends() {
	"$stepd" plugins | sed -n 's|^proctrack/\([a-z]*\) .*|\1|p' |
		while read -r backend; do
			if "$stepd" run --proctrack "$backend" -- true >/dev/null 2>&1; then
				echo "$backend"
			fi
		done
}

processes() {
	grep -lzxF "STEPD_TEST_JOB=$job" /proc/[0-9]*/environ 2>/dev/null | tr -dc '0-9\n'
}

# Those of the pids that are the job's still: some end by themselves meanwhile.
kill_left() {
	for left_pid; do
		grep -qzxF "STEPD_TEST_JOB=$job" "/proc/$left_pid/environ" || continue
		kill -KILL "$left_pid"
	done 2>/dev/null
}

# However a test ends, nothing of its steps outlives it. One that comes to its end with a cgroup
# left has failed: whoever made that did not see to it.
end_steps() {
	# shellcheck disable=SC2046 # pids
	kill_left $(processes)
	# shellcheck disable=SC2044 # names without blanks
	for left_group in $(find /sys/fs/cgroup -type d -name "job_$job" 2>/dev/null); do
		diag "left behind: $left_group"
		[ -z "$tap_done" ] || tap_status=99
		[ ! -f "$left_group/cgroup.kill" ] || echo 1 >"$left_group/cgroup.kill"
		# Killed is not yet gone.
		eventually find "$left_group" -depth -type d -exec rmdir {} +
	done
}
at_exit end_steps

# Pids of the job's processes but for this test's own shells.
left_processes() {
	for left in $(processes); do
		[ "$left" = $$ ] || [ "$(awk '/^PPid:/ { print $2 }' "/proc/$left/status" 2>/dev/null)" = $$ ] ||
			[ "$(cat "/proc/$left/comm" 2>/dev/null)" = "" ] || {
			{ tr '\0' ' ' <"/proc/$left/cmdline"; } 2>/dev/null | grep -q tests/system || echo "$left"
		}
	done
}

# The entries of the runtime directory, except the results that "stepd serve" retains there.
left_entries() {
	find "$run" -mindepth 1 ! -name result.json | while read -r entry; do
		[ "$(ls -A "$entry")" = result.json ] || echo "$entry"
	done
}

nothing_left() {
	left_cgroups=$(find /sys/fs/cgroup -type d -name "job_$job" 2>/dev/null)
	left_files=$(left_entries)
	left_pids=$(left_named)
	is "$left_cgroups$left_files$left_pids" "" "$1"
}

# The same with names, states and parents, for who reads that they are left.
left_named() {
	for left_pid in $(left_processes); do
		echo "pid $left_pid $(awk '/^(Name|State|PPid):/ { printf "%s %s ", $1, $2 }' "/proc/$left_pid/status" 2>&1)"
	done
}

all_gone() {
	[ -z "$(left_processes)$(left_entries)$(find /sys/fs/cgroup -type d -name "job_$job" 2>/dev/null)" ]
}

# A step's files go with its agents, a moment after steprun, or another program that started them.
nothing_left_soon() {
	eventually all_gone
	nothing_left "$1"
}

# A process that waits for its page is in state D or S, as the kernel has it; state D has also, for a moment, a
# shell that waits for its child to execute. Once the freezer has called it, it runs from one look at its
# page to the next.
hanging() {
	for hanging_pid; do
		! grep -qs handle_userfault "/proc/$hanging_pid/wchan" || return 0
	done
	return 1
}

start_step() {
	: >"$tmpdir/out"
	"$stepd" run -q --job "$job" "$@" >"$tmpdir/out" 2>"$tmpdir/err" &
	agent=$!
	eventually has_output up
}

start_agent() {
	start_agent_step=$1
	shift
	"$stepd" run --job "$job" --step "$start_agent_step" "$@" >"$tmpdir/out" 2>"$tmpdir/err" &
	agent=$!
	eventually running "$start_agent_step"
}

kill_agent() {
	kill -KILL "$agent"
	wait "$agent" 2>/dev/null
}

ended() {
	wait "$agent"
	is $? "$1" "$2"
}

step_dir() {
	echo "$run"/*_"$job.$1"
}

state_of() {
	json_get "$(step_dir "$1")/state.json" "$2"
}

adopted() {
	[ "$(state_of "$1" adopted)" = "${2-1}" ]
}

has_agent() {
	[ "$(state_of "$1" agent_pid)" = "$agent" ]
}

has_output() {
	grep -q "$1" "$tmpdir/out"
}

has_lines() {
	[ "$(wc -l <"$1")" -ge "$2" ]
}

# By grep: it is polled, and used in guests, which have no Python.
is_state() {
	grep -qs "\"state\":\"$1\"" "$run"/*_"$job.$2"/state.json
}

running() {
	is_state running "$1"
}

suspended() {
	is_state suspended "${1-0}"
}

cpu_ticks() {
	awk '{ print $14 + $15 }' "/proc/$1/stat"
}

has_adoption() {
	[ "$(json_get "$(step_dir "$1")/events.jsonl" 'any(e["kind"] == "adopt" for e in docs)')" = true ]
}

process_state() {
	sed 's/.*) \(.\) .*/\1/' "/proc/$1/stat"
}

start_ticks() {
	sed 's/.*) //' "/proc/$1/stat" | cut -d' ' -f20
}

stream_holder() {
	for holder_pid in $(processes); do
		[ "$(cat "/proc/$holder_pid/comm" 2>/dev/null)" != stepd-hold ] || echo "$holder_pid"
	done
}

held() {
	[ -n "$(stream_holder)" ]
}

not_held() {
	! held
}

process_ended() {
	for ended_pid; do
		case $(process_state "$ended_pid" 2>/dev/null) in
		Z | X | '') ;; # '': it is gone
		*) return 1 ;;
		esac
	done
}

varlink() {
	python3 "$top_srcdir/tests/lib/varlink.py" "$@"
}

now_ms() {
	echo $(($(date +%s%N) / 1000000))
}

no_slower() {
	[ "$1" -le $((20 * ($2 > 50 ? $2 : 50))) ]
}

# Waits, without guessing a time, until COMMAND succeeds; at most a minute or more, and five where the
# machine is busy.
comes() {
	tries=0
	comes_end=$(($(date +%s) + 300))
	until "$@" >/dev/null 2>&1; do
		tries=$((tries + 1))
		[ "$tries" -lt 3000 ] || return 1
		[ $((tries % 20)) -ne 0 ] || [ "$(date +%s)" -lt "$comes_end" ] || return 1
		sleep 0.02
	done
}

eventually() {
	comes "$@" && return 0
	echo "# waited in vain for: $*" >&2
	echo "$*" >>"$tmpdir/waited-in-vain"
	return 1
}

# $tmpdir/plugins with proctrack/halfway (tests/lib/halfway_plugin.c), which uses the cgroup tracker.
make_halfway() {
	mkdir "$tmpdir/plugins"
	STEPD_TEST_CGROUP_PLUGIN=$tmpdir/cgroup.so
	export STEPD_TEST_CGROUP_PLUGIN
	cp -L "$top_builddir/stepd/cli/plugins/proctrack_cgroup.so" "$STEPD_TEST_CGROUP_PLUGIN"
	cp -L "$top_builddir/stepd/cli/plugins/mpi_none.so" \
		"$top_builddir/tests/lib/plugins/proctrack_halfway.so" "$tmpdir/plugins"
	chmod go-w "$tmpdir"/plugins/* "$STEPD_TEST_CGROUP_PLUGIN"
}
