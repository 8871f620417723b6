# shellcheck shell=sh
# SPDX-License-Identifier: BSD-3-Clause
#
# For tests of jobd with real agents, on four named nodes of this machine, on top of step.sh. The numbers of
# jobs begin with $first_job. A test is skipped without root, Python or jobd.
#	$jobctl, $state, $work   the program, jobd's directory, and that of the jobs' files
#	begin_jobd OPTION...     until it listens; $jobd_pid, its log is $tmpdir/log
#	kill_jobd                by SIGKILL
#	script NAME              makes a script for jobs of standard input
#	submit OPTION... SCRIPT [ARG...]   prints the job's number
#	doc_of JOB EXPRESSION    of the job's document, such as ["job_state"]
#	has_state STATE JOB, has_ended JOB, all_have_ended
#	ends_as JOB STATE NAME   waits for its end, and checks its state
#	agent_of NODE STEP       prints the pid of its agent; fails while nobody has the step's lock
#	hold PID, let_go         freezes an agent, one at a time, and thaws it: to a SIGCONT it would resume its
#	                         step
#	spins_on NODE JOB FILE   adds a process to the job there that uses CPU time until FILE.end is made;
#	                         its pid is in FILE, and it ignores SIGTERM
#	wrote FILE [REGEX]       whether a job has written such a line, or any
#	job_groups COUNT         cgroups of so many jobs from $first_job on
#	random_ms MAX            a random number below it, as seconds
#	nothing_left_of_jobs COUNT   ends jobd by SIGTERM, and checks that nothing of so many jobs is left

# shellcheck source=tests/lib/step.sh
. "${top_srcdir:?}/tests/lib/step.sh"

jobd=$(cd "${top_builddir:?}" && pwd)/contrib/jobd/server/jobd
jobctl=$top_builddir/contrib/jobd/cli/jobctl
if ! [ -x "$jobd" ] || ! [ -x "$jobctl" ]; then
	skip_all "jobd is not built"
fi
[ "$(id -u)" = 0 ] || skip_all "needs root"
command -v python3 >/dev/null || skip_all "needs python3"

# shellcheck disable=SC2154 # $tmpdir is of tap.sh
state=$tmpdir/state
work=$tmpdir/work
mkdir -m 700 "$state"
mkdir -m 777 "$work"
chmod 777 "$work"
JOBD_SOCKET=$tmpdir/socket
STEPRUN=$(cd "$top_builddir" && pwd)/stepd/cli/steprun
TRACKER=linuxproc # of steps in scripts, whose users have no cgroup to divide
export JOBD_SOCKET STEPRUN TRACKER
unset STEPD_RUNTIME_DIR # of the agents: jobd has it as an option
cat >"$tmpdir/slurm.conf" <<CONF
ClusterName=test
FirstJobId=$first_job
MaxJobId=$((first_job + 2499))
SelectType=select/cons_res
SelectTypeParameters=CR_Core
KillWait=1
MinJobAge=3600
NodeName=n[1-4] CPUs=8 Sockets=1 CoresPerSocket=8 ThreadsPerCore=1 RealMemory=1000
PartitionName=main Nodes=n[1-4] Default=YES MaxTime=60
CONF

