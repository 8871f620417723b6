#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Programs of Debian's MPICH, unmodified, on one to eight hosts with networks of their own
# (tests/testbed/nodes): steprun starts an agent on each, and their service processes exchange what
# the ranks put.
# shellcheck source=tests/lib/nodes.sh
. "${top_srcdir:?}/tests/lib/nodes.sh"
on_nodes 8 "$0" "$@"
build_mpi "$top_srcdir/tests/lib/mpi_sum.c" "$tmpdir/mpi_sum"

right() { # NODES TASKS HERE OPTION...: how many of the ranks print that it is right
	nodes=$1 tasks=$2 here=$3
	shift 3
	across "$nodes" -n "$tasks" --mpi=pmi2 "$@" -- "$tmpdir/mpi_sum" >"$tmpdir/out" 2>"$tmpdir/err" ||
		echo "status $?: $(cat "$tmpdir/err")"
	grep -c "of $tasks, $here here: right" "$tmpdir/out"
}

is "$(right 1 4 4)" 4 "4 ranks of MPICH on one host add up"
is "$(right 2 2 1)" 2 "2 ranks of MPICH on 2 hosts add up"
is "$(right 4 8 2)" 8 "8 ranks of MPICH on 4 hosts add up"
is "$(right 8 16 2)" 16 "16 ranks of MPICH on 8 hosts add up"
is "$(right 4 8 2 -m cyclic)" 8 "ranks of MPICH distributed in turn add up"
is "$(right 4 8 2 --wire-fanout=2)" 8 "ranks of MPICH over a narrow tree add up"
is "$(right 4 8 2 --pmi-tcp)" 8 "ranks of MPICH with PMI over TCP add up"

# Ranks of MPICH spin while they wait: in sessions of their own the kernel gives each its share of
# the processors beside whatever else this machine does.
ranks=$(rounds 32 128)
across 8 -n "$ranks" --mpi=pmi2 -- setsid -w "$tmpdir/mpi_sum" >"$tmpdir/out" 2>"$tmpdir/err"
is "$?, $(grep -c "of $ranks, $((ranks / 8)) here: right" "$tmpdir/out")" "0, $ranks" \
	"$ranks ranks of MPICH on 8 hosts add up"

out=$(across 4 -n 8 --mpi=pmi2 -- "$tmpdir/mpi_sum" 9 2>&1)
is $? 9 "MPI_Abort ends the step on all hosts with its code"
like "$out" 'rank 7 called MPI_Abort\(\) with code 9' "the log names the rank that called MPI_Abort"
nothing_left_soon "the job leaves no cgroup, process or file behind on any host"
done_testing
