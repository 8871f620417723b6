#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# mpi/pmix over several nodes, which are agents on this machine: every operation that crosses nodes,
# with its failure; and what is left of a fence when a server or an agent on its way is killed.

# shellcheck source=tests/lib/pmix.sh
. "${top_srcdir:?}/tests/lib/pmix.sh"

pmix_nodes 2 4 "$client" init
lines 4 '^init [0-3]: of 4$' "ranks on two nodes start and end"
pmix_nodes 3 6 "$client" get pmix.num.nodes pmix.anlmap @5 pmix.hname pmix.lrank
lines 6 'pmix.num.nodes=3$' "each rank knows how many nodes there are"
lines 6 'pmix.anlmap=\(vector,\(0,3,2\)\)$' "each rank knows where all ranks are"
lines 6 "pmix.hname=$(uname -n)-2\$" "each rank knows the node of another"
lines 6 'pmix.lrank=1$' "each rank knows another's place on its node"

for options in '' --pmi-timeout=0; do
	pmix_nodes 2 4 "$client" latekey
	lines 1 '^latekey 3: at last$' "a key that another node's rank commits later is waited for${options:+, with $options}"
done
options=
pmix_nodes 2 2 "$client" refresh
lines 1 '^refresh 1: second$' "a rank gets what a rank of another node changed"

cat >"$tmpdir/multi" <<END
0-1 $client get pmix.job.napps - pmix.appnum @3 pmix.appnum pmix.apprank
2-3 $client get pmix.job.napps - pmix.appnum @0 pmix.appnum
END
options=--multi-prog
pmix_nodes 2 4 "$tmpdir/multi"
lines 4 'pmix.job.napps=2$' "each rank on two nodes knows the number of command lines"
lines 2 '^value [23]: pmix.appnum=1$' "each rank on two nodes knows the number of its command line"
lines 2 '^value [01]: pmix.appnum=1$' "each rank on two nodes knows the command line of another node's rank"
lines 2 '^value [01]: pmix.apprank=1$' "each rank on two nodes knows another's place in its command line"
cat >"$tmpdir/multi" <<END
0-1 $client get app:0 pmix.app.argv
2-3 $client get app:1 pmix.app.argv app:0 pmix.app.argv
END
pmix_nodes 2 4 "$tmpdir/multi"
options=
lines 4 "^value [0-3]: pmix.app.argv=$client get app:0 pmix.app.argv\$" \
	"each rank on two nodes knows the arguments of a command line of another node"
lines 2 "^value [23]: pmix.app.argv=$client get app:1 pmix.app.argv app:0 pmix.app.argv\$" "ranks on two nodes know the arguments of their own command line"
for how in collect direct none; do
	pmix_nodes 3 6 "$client" modex $how
	lines 6 ': all$' "each rank on three nodes gets all ranks' data: $how"
done
pmix_nodes 3 6 "$client" fences 200
lines 6 ': done$' "200 fences in a row succeed over three nodes"
pmix_nodes 3 7 "$client" halves
lines 7 ': met$' "fences among some ranks on some nodes succeed"
pmix_nodes 2 4 "$client" connect
lines 4 ': and disconnected$' "ranks of two nodes connect and disconnect"
pmix_nodes 3 3 "$client" group
lines 3 ': gone$' "groups are constructed and destructed over three nodes"
is "$(printf '%s\n' "$out" | sed -n 's/^context [0-9]*: //p' | sort -u | wc -l)" 1 \
	"a group has one context id on all nodes"
pmix_nodes 3 6 "$client" event
lines 5 '^event [1-5]: .* from 0$' "an event reaches all nodes"
pmix_nodes 3 6 "$client" publish
lines 6 ': as it ought to be$' "published data is seen from all nodes"
pmix_nodes 3 6 "$client" query pmix.qry.ptable
pids_agree "the table of processes has the process ids of all nodes"
pmix_nodes 2 4 "$client" nokey
lines 4 ': not found$' "a key that nobody puts is not found on another node"
pmix_nodes 3 3 "$client" spawn "$client" 4
lines 4 '^child [0-3]: of 4' "spawned ranks over nodes all run"
lines 1 '^spawn 0: connected$' "spawned ranks over nodes connect with their parent"

