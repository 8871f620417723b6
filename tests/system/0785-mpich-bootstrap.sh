#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# MPICH's programs under agents that MPICH's own mpiexec has started: hydra serves the agents, and
# the agents serve the ranks.
# shellcheck source=tests/lib/bootstrap.sh
. "${top_srcdir:?}/tests/lib/bootstrap.sh"
# shellcheck source=tests/lib/mpi.sh
. "$top_srcdir/tests/lib/mpi.sh"

command -v mpiexec.hydra >/dev/null || skip_all "needs Debian's mpich"
build_mpi "$top_srcdir/tests/lib/mpi_sum.c" "$tmpdir/mpi_sum"

under() { # AGENTS ARG...
	agents=$1
	shift
	timeout 900 mpiexec.hydra -n "$agents" -ppn 1 "$agent_command" --job "$job" --wire-ifname lo "$@" </dev/null
}

for how in pmi1 pmi2; do
	out=$(under 3 --bootstrap=$how --mpi=pmi2 -n 6 -- "$tmpdir/mpi_sum" 2>&1)
	is "$?, $(printf '%s\n' "$out" | grep -c 'of 6, 2 here: right')" "0, 6" \
		"six ranks of MPICH under three agents of hydra add up, by $how"
done
out=$(under 2 --bootstrap=pmi --mpi=pmi2 -n 5 -m cyclic --wire-auth=none -- "$tmpdir/mpi_sum" 2>&1)
is "$(printf '%s\n' "$out" | grep -c 'of 5, [23] here: right')" 5 \
	"ranks of MPICH distributed in turn over hydra's agents add up"
out=$(under 2 --bootstrap=pmi --mpi=pmi2 -n 4 -- "$tmpdir/mpi_sum" 9 2>&1)
is $? 9 "hydra ends with the code of MPI_Abort"
like "$out" 'rank 3 called MPI_Abort\(\) with code 9' "the agents report the rank that called MPI_Abort"
nothing_left_soon "the job leaves no cgroup, process or file behind"
done_testing
