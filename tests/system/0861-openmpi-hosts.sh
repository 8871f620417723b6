#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Programs of Open MPI as this distribution has it on one to eight hosts with networks of their own,
# under mpi/pmix. This Open MPI wants a temporary directory of each host's own.
# shellcheck source=tests/lib/nodes.sh
. "${top_srcdir:?}/tests/lib/nodes.sh"
on_nodes 8 "$0" "$@"
[ -x "$top_builddir/tests/lib/pmixclient" ] || skip_all "built without mpi/pmix: configure found no libpmix"
build_ompi "$top_srcdir/tests/lib/mpiprogram.c" "$tmpdir/mpiprogram"
build_ompi "$top_srcdir/tests/lib/mpi_sum.c" "$tmpdir/mpi_sum"

OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,tcp OMPI_MCA_btl_tcp_if_include=eth0
OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
export OMPI_MCA_pml OMPI_MCA_btl OMPI_MCA_btl_tcp_if_include OMPI_MCA_rmaps_base_oversubscribe OMPI_MCA_mpi_yield_when_idle
for node in $STEPD_NODES; do
	mkdir "$tmpdir/$node"
done
cat >"$tmpdir/there" <<END
#!/bin/sh
TMPDIR=$tmpdir/\$(hostname) exec "\$@"
END
chmod 755 "$tmpdir/there"

run() { # NODES TASKS ARG...
	run_nodes=$1 run_tasks=$2
	shift 2
	out=$(across "$run_nodes" -n "$run_tasks" --mpi=pmix -- "$tmpdir/there" "$@" 2>&1)
	status=$?
}

for way in '1 2' '2 2' '3 5' '8 8'; do
	# shellcheck disable=SC2086 # two words
	run $way "$tmpdir/mpiprogram" hello
	printed 1 "^hello from ${way#* }\$" "${way#* } ranks of Open MPI on ${way% *} hosts run"
done
run 4 8 "$tmpdir/mpi_sum"
printed 8 'of 8, 2 here: right$' "8 ranks of Open MPI on 4 hosts add up"
run 3 6 "$tmpdir/mpiprogram" ring
printed 1 '^ring of 6$' "a token goes round three hosts"
run 3 3 "$tmpdir/mpiprogram" abort
is "$status" 5 "MPI_Abort ends the step on all hosts with its status"
nothing_left_soon "the job leaves no cgroup, process or file behind"
done_testing