case $stepd in
/*) here= ;;
*) here=$(pwd)/ ;;
esac

jobd_pid=
begin_jobd() {
	"$jobd" --conf "$tmpdir/slurm.conf" --state "$state" --socket "$JOBD_SOCKET" --stepd "$here$stepd" \
		--runtime-dir "$run" "$@" >>"$tmpdir/log" 2>&1 &
	jobd_pid=$!
	eventually "$jobctl" nodes || bail "jobd does not start: $(tail -n 3 "$tmpdir/log")"
}
kill_jobd() {
	[ -z "$jobd_pid" ] || end_child KILL "$jobd_pid"
	[ -z "$jobd_pid" ] || wait "$jobd_pid" 2>/dev/null
	jobd_pid=
}
at_exit kill_jobd

script() { # NAME: standard input is the script
	{
		echo '#!/bin/sh'
		cat
	} >"$work/$1"
	chmod 755 "$work/$1"
}

submit() { # OPTION... SCRIPT [ARG...]: prints its number
	(cd "$work" && "$jobctl" submit --parsable "$@")
}

doc_of() { # JOB EXPRESSION
	"$jobctl" queue -t all -j "$1" --json | json_get - "d[\"jobs\"][0]$2"
}

has_state() { # STATE JOB
	[ "$(doc_of "$2" '["job_state"]') $(doc_of "$2" '["state_flags"]')" = "$1 []" ]
}

ends_as() { # JOB STATE NAME
	eventually has_ended "$1"
	is "$(doc_of "$1" '["job_state"]')" "$2" "$3"
}

has_ended() { # JOB
	case $(doc_of "$1" '["job_state"]')$(doc_of "$1" '["state_flags"]') in
	PENDING* | RUNNING* | SUSPENDED* | *COMPLETING*) return 1 ;;
	esac
}

all_have_ended() {
	[ -z "$("$jobctl" queue -h)" ]
}

agent_of() { # NODE STEP
	"$stepctl" list --runtime-dir "$run" --json | json_get - \
		"[s[\"agent_pid\"] for s in (d if isinstance(d, list) else d[\"steps\"]) if (s[\"node\"], s[\"step\"]) == (\"$1\", \"$2\") and s[\"agent_pid\"]][0]" 2>/dev/null
}

# Of the process whose pid is in that file of the jobs' directory.
ticks_of() { # FILE
	cpu_ticks "$(cat "$work/$1")"
}
stands() { # FILE
	stands_before=$(ticks_of "$1")
	sleep 0.5
	[ "$(ticks_of "$1")" = "$stands_before" ]
}
moves() { # FILE
	moves_before=$(ticks_of "$1")
	sleep 0.3
	[ "$(ticks_of "$1")" -gt "$moves_before" ]
}

groups=/sys/fs/cgroup
[ ! -d $groups/unified ] || groups=$groups/unified
jobd_held=
hold() { # PID
	jobd_held=$1
	jobd_held_home=$groups$(sed -n 's/^0:://p' "/proc/$1/cgroup")
	mkdir "$groups/stepd-hold-$1"
	echo "$1" >"$groups/stepd-hold-$1/cgroup.procs"
	echo 1 >"$groups/stepd-hold-$1/cgroup.freeze"
	eventually grep -qx 'frozen 1' "$groups/stepd-hold-$1/cgroup.events"
}
let_go() {
	[ -n "$jobd_held" ] || return 0
	echo "$jobd_held" >"$jobd_held_home/cgroup.procs" # which thaws it; its next child is there, too
	rmdir "$groups/stepd-hold-$jobd_held"
	jobd_held=
}
at_exit let_go

spins_on() { # NODE JOB FILE
	sh -c 'trap "" TERM; echo $$ >"$1"; while [ ! -e "$1.end" ]; do :; done' spins "$work/$3" &
	eventually wrote "$3"
	eventually agent_of "$1" "$2.extern"
	"$stepctl" add --runtime-dir "$run" "$1/$2.extern" "$(cat "$work/$3")" >/dev/null
}

wrote() { # FILE [REGEX]
	grep -Eq -e "${2-.}" "$work/$1"
}

job_groups() {
	find /sys/fs/cgroup -type d -name 'job_*' 2>/dev/null |
		awk -F/ -v first="$first_job" -v count="$1" '
			{ n = substr($NF, 5) } n ~ /^[0-9]+$/ && n - first >= 0 && n - first < count'
}

random_ms() {
	printf '%d.%03d\n' 0 $(($(od -An -N2 -tu2 /dev/urandom) % $1))
}

nothing_left_of_jobs() {
	kill -TERM "$jobd_pid"
	wait "$jobd_pid"
	jobd_pid=
	is "$(find "$run" "$state/run" -mindepth 1)" "" "no step, result or log is left"
	is "$(job_groups "$1")" "" "no cgroup of a job is left"
	nothing_left_soon "jobs leave no process behind"
}
