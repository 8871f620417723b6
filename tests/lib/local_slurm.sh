# shellcheck shell=sh
# SPDX-License-Identifier: BSD-3-Clause
#
# For tests of stepd-slurmstepd under a real slurmd, on top of step.sh. A Slurm of the test's own
# (tests/bench/with-slurm) runs the script "$tmpdir/inside", which leaves what it has seen in files:
#	needs_slurm PROGRAM...  skips the test without root, a Slurm, or one of these
#	has_program PROGRAM  whether the Slurm's system has it
#	in_system COMMAND...  runs it there, from $tmpdir
#	serve KINDS         what of steps is served, "srun, batch"; $PROGRAM is the program. Makes
#	                    $tmpdir/functions, in_slurm.sh, for inside, $tmpdir/waiting, and $tmpdir/meet, a program
#	                    for tasks: "meet NAME COUNT" ends when so many of them run it
#	in_slurm NAME PORT ARG...  runs sh "$tmpdir/inside" "$tmpdir" NAME ARG... in a Slurm, at most
#	                    $limit_s seconds. $BENCH_SLURM_... are with-slurm's; @NAME@ in their lines is NAME
#	in_both [-p PREFIX] ARG...  the same in two at a time, whose names are PREFIX and "served", with
#	                    $slurm_program in slurmstepd's place ($PROGRAM), and "real". An inside that
#	                    comes to its end writes $tmpdir/NAME/over; the test is skipped where no Slurm comes up
#	$own_mounts         a command before all of this, "unshare --mount" for a Slurm that makes mounts
#	slurm_port COUNT    the first of so many ports of the test's own
#	alike [FILE...]     prints it without what is another in each Slurm: names of nodes, times, numbers of
#	                    steps, the directory, what srun says of a race of its own; a line for each task
#	log_lines           what the program has logged, where BENCH_SLURM_LINES has $slurmd_log
# With STEPD_TEST_SLURM=trixie, or sid, the Slurm is that of another Debian, in a tree of its own, with the path of a
# tree the one that is there (slurm_root.sh); $slurm_root is the tree, and $STEPD_TEST_PROTOCOL the version that slurm_client.py speaks.

# shellcheck source=tests/lib/step.sh
. "${top_srcdir:?}/tests/lib/step.sh"
# shellcheck source=tests/lib/slurm_root.sh
. "$top_srcdir/tests/lib/slurm_root.sh"

# shellcheck disable=SC2034,SC2154 # for tests; of tap.sh
slurmd_log=SlurmdLogFile=$tmpdir/@NAME@.%n.log
limit_s=300

slurm_root=
needs_slurm() {
	[ "$(id -u)" = 0 ] || skip_all "needs root"
	command -v ip >/dev/null || skip_all "needs ip"
	[ -n "$slurm_root" ] || [ -z "${STEPD_TEST_SLURM-}" ] || find_slurm_root "$STEPD_TEST_SLURM" ||
		skip_all "$slurm_root_reason"
	for program in munged slurmctld slurmd salloc "$@"; do
		has_program "$program" || skip_all "needs Slurm and more: there is no $program"
	done
}

has_program() {
	if [ -n "$slurm_root" ]; then
		[ -x "$slurm_root/usr/bin/$1" ] || [ -x "$slurm_root/usr/sbin/$1" ]
	else
		command -v "$1" >/dev/null
	fi
}

in_system() {
	if [ -n "$slurm_root" ]; then
		in_slurm_root "$@"
	else
		# shellcheck disable=SC2086 # words
		(cd "$tmpdir" && exec ${own_network-} "$@")
	fi
}

STEPD_TEST_PROTOCOL=$(slurm_protocol "${STEPD_TEST_SLURM-}")
export STEPD_TEST_PROTOCOL

