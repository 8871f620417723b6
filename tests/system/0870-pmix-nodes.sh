#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# mpi/pmix over several nodes, which are agents on this machine: every operation that crosses nodes,
# with its failure; and what is left of a fence when a server or an agent on its way is killed.

# shellcheck source=tests/lib/pmix.sh
. "${top_srcdir:?}/tests/lib/pmix.sh"

steprun=${top_builddir:?}/stepd/cli/steprun
options=

# shellcheck disable=SC2086 # $options: several words
nodes() { # NODES TASKS PROGRAM ARG...
	nodes_count=$1
	nodes_tasks=$2
	shift 2
	out=$(timeout 300 "$steprun" --launcher=local --job "$job" --mpi=pmix -N "$nodes_count" \
		-n "$nodes_tasks" $options "$@" 2>&1)
	status=$?
	out=$(printf '%s\n' "$out" | sort)
}

nodes 2 4 "$client" init
lines 4 '^init [0-3]: of 4$' "ranks on two nodes start and end"
nodes 3 6 "$client" get pmix.num.nodes pmix.anlmap @5 pmix.hname pmix.lrank
lines 6 'pmix.num.nodes=3$' "each rank knows how many nodes there are"
lines 6 'pmix.anlmap=\(vector,\(0,3,2\)\)$' "and where all ranks are"
lines 6 "pmix.hname=$(uname -n)-2\$" "and the node of another"
lines 6 'pmix.lrank=1$' "and its place there"

for options in '' --pmi-timeout=0; do
	nodes 2 4 "$client" latekey
	lines 1 '^latekey 3: at last$' "a key that another node's rank commits later is waited for${options:+, with $options}"
done
options=
nodes 2 2 "$client" refresh
lines 1 '^refresh 1: second$' "what a rank of another node has changed is got anew"

cat >"$tmpdir/multi" <<END
0-1 $client get pmix.job.napps - pmix.appnum @3 pmix.appnum pmix.apprank
2-3 $client get pmix.job.napps - pmix.appnum @0 pmix.appnum
END
options=--multi-prog
nodes 2 4 "$tmpdir/multi"
lines 4 'pmix.job.napps=2$' "of two command lines each node knows"
lines 2 '^value [23]: pmix.appnum=1$' "and which is its own"
lines 2 '^value [01]: pmix.appnum=1$' "and which is another node's"
lines 2 '^value [01]: pmix.apprank=1$' "and the place among those of it"
cat >"$tmpdir/multi" <<END
0-1 $client get app:0 pmix.app.argv
2-3 $client get app:1 pmix.app.argv app:0 pmix.app.argv
END
nodes 2 4 "$tmpdir/multi"
options=
lines 4 "^value [0-3]: pmix.app.argv=$client get app:0 pmix.app.argv\$" \
	"and the words of each, also where none of the node's tasks runs it"
lines 2 "^value [23]: pmix.app.argv=$client get app:1 pmix.app.argv app:0 pmix.app.argv\$" "on both"
for how in collect direct none; do
	nodes 3 6 "$client" modex $how
	lines 6 ': all$' "data of all ranks: $how"
done
nodes 3 6 "$client" fences 200
lines 6 ': done$' "200 fences in a row"
nodes 3 7 "$client" halves
lines 7 ': met$' "fences among some ranks on some nodes"
nodes 2 4 "$client" connect
lines 4 ': and disconnected$' "connect and disconnect"
nodes 3 3 "$client" group
lines 3 ': gone$' "groups"
is "$(printf '%s\n' "$out" | sed -n 's/^context [0-9]*: //p' | sort -u | wc -l)" 1 \
	"with one context id on all nodes"
nodes 3 6 "$client" event
lines 5 '^event [1-5]: .* from 0$' "an event reaches all nodes"
nodes 3 6 "$client" publish
lines 6 ': as it ought to be$' "published data is seen from all nodes"
nodes 3 6 "$client" query pmix.qry.ptable
pids_agree "the table of processes has the process ids of all nodes"
nodes 2 4 "$client" nokey
lines 4 ': not found$' "a key that nobody puts is not found on another node"
nodes 3 3 "$client" spawn "$client" 4
lines 4 '^child [0-3]: of 4' "spawned ranks are dealt out to the nodes"
lines 1 '^spawn 0: connected$' "and connect with who asked"

options=-K0
nodes 3 6 "$client" death
lines 5 '^death [0-4]: PROC-ABORTED-BY-SIG from 5$' "a death is told on all nodes"
nodes 3 6 "$client" deathfence
lines 5 '^deathfence [0-4]: ' "and ends the fences that wait for the rank"
nodes 3 6 "$client" control
lines 1 '^control 5: signalled$' "ranks of other nodes are signalled"
nodes 3 6 "$client" abort 7 5
lines 1 'task 5 killed by signal 9' "and ended"
options='-K0 -W15' # which ends the rank that is absent
nodes 3 3 "$client" absent 1
lines 2 '^absent [01]: TIMEOUT$' "a fence ends at its deadline"
lines 2 'missing are rank 2 on node 2 ' "and the ranks that are missing are named"
options=
nodes 3 6 "$client" abort 7
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
nodes 3 3 "$tmpdir/killer" service "$client" fences 1
isnt "$status" 0 "the step whose server on one node is killed fails"
lines 1 'the MPI service process \(pid [0-9]*\) ended by signal 9' "its agent tells so"
lines 0 ': done$' "and no rank takes the fence for complete"
options=
nodes 3 3 "$tmpdir/killer" agent "$client" absent
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
	nodes 8 8 "$program" hello
	lines 1 '^hello from 8$' "Open MPI on 8 nodes"
	nodes 4 8 "$program" ring
	lines 1 '^ring of 8$' "a token goes round 4 nodes"
	nodes 2 2 "$program" spawn
	lines 1 '^child 0 of 2 got 42$' "MPI_Comm_spawn on 2 nodes"
	nodes 2 2 "$program" spawns 10
	lines 1 '^spawned 10$' "a loop of MPI_Comm_spawn on 2 nodes meets each child"
	is "$status" 0 "a loop of spawns on 2 nodes ends well"
	nodes 4 4 "$program" ports
	lines 1 '^through a port: 7$' "ports between nodes"
	nodes 3 3 "$program" abort
	is "$status" 5 "MPI_Abort on 3 nodes"
else
	skip 7 "Open MPI's compiler is not here"
fi

nothing_left_soon "nothing is left"
done_testing
