#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# mpi/pmi2 over nodes: fences, rings and names reach all of them, MPICH's programs compute, spawned
# tasks are distributed, and an abort, a death or a rank that never comes is reported everywhere.
. "${top_srcdir:?}/tests/lib/pmi.sh"

# NODES TASKS LAYOUT [OPTION...] -- PROGRAM...
nodes() {
	nodes_n=$1 nodes_tasks=$2 nodes_layout=$3
	shift 3
	timeout 900 python3 "$top_srcdir/tests/lib/pmi_nodes.py" "$stepd" "$nodes_n" "$nodes_tasks" \
		"$nodes_layout" "$job" --proctrack "$tracker" "$@" 2>&1
}

for way in '2 4 block' '4 12 cyclic' '8 8 block'; do
	# shellcheck disable=SC2086 # three words
	out=$(nodes $way -- python3 "$talk_py" exchange)
	n=${way#* } n=${n% *}
	is "$(printf '%s\n' "$out" | grep -c "^ok rank .* of $n has everything")" "$n" \
		"$way: each rank gets the values of all nodes"
done
for way in '2 4 block' '3 6 cyclic' '1 3 block'; do
	# shellcheck disable=SC2086
	out=$(nodes $way -- python3 "$talk_py" conflict)
	n=${way#* } n=${n% *}
	is "$(printf '%s\n' "$out" | grep -c '^ok rank . finds what all find')" "$n" \
		"$way: a key that all put has the highest rank's value everywhere, and none before the fence"
done
# Through a relay that keeps what passes.
for auth in secret none; do
	out=$(PMI_NODES_TAP="$tmpdir/tap.$auth" nodes 3 6 block --wire-auth=$auth -- python3 "$talk_py" confide)
	is "$(printf '%s\n' "$out" | grep -c '^ok rank . has all values')" 6 "$auth: values reach all nodes"
done
ok "the relay sees the values of nodes that trust their network" grep -aq 'that nobody else is to see' "$tmpdir/tap.none"
ok "the relay sees the frames of nodes that share a secret" grep -aq STDW "$tmpdir/tap.secret"
is "$(grep -acE 'confidential|nobody else' "$tmpdir/tap.secret")" 0 \
	"the frames of nodes that share a secret show neither keys nor values"
out=$(nodes 3 6 cyclic -- python3 "$talk_py" mixed)
is "$(printf '%s\n' "$out" | grep -c '^ok ')" 6 "both protocols meet in one fence over nodes"

if command -v mpicc.mpich >/dev/null; then
	build_mpi "$top_srcdir/tests/lib/mpi_sum.c" "$tmpdir/mpi_sum"
	for way in '1 4 block' '2 4 cyclic' '8 16 block'; do
		# shellcheck disable=SC2086
		out=$(nodes $way -- "$tmpdir/mpi_sum")
		n=${way#* } n=${n% *}
		is "$(printf '%s\n' "$out" | grep -c "of $n, $((n / ${way%% *})) here: right")" "$n" \
			"$way: MPICH's ranks add up"
	done
	out=$(nodes 2 4 block -- "$tmpdir/mpi_sum" 7)
	like "$out" '^status 7 7$' "MPI_Abort's code is that of all nodes"
	is "$(printf '%s\n' "$out" | grep -v 'MPI_Abort() with code 7$' | grep -c 'error:')" 0 \
		"no error that follows from MPI_Abort is reported"
else
	skip 5 "needs MPICH"
fi

out=$(nodes 3 3 block -- python3 "$talk_py" spawn1)
is "$(printf '%s\n' "$out" | grep -c '^child . of 3 ')" 3 "spawned tasks use PMI over the nodes"
# With -K0: else the step would end.
out=$(nodes 3 3 block -K0 -- python3 "$talk_py" death)
is "$(printf '%s\n' "$out" | grep -c 'msg=rank_2_on_node_2_(n2)_.*_before_the_fence')" 2 \
	"a fence fails on all nodes where a rank dies"
# Without a deadline: whoever waited for it would wait for ever.
mkdir "$tmpdir/deaths"
out=$(nodes 4 8 block -K0 --pmi-timeout=0 -- python3 "$talk_py" deaths "$tmpdir/deaths")
is "$(printf '%s\n' "$out" | grep -c '^ok')" 7 "all later fences of all nodes fail without a deadline"
mkdir "$tmpdir/late"
out=$(nodes 2 6 cyclic --pmi-timeout=1s --kill-on-bad-exit=1 -- \
	sh -c "python3 '$talk_py' late '$tmpdir/late'; exit 3")
named='missing are rank 4 on node 0 \(n0\), ranks 1, 3 on node 1 \(n1\)'
is "$(printf '%s\n' "$out" | grep -cE "PMI fence failed: .*$named")" 2 \
	"all ranks that never come are named in both nodes' logs"
is "$(printf '%s\n' "$out" | grep -cE "barrier_out rc=-1 .*$(printf %s "$named" | tr ' ' _)")" 3 \
	"all ranks that never come are named to those that wait"
nothing_left "the job leaves no cgroup, process or file behind"
done_testing
