#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Programs of Debian's MPICH, unmodified: they find each other, compute, and abort the step.
. "${top_srcdir:?}/tests/lib/pmi.sh"

build_mpi "$top_srcdir/tests/lib/mpi_sum.c" "$tmpdir/mpi_sum"

right() { # N OPTION...: how many of N ranks print that it is right
	n=$1
	shift
	step -q --mpi=pmi2 -n "$n" "$@" -- "$tmpdir/mpi_sum" >"$tmpdir/out" 2>"$tmpdir/err" ||
		echo "status $?: $(cat "$tmpdir/err")"
	grep -c "of $n, $n here: right" "$tmpdir/out"
}

for n in 1 2 3 8 32; do
	is "$(right $n)" $n "$n ranks of MPICH add up"
done
is "$(right 4 --pmi-tcp)" 4 "4 ranks of MPICH add up over TCP"

# More of them than processors spin for each other: in sessions of their own the kernel gives each its
# share beside whatever else this machine does.
for n in $(rounds 48 "64 128"); do
	step -q --mpi=pmi2 -n $n -- setsid -w "$tmpdir/mpi_sum" >"$tmpdir/out" 2>"$tmpdir/err"
	is "$?, $(grep -c "of $n, $n here: right" "$tmpdir/out")" "0, $n" \
		"$n ranks of MPICH in sessions of their own add up"
done
n=$(rounds 32 128)
out=$(talk "$n" exchange)
is "$(printf '%s\n' "$out" | grep -c '^ok')" "$n" "$n tasks fence, ring and look up"

out=$(step --mpi=pmi2 -n 3 -- "$tmpdir/mpi_sum" 7 2>&1)
is $? 7 "MPI_Abort ends the step with its code"
like "$out" 'rank 2 called MPI_Abort\(\) with code 7' "the log names the rank that called MPI_Abort"

# ---- environment -------------------------------------------------------------------------------
out=$(PMI_FD=3 PMI_PORT=1:2 PMI_ID=9 PMIX_NAMESPACE=x PMIX_RANK=0 PMI_SPAWNED=1 PMI_DEBUG=0 \
	step --mpi=pmi2 -n 2 --job 71 -- sh -c 'echo "$(env | grep ^PMI | sort | tr "\n" " ")"')
like "$out" '^PMI_DEBUG=0 PMI_FD=[0-9]+ PMI_JOBID=71.0 PMI_RANK=0 PMI_SIZE=2 $' "rank 0 has PMI's environment"
like "$out" '^PMI_DEBUG=0 PMI_FD=[0-9]+ PMI_JOBID=71.0 PMI_RANK=1 PMI_SIZE=2 $' "rank 1 has PMI's environment"
out=$(PMI_FD=3 PMI_PORT=1:2 PMI_ID=9 step --mpi=pmi2 --pmi-tcp --job 71 -- sh -c 'env | grep ^PMI | sort | tr "\n" " "')
like "$out" '^PMI_ID=[0-9]+ PMI_JOBID=71.0 PMI_PORT=127.0.0.1:[0-9]+ PMI_RANK=0 PMI_SIZE=1 $' \
	"a rank has PMI's environment over TCP"
is "$(step --mpi=pmi2 -- sh -c 'echo $SLURM_MPI_TYPE')" pmi2 "SLURM_MPI_TYPE names the plugin"

# ---- one program after another ------------------------------------------------------------------
# MPICH's programs shut the descriptor down at their end: those do it over TCP alone.
out=$(step -q --mpi=pmi2 --pmi-tcp -n 2 -- sh -c "'$tmpdir/mpi_sum' && '$tmpdir/mpi_sum'")
is "$(printf '%s\n' "$out" | grep -c right)" 4 "a task runs one MPI program after another over TCP"
out=$(step -q --mpi=pmi2 -n 2 -- sh -c "python3 '$talk_py' bench && exec python3 '$talk_py' appnum")
is "$(printf '%s\n' "$out" | grep -c 'appnum 0')" 2 \
	"a task runs one PMI program after another on a descriptor that they leave open"

nothing_left "the job leaves no cgroup, process or file behind"
done_testing