options=-K0
pmix_nodes 3 6 "$client" death
lines 5 '^death [0-4]: PROC-ABORTED-BY-SIG from 5$' "the event of a killed rank reaches all nodes"
pmix_nodes 3 6 "$client" deathfence
lines 5 '^deathfence [0-4]: ' "fences that wait for a killed rank end on all nodes"
pmix_nodes 3 6 "$client" control
lines 1 '^control 5: signalled$' "ranks of other nodes are signalled"
pmix_nodes 3 6 "$client" abort 7 5
lines 1 'task 5 killed by signal 9' "ranks of other nodes are aborted"
options='-K0 -W15' # which ends the rank that is absent
pmix_nodes 3 3 "$client" absent 1
lines 2 '^absent [01]: TIMEOUT$' "a fence over nodes ends at its deadline"
lines 2 'missing are rank 2 on node 2 ' "a fence over nodes that fails names the missing ranks"
options=
pmix_nodes 3 6 "$client" abort 7
is "$status" 7 "PMIx_Abort ends the step on all nodes, with its status"

# ---- killed on the way ----

cat >"$tmpdir/killer" <<'END'
#!/bin/sh
# KILLER service|agent PROGRAM ARG...
what=$1
shift
if [ "$SLURM_NODEID" = 2 ] && [ "$what" = agent ]; then
	kill -KILL $PPID
elif [ "$SLURM_NODEID" = 2 ]; then
	for child in $(cat /proc/$PPID/task/*/children); do
		[ "$(cat /proc/"$child"/comm)" != stepd-mpi ] || kill -KILL "$child"
	done
fi
exec "$@"
END
chmod 755 "$tmpdir/killer"
options=-K0
pmix_nodes 3 3 "$tmpdir/killer" service "$client" fences 1
isnt "$status" 0 "the step whose server on one node is killed fails"
lines 1 'the MPI service process \(pid [0-9]*\) ended by signal 9' "the agent of a killed server logs its death"
lines 0 ': done$' "no rank takes a fence with a killed server for complete"
options=
pmix_nodes 3 3 "$tmpdir/killer" agent "$client" absent
isnt "$status" 124 "the step whose agent on one node is killed ends"
"$stepctl" clean >/dev/null 2>&1

# ---- Open MPI ----

if cc=$(command -v mpicc.openmpi); then
	program=$tmpdir/mpiprogram
	"$cc" -O1 -o "$program" "$top_srcdir/tests/lib/mpiprogram.c" ||
		bail "the MPI program can't be compiled"
	# Its shared memory takes nodes of one machine for one; and who waits would keep the few CPUs,
	# of which each node believes to have its own.
	export OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,tcp OMPI_MCA_btl_tcp_if_include=lo
	export OMPI_MCA_mpi_yield_when_idle=1
	pmix_nodes 8 8 "$program" hello
	lines 1 '^hello from 8$' "8 ranks of Open MPI on 8 nodes run"
	pmix_nodes 4 8 "$program" ring
	lines 1 '^ring of 8$' "a token goes round 8 ranks of Open MPI on 4 nodes"
	pmix_nodes 2 2 "$program" spawn
	lines 1 '^child 0 of 2 got 42$' "MPI_Comm_spawn on 2 nodes succeeds"
	pmix_nodes 2 2 "$program" spawns 10
	lines 1 '^spawned 10$' "a loop of MPI_Comm_spawn on 2 nodes meets each child"
	is "$status" 0 "a step with a loop of MPI_Comm_spawn on 2 nodes succeeds"
	pmix_nodes 4 4 "$program" ports
	lines 1 '^through a port: 7$' "ports are published and connected between nodes"
	pmix_nodes 3 3 "$program" abort
	is "$status" 5 "MPI_Abort on 3 nodes ends the step with its status"
else
	skip 7 "Open MPI's compiler is not here"
fi

nothing_left_soon "the job leaves no cgroup, process or file behind"
done_testing
