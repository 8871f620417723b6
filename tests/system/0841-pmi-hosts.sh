#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# PMI-1 and PMI-2 over hosts, by bare words: what one rank puts, publishes or brings to a ring is
# the same on every host, whatever the layout.
# shellcheck source=tests/lib/across.sh
. "${top_srcdir:?}/tests/lib/across.sh"
on_nodes 8 "$0" "$@"

wide 4 sizes
all_have "values of all sizes and bytes reach all hosts"
tasks=10 options='-m cyclic'
wide 3 index
all_have "values are found by their index on all hosts"
wide 3 node_attributes
all_have "node attributes are seen on their node alone"
wide 3 rings
all_have "rings close where ranks are distributed in turn"
for layout in block plane=3; do
	options="-m $layout"
	wide 4 rings
	all_have "rings close with the layout $layout"
done
wide 4 names
all_have "names are published, looked up and unpublished from any host"
wide 4 group_barriers
all_have "barriers of groups succeed over hosts"
talk 4 mixed
is "$status $(printf '%s\n' "$out" | grep -c '^ok rank')" "0 10" "both protocols work in one step over hosts"
options=--pmi-tcp
talk 4 exchange
all_have "each rank gets the values of all with PMI over TCP"

tasks=11
for layout in block cyclic plane=2 plane=3; do
	options="-m $layout"
	wide 4 places
	all_have "ranks know where all are with the layout $layout"
done
options=
out=$(timeout 300 "$steprun" --job "$job" --launcher 'exec:on-node %h %c' --wire-ifname eth0 --mpi=pmi2 -m arbitrary \
	--hosts 'node1,node2,node3,node2,node1,node3,node3,node1,node2,node3,node3' -- python3 "$across_py" places 2>&1)
status=$?
all_have "ranks know where all are with an arbitrary layout"
tasks=5 options='--ntasks-per-node=4'
wide 2 places
all_have "ranks know where all are with full nodes and a rest"

tasks=$(rounds 32 128) options='-m cyclic'
talk 8 exchange
all_have "each of $tasks ranks on 8 hosts gets the values of all"

cat >"$tmpdir/multi" <<END
0-1 python3 $across_py rings
2-5 python3 $across_py rings
END
tasks=6 options=--multi-prog
out=$(across 3 --mpi=pmi2 -n 6 --multi-prog "$tmpdir/multi" 2>&1)
status=$?
all_have "several programs over hosts close their rings"
cat >"$tmpdir/multi" <<END
0-1 python3 $talk_py appnum
2-5 python3 $talk_py appnum
END
out=$(across 3 --mpi=pmi2 -n 6 --multi-prog "$tmpdir/multi" 2>&1)
is "$(printf '%s\n' "$out" | sort | tr '\n' ' ')" \
	"rank 0 appnum 0 rank 1 appnum 0 rank 2 appnum 1 rank 3 appnum 1 rank 4 appnum 1 rank 5 appnum 1 " \
	"each of several programs has its appnum on all hosts"
nothing_left_soon "the job leaves no cgroup, process or file behind"
done_testing