serve() {
	PROGRAM=$(cd "${top_builddir:?}" && pwd)/contrib/slurm/stepd-slurmstepd
	slurm_program=$PROGRAM
	STEPD_CONFIG=$tmpdir/stepd.conf
	export PROGRAM STEPD_CONFIG
	echo "slurm_serve = $1" >"$STEPD_CONFIG"
	cp "$top_srcdir/tests/lib/in_slurm.sh" "$tmpdir/functions"
	cp "$top_srcdir/tests/lib/slurm_waiting.py" "$tmpdir/waiting"
	# Slurm does not end an agent that is being started: srun -K, whose first task has failed by then, waits for it.
	cat >"$tmpdir/meet" <<-'S'
		#!/bin/sh
		: >"$1.$SLURM_PROCID.here"
		until [ "$(ls "$1".*.here | wc -l)" = "$2" ]; do sleep 0.05; done
	S
	chmod 755 "$tmpdir/meet"
}

slurm_port() {
	echo $((12000 + $$ % (18000 / $1) * $1))
}

in_slurm() {
	slurm_name=$1
	slurm_port=$2
	shift 2
	own_network="${own_mounts-} sh $top_srcdir/tests/testbed/own-network" \
	BENCH_SLURM_LINES=$(echo "$BENCH_SLURM_LINES" | sed "s/@NAME@/$slurm_name/g") \
	BENCH_SLURM_DATABASE=${BENCH_SLURM_DATABASE:+slurm_$(echo "$slurm_name" | tr - _)} \
	BENCH_SLURM_ALLOCATION=no BENCH_SLURM_PORT=$slurm_port in_system timeout -k 90 "$limit_s" \
		sh "$top_srcdir/tests/bench/with-slurm" sh "$tmpdir/inside" "$tmpdir" "$slurm_name" "$@" \
		>"$tmpdir/$slurm_name.slurm" 2>&1
}

in_both() {
	both_prefix=
	[ "${1-}" != -p ] || {
		both_prefix=$2
		shift 2
	}
	both_ports=$((${BENCH_SLURM_NODES:-1} + 1))
	[ -z "${BENCH_SLURM_DATABASE-}" ] || both_ports=$((both_ports + 1))
	both_port=$(slurm_port $((both_ports * 2)))
	BENCH_SLURM_STEPD=$slurm_program in_slurm "${both_prefix}served" "$both_port" "$@" &
	both_pid=$!
	in_slurm "${both_prefix}real" $((both_port + both_ports)) "$@"
	wait "$both_pid" # a test may have other processes
	for name in "${both_prefix}served" "${both_prefix}real"; do
		came_to_end "$name"
	done
}

# The directory is what a script begins with.
came_to_end() { # NAME
	[ ! -s "$tmpdir/$1/over" ] || return 0
	[ -d "$tmpdir/$1" ] || skip_all "no Slurm came up: $(tail -n 1 "$tmpdir/$1.slurm")"
	bail "$1: the script has not come to its end within $limit_s s: $(tail -n 1 "$tmpdir/$1.slurm")"
}

alike() {
	sed -E 's/bench[0-9]+/NODE/g; s,/([a-z]+-)?(real|served)\>,/DIR,g; s/\[[-0-9]{10}T[0-9:]{8}\.[0-9]{3}\] /[TIME] /; s/[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}/TIME/
		/^srun: error: IO: Hey, you told me node [0-9]+ was down!$/d
		s/(STEP|StepId=)[ ]?[0-9]+\.[0-9]+/\1 ID/; s/(\*\*\* JOB )[0-9]+ ON/\1ID ON/; s/\<SLURM_JOB_SLUID=s[0-9A-Z]{13}/SLURM_JOB_SLUID=ID/
		' "$@" | tasks_apart
}

# "srun: error: NODE-1: tasks 0-1,3: Killed": those that end within a moment are reported together.
tasks_apart() {
	awk '!match($0, /: tasks? [0-9,-]+: /) { print; next }
		{
			before = substr($0, 1, RSTART - 1); after = substr($0, RSTART + RLENGTH)
			list = substr($0, RSTART, RLENGTH); gsub(/[^0-9,-]/, "", list)
			n = split(list, ranges, ",")
			for (i = 1; i <= n; i++) {
				split(ranges[i], ends, "-")
				for (t = ends[1]; t <= (ends[2] == "" ? ends[1] : ends[2]); t++)
					print before ": task " t ": " after
			}
		}'
}

log_lines() {
	cat "$tmpdir"/*served.*.log | grep ' stepd-slurmstepd: '
}
