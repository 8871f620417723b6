#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# A rank that dies between MPI_Init and MPI_Finalize ends the step, on all nodes, with a line that
# names it; -K0, the spec or the site can have it otherwise. With MPICH, Open MPI and PMI alone.
# shellcheck source=tests/lib/step.sh
. "${top_srcdir:?}/tests/lib/step.sh"
# shellcheck source=tests/lib/mpi.sh
. "${top_srcdir:?}/tests/lib/mpi.sh"
command -v python3 >/dev/null || skip_all "needs python3"
steprun=${top_builddir:?}/stepd/cli/steprun
unset TMPDIR

judged() { # of --result: reason, exit status, and of each task its status, with r if it ended on request
	json_get "$tmpdir/r" '" ".join(map(str, [*sorted({n["reason"] for n in d.get("nodes", [d])}), exit_code, *sorted(
		"%d:%s%s" % (t["rank"], t["exit_code"], "r" if t["on_request"] else "")
		for n in d.get("nodes", [d]) for t in n["tasks"])]))'
}

dies() { # PLUGIN TASKS OPTION... -- PROGRAM...: $out, $status
	dies_mpi=$1 dies_n=$2
	shift 2
	rm -f "$tmpdir/r"
	out=$(timeout 900 "$stepd" run --job "$job" --proctrack "$tracker" --mpi="$dies_mpi" -n "$dies_n" \
		--result "$tmpdir/r" "$@" 2>&1)
	status=$?
}

named() { # HOW NAME: one line reports it
	is "$(printf '%s\n' "$out" | grep -Ec "error: task [0-9]+ $1 before MPI_Finalize: the step ends \(-K0 lets the others run on\)\$")" \
		1 "$2"
}

ran_on() { # COUNT NAME
	is "$(printf '%s\n' "$out" | grep -c '^ran on: ')" "$1" "$2"
}

# ---- real libraries ------------------------------------------------------------------------------
libraries() { # PLUGIN LIBRARY PROGRAM
	dies "$1" 3 -- "$3" ends s11
	is "$(judged)" "abort 139 0:143r 1:143r 2:139" "$2: a rank killed by a signal ends the step with its status"
	named 'was killed by signal 11 \(SEGV\)' "$2: the log has one line for the killed rank, with its signal"
	dies "$1" 2 -- "$3" ends 3
	is "$(judged)" "abort 3 0:143r 1:3" "$2: a rank that exits with a status before MPI_Finalize ends the step"
	named 'exited with status 3' "$2: one line names the status of a rank that exits before MPI_Finalize"
	dies "$1" 2 -- "$3" ends 0
	is "$(judged)" "abort 1 0:143r 1:0" "$2: a rank that exits with 0 before MPI_Finalize ends the step with 1"
	dies "$1" 2 -- "$3" ends 4 late
	is "$(judged)" "completed 4 0:0 1:4" "$2: a rank that fails after MPI_Finalize does not end the step"
	ran_on 1 "$2: the other rank runs on after one failed behind MPI_Finalize"
	dies "$1" 1 -- "$3" ends 0
	is "$(judged)" "completed 0 0:0" "$2: the only rank of a step that exits with 0 gives 0"
	dies "$1" 3 -K0 -- "$3" outlives s9
	is "$(judged)" "completed 137 0:0 1:0 2:137" "$2: -K0 lets the others run to their end"
	ran_on 2 "$2: -K0 lets the others finish their work"
	unlike "$out" 'before MPI_Finalize' "$2: no line reports the step's end with -K0"
}

if command -v mpicc.mpich >/dev/null; then
	build_mpi "$top_srcdir/tests/lib/mpiprogram.c" "$tmpdir/mpich"
	libraries pmi2 MPICH "$tmpdir/mpich"
else
	skip 11 "needs MPICH"
fi
if command -v mpicc.openmpi >/dev/null && [ -x "$top_builddir/tests/lib/pmixclient" ]; then
	build_ompi "$top_srcdir/tests/lib/mpiprogram.c" "$tmpdir/ompi"
	libraries pmix "Open MPI" "$tmpdir/ompi"
else
	skip 11 "needs Open MPI and mpi/pmix"
fi

# ---- PMI without MPI, and options of the end ------------------------------------------------------
command -v bash >/dev/null || skip_all "needs bash"
cat >"$tmpdir/pmi" <<'END'
#!/bin/bash
# pmi LAST OTHERS: the last rank begins PMI-1 and does LAST; the others begin it and do OTHERS.
pmi() { echo "cmd=$1" >&"$PMI_FD"; read -r answer <&"$PMI_FD"; }
begin() { pmi "init pmi_version=1 pmi_subversion=1"; }
finalize() { pmi finalize; }
if [ "$PMI_RANK" -eq $((PMI_SIZE - 1)) ]; then
	begin
	# Not before the others are there.
	pmi barrier_in
	eval "$1"
else
	begin
	pmi barrier_in
	eval "$2"
	echo "ran on: $PMI_RANK"
fi
END
chmod 755 "$tmpdir/pmi"
other='sleep 0.5; finalize'

dies pmi2 2 -- "$tmpdir/pmi" 'exit 0' 'sleep 60'
is "$(judged)" "abort 1 0:143r 1:0" "PMI without MPI: a program that begins it and exits ends the step"
dies pmi2 2 --pmi-tcp -- python3 "$top_srcdir/tests/lib/pmi_talk.py" death
like "$out" 'error: task 1 was killed by signal 9 \(KILL\) before MPI_Finalize' \
	"PMI over TCP: a rank that is killed before it finalizes ends the step"
