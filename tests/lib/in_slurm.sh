# shellcheck shell=sh
# SPDX-License-Identifier: BSD-3-Clause
#
# For scripts that a test runs in a Slurm of its own (local_slurm.sh); they have it as $1/functions.
#	until_true COMMAND...  waits until it succeeds, at most 200 s; it is tried every $pause seconds
#	has_lines FILE COUNT   whether it has as many lines at least
#	is_gone PID            whether it has ended
#	no_step                whether no node has the socket of a step
#	line NAME COMMAND...   runs it in the background: its output, messages and status are in NAME.out,
#	                       NAME.err and NAME.rc. $limit is a command before it, if it is set
#	shell NAME TEXT        the same for a shell's text
#	running NAME COMMAND...  the same for a step of two tasks (slurm_waiting.py, as $dir/waiting) on one
#	                       node, to which COMMAND... STEP is done as soon as both run
# Batch jobs, which have a directory of their own, NAME:
#	submit NAME TEXT OPTION...  a script; its number is in NAME.id
#	script NAME TEXT OPTION...  the same beside the others
#	job NAME               its number
#	is_up NAME             whether the script has made a file "up"
#	state NAME             what scontrol has of it, of what is the same in each Slurm
#	is_over NAME, idle     whether the job is over, whether all are
# Daemons:
#	$at                    the directory of the Slurm
#	first_node             the name of one
#	end_slurmd SIGNAL NODE, begin_slurmd NODE
#	kill_slurmctld, begin_slurmctld  without a loss of what it knows of the jobs that run
#	end_daemons            those that have been begun, at the end

pause=0.05
until_true() {
	until_end=$(($(date +%s) + 200))
	until "$@" || [ "$(date +%s)" -gt $until_end ]; do sleep $pause; done
}

has_lines() {
	[ "$(wc -l <"$1")" -ge "$2" ]
}

is_gone() {
	! kill -0 "$1" 2>/dev/null
}

no_step() {
	for socket in "$(dirname "$SLURM_CONF")"/spool/*/*_[0-9]*.[0-9]*; do
		case $PWD/$socket in
		*real/*.4294967292) # slurmstepd of 24.11 leaves that of an extern step now and then
			grep -q " $socket\$" /proc/net/unix || continue
			;;
		esac
		[ ! -e "$socket" ] || return 1
	done
}

limit=
line() {
	name=$1
	shift
	{
		# shellcheck disable=SC2086 # a command
		$limit "$@" >"$name.out" 2>"$name.err" </dev/null
		echo $? >"$name.rc"
	} &
}

shell() {
	line "$1" sh -c "$2"
}

running() {
	name=$1
	shift
	{
		# shellcheck disable=SC2154 # the test's
		srun -Q --overlap -N 1 -n 2 python3 "$dir/waiting" >"$name.step" 2>"$name.err" </dev/null &
		pid=$!
		until_true has_lines "$name.step" 2
		"$@" "$SLURM_JOB_ID.$(head -n 1 "$name.step")" >"$name.command" 2>&1
		wait $pid
		echo $? >"$name.rc"
		sed 1,2d "$name.step" >"$name.out"
	} &
}

# ---- batch jobs ------------------------------------------------------------------------------
submit() {
	name=$1
	text=$2
	shift 2
	mkdir -p "$name"
	printf '#!/bin/sh\n%s\n' "$text" >"$name.script"
	(cd "$name" && exec sbatch --parsable "$@" "../$name.script" one 'two words' '') >"$name.id" 2>"$name.err"
}

script() {
	submit "$@" &
}

job() {
	cut -d';' -f1 "$1.id"
}

is_up() {
	[ -e "$1/up" ]
}

state() {
	scontrol -o show job "$(job "$1")" | tr ' ' '\n' |
		grep -E '^(JobState|Reason|ExitCode|Restarts|Requeue|BatchFlag|StdErr|StdIn|StdOut|WorkDir)='
}

is_over() {
	scontrol -o show job "$(job "$1")" | grep -Eq 'JobState=(COMPLETED|FAILED|CANCELLED|TIMEOUT|NODE_FAIL)'
}

idle() {
	[ -z "$(squeue -h)" ]
}

# ---- daemons ---------------------------------------------------------------------------------
at=$(dirname "${SLURM_CONF-}")
slurm_stepd=${BENCH_SLURM_STEPD-}
daemons=

first_node() {
	scontrol show hostnames "$(sinfo -h -o %N)" | head -n 1
}

end_slurmd() {
	slurmd=$(cat "$at/slurmd-$2.pid")
	kill "-$1" "$slurmd"
	until_true is_gone "$slurmd"
}

begin_slurmd() {
	BENCH_SLURM_NODE=$1 slurmd -D ${slurm_stepd:+-d "$slurm_stepd"} -f "$SLURM_CONF" -N "$1" >>"$at/slurmd-again.log" 2>&1 &
	slurmd=$!
	daemons="$daemons $slurmd"
	until_true grep -qx $slurmd "$at/slurmd-$1.pid"
}

# What it has on disk is to be of a time when the jobs ran: else it would start them again.
kill_slurmctld() {
	for running in $(squeue -h -t R -o %i); do
		scontrol update "JobId=$running" "Comment=runs-$running-"
		until_true grep -q "runs-$running-" "$at/state/job_state"
	done
	ctld=$(cat "$at/slurmctld.pid")
	kill -9 "$ctld"
	until_true is_gone "$ctld"
}

# A node is unknown to it until it has registered.
begin_slurmctld() {
	slurmctld -D -f "$SLURM_CONF" >>"$at/slurmctld-again.log" 2>&1 &
	daemons="$daemons $!"
	until_true nodes_known
}

nodes_known() {
	states=$(sinfo -h -o %T 2>/dev/null) && [ -n "$states" ] && ! echo "$states" | grep -q unknown
}

end_daemons() {
	for daemon in $daemons; do
		# One that was ended before may be somebody else's pid by now.
		[ "$(sed -n 's/^PPid:[^0-9]*//p' "/proc/$daemon/status" 2>/dev/null)" != $$ ] || kill "$daemon"
	done
	# shellcheck disable=SC2086
	wait $daemons
}
