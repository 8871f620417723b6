#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Programs of Open MPI as this distribution has it, under mpi/pmix.

# shellcheck source=tests/lib/pmix.sh
. "${top_srcdir:?}/tests/lib/pmix.sh"

cc=$(command -v mpicc.openmpi) || skip_all "Open MPI's compiler is not here"
program=$tmpdir/mpiprogram
"$cc" -O1 -o "$program" "$top_srcdir/tests/lib/mpiprogram.c" ||
	bail "the MPI program can't be compiled"

mpi() {
	mpi_tasks=$1
	shift
	out=$(step --mpi pmix -n "$mpi_tasks" -- "$program" "$@" 2>&1)
	status=$?
}

for n in 1 2 8 16; do
	mpi $n hello
	lines 1 "^hello from $n\$" "$n ranks of Open MPI add up"
	is "$status" 0 "a step of $n ranks of Open MPI succeeds"
done
mpi 4 ring
lines 1 '^ring of 4$' "a token goes round four ranks of Open MPI"
# Between jobs Open MPI 5 has no shared memory, and leaves out what a network of one host needs.
export OMPI_MCA_btl_tcp_if_include=lo
mpi 2 spawn
lines 1 '^parent of 2$' "MPI_Comm_spawn returns to its parents"
lines 1 '^child 0 of 2 got 42$' "ranks spawned by MPI_Comm_spawn get a message"
is "$status" 0 "a step with MPI_Comm_spawn succeeds"
mpi 2 spawns 6
lines 1 '^spawned 6$' "a program that spawns in a loop meets each of its children"
is "$status" 0 "a step with a loop of MPI_Comm_spawn succeeds"
unset OMPI_MCA_btl_tcp_if_include
mpi 4 ports
lines 1 '^through a port: 7$' "a published port is looked up, accepted and connected"
is "$status" 0 "a step with published ports succeeds"
mpi 3 abort
is "$status" 5 "MPI_Abort ends the step with its status"

cpus=$(getconf _NPROCESSORS_ONLN)
# shellcheck disable=SC2016 # for the task's shell
out=$(step --mpi pmix -n $((cpus + 1)) -- sh -c 'echo "give way: $OMPI_MCA_mpi_oversubscribe"')
lines $((cpus + 1)) '^give way: 1$' "Open MPI's ranks yield where there are more tasks than CPUs"
# shellcheck disable=SC2016
out=$(OMPI_MCA_mpi_oversubscribe=0 step --mpi pmix -n $((cpus + 1)) -- \
	sh -c 'echo "give way: $OMPI_MCA_mpi_oversubscribe"')
lines $((cpus + 1)) '^give way: 0$' "the user's OMPI_MCA_mpi_oversubscribe is not overridden"

nothing_left "the job leaves no cgroup, process or file behind"
done_testing