dies pmi2 2 -- "$tmpdir/pmi" 'finalize; exit 7' "$other"
is "$(judged)" "completed 7 0:0 1:7" \
	"PMI without MPI: a rank that has finalized does not end the step, whatever its status"
dies pmi2 2 -- "$tmpdir/pmi" 'finalize; begin; exit 7' 'sleep 60'
is "$(judged)" "abort 7 0:143r 1:7" "PMI without MPI: a rank that has begun again ends the step"
dies pmi2 2 -- bash -c '[ $PMI_RANK = 0 ] && exit 5; sleep 0.5; echo "ran on: 1"'
is "$(judged)" "completed 5 0:5 1:0" "a task that never uses PMI does not end the step"
dies none 2 -- bash -c '[ $SLURM_PROCID = 0 ] && kill -9 $$; sleep 0.5; echo "ran on: 1"'
is "$(judged)" "completed 137 0:137 1:0" "a task without an MPI plugin does not end the step"

dies pmi2 2 --no-kill -- "$tmpdir/pmi" 'exit 0' "$other"
is "$(judged)" "completed 0 0:0 1:0" "--no-kill lets the others run on"
dies pmi2 2 -K1 -- "$tmpdir/pmi" 'exit 0' 'sleep 60'
is "$(judged)" "abort 1 0:143r 1:0" "-K1 ends the step where a rank exits with 0 before it finalizes"
dies pmi2 2 -K1m -- "$tmpdir/pmi" 'exit 3' "$other"
is "$(judged)" "completed 3 0:0 1:3" "-K1m gives the other ranks a grace time"

conf=$tmpdir/stepd.conf
site() {
	echo "kill_on_bad_exit = $1" >"$conf"
	shift
	dies pmi2 2 --config "$conf" "$@"
}
site 0 -- "$tmpdir/pmi" 'exit 3' "$other"
is "$(judged)" "completed 3 0:0 1:3" "kill_on_bad_exit = 0 lets the others run on"
site 0 -K1 -- "$tmpdir/pmi" 'exit 3' 'sleep 60'
is "$(judged | cut -d ' ' -f 2)" 3 "-K1 overrides kill_on_bad_exit = 0"
site 1 -- "$tmpdir/pmi" 'finalize; exit 3' 'sleep 60'
is "$(judged)" "bad-exit 3 0:143r 1:3" "kill_on_bad_exit = 1 ends the step by any failure"
site mpi -- "$tmpdir/pmi" 'exit 3' 'sleep 60'
is "$(judged)" "abort 3 0:143r 1:3" "kill_on_bad_exit = mpi ends the step by a rank's death"
site maybe -- true
is "$status $out" "125 stepd $job.0: error: $conf: line 1: kill_on_bad_exit: 'maybe' is neither 0 nor 1 nor mpi" \
	"kill_on_bad_exit = maybe is refused"

# ---- a requested end -------------------------------------------------------------------
dies pmi2 2 --time-limit=1s -- "$tmpdir/pmi" 'sleep 60' 'sleep 60'
is "$(judged)" "time-limit 124 0:143r 1:143r" "ranks ended by the time limit do not abort the step"
unlike "$out" 'before MPI_Finalize' "no line names ranks that the time limit ended"

# ---- a step of several nodes ---------------------------------------------------------------------
across() { # LAST OTHERS OPTION...
	across_last=$1 across_others=$2
	shift 2
	rm -f "$tmpdir/r"
	out=$(timeout 900 "$steprun" --launcher=local --job "$job" --proctrack "$tracker" --mpi=pmi2 -N 3 -n 6 \
		--result "$tmpdir/r" "$@" "$tmpdir/pmi" "$across_last" "$across_others" 2>&1)
	status=$?
}

across 'kill -9 $$' 'sleep 60'
is "$status $(judged)" "137 abort 137 0:143r 1:143r 2:143r 3:143r 4:143r 5:137" \
	"a rank that dies on one node ends the parts of all"
named 'on node [^ ]* was killed by signal 9 \(KILL\)' "one line of all nodes names the dead rank and its node"
across 'kill -9 $$' "$other" -K0
is "$status $(judged)" "137 completed 137 0:0 1:0 2:0 3:0 4:0 5:137" "-K0 lets the other nodes run on"
ran_on 5 "-K0 lets the ranks of other nodes run to their end"

# ---- an upgrade of the agent ---------------------------------------------------------------------
cat >"$tmpdir/upgraded" <<END
until [ -e "$tmpdir/go" ]; do sleep 0.05; done
exit 6
END
rm -f "$tmpdir/r"
"$stepd" run --job "$job" --proctrack "$tracker" --mpi=pmi2 -n 2 --result "$tmpdir/r" -- \
	"$tmpdir/pmi" "echo there; . '$tmpdir/upgraded'" 'sleep 60' >"$tmpdir/out" 2>&1 &
pid=$!
eventually grep -q there "$tmpdir/out"
"$stepctl" reexec "$job.0" >/dev/null 2>"$tmpdir/err"
is "$? $(cat "$tmpdir/err")" "0 " "stepctl reexec of a step with PMI succeeds"
: >"$tmpdir/go"
wait "$pid"
is "$(judged)" "abort 6 0:143r 1:6" "a rank's death ends the step after an upgrade"

nothing_left_soon "the job leaves no cgroup, process or file behind"
done_testing
