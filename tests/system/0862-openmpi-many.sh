#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Programs of Open MPI as this distribution has it, under mpi/pmix, from one rank to many, and on one
# to eight hosts with networks of their own: each program on each number of hosts.

# shellcheck source=tests/lib/nodes.sh
. "${top_srcdir:?}/tests/lib/nodes.sh"
on_nodes 8 "$0" "$@"
[ -x "$top_builddir/tests/lib/pmixclient" ] || skip_all "built without mpi/pmix: configure found no libpmix"
program=$tmpdir/mpiprogram
build_ompi "$top_srcdir/tests/lib/mpiprogram.c" "$program"

OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,tcp OMPI_MCA_btl_tcp_if_include=eth0 OMPI_MCA_mpi_yield_when_idle=1
export OMPI_MCA_pml OMPI_MCA_btl OMPI_MCA_btl_tcp_if_include OMPI_MCA_mpi_yield_when_idle
# This Open MPI wants a temporary directory of each host's own.
for node in $STEPD_NODES; do
	mkdir "$tmpdir/$node"
done
cat >"$tmpdir/there" <<END
#!/bin/sh
TMPDIR=$tmpdir/\$(hostname) exec "$program" "\$@"
END
chmod 755 "$tmpdir/there"

# HOSTS RANKS VERB: $out, $status
on() {
	out=$(across "$1" -n "$2" --mpi=pmix -- "$tmpdir/there" "$3" 2>&1)
	status=$?
}

# Open MPI's ranks poll while they wait in their first fences: many take minutes where they share two
# processors.
many=
[ "$(getconf _NPROCESSORS_ONLN)" -lt 8 ] || many='1x16 8x16 8x64 1x128 8x128'
for way in 1x1 1x8 $(rounds "" "2x8 4x8") 8x8 $many; do
	hosts=${way%x*} ranks=${way#*x}
	on "$hosts" "$ranks" hello
	printed 1 "^hello from $ranks\$" "$ranks ranks of Open MPI on $hosts hosts run"
	on "$hosts" "$ranks" ring
	printed 1 "^ring of $ranks\$" "a token goes round $ranks ranks on $hosts hosts"
	on "$hosts" "$ranks" allreduce
	printed 1 "^allreduce of $ranks: right\$" "$ranks ranks on $hosts hosts add up"
done

for hosts in 1 $(rounds "" "2 4") 8; do
	on "$hosts" $((hosts * 2)) ports
	printed 1 '^through a port: 7$' "ports are published, looked up and connected on $hosts hosts"
	on "$hosts" $((hosts * 2)) spawn
	printed 1 "^parent of 2\$" "MPI_Comm_spawn succeeds on $hosts hosts"
	on "$hosts" $((hosts * 2)) abort
	is "$status" 5 "MPI_Abort ends the step on $hosts hosts with its status"
done

nothing_left "the job leaves no cgroup, process or file behind"
done_testing
