#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# What is lost in the middle of a fence over hosts: the others' ranks get the name of the node, at
# once, steprun ends the step with its name, and nothing is left.
# shellcheck source=tests/lib/across.sh
. "${top_srcdir:?}/tests/lib/across.sh"
on_nodes 8 "$0" "$@"

# Rank 7, of node8, does not come; node2 and node3 have nodes behind them in this tree.
options='--wire-fanout=2 --pmi-timeout=60s'

begin 8 awaits 7
kill -9 "$(agent_of node3)"
finish
is "$status" 125 "a killed agent ends the step with 125"
like "$out" "^steprun: node3: the agent has been killed" "steprun names the node of a killed agent"
nothing_left_soon "a killed agent on one host leaves no cgroup, process or file behind"

begin 8 awaits 7
kill -9 "$(service_of node2)"
ok "the ranks of all other nodes get an error when a service process is killed" eventually heard 6
is "$(grep -c 'rank . hears .* rc=-1 msg=node_1_(node2)_is_lost:' "$tmpdir/begun")" 6 \
	"the error of a killed service names its node"
halt
finish
like "$out" '^rank 1 is hung up on$' "the ranks of a killed service are disconnected"
like "$out" 'the MPI service process \(pid [0-9]*\) ended by signal 9: MPI calls of the tasks fail' \
	"the log reports the killed service"
nothing_left_soon "a killed service on one host leaves no cgroup, process or file behind"

# A node that is silent is not lost for the wire before half a minute is over; a fence has its
# deadline, which leaves time for the node to be stopped in. Behind node2 are node4, node5 and node8.
options='--wire-fanout=2 --pmi-timeout=15s'
silent='_no_answer_came_from_node_1_\(node2\),_node_3_\(node4\),_node_4_\(node5\),_node_7_\(node8\)'

begin 8 awaits 7
kill -STOP "$(service_of node2)"
ok "the ranks of the other nodes get an error after the deadline when a node is stopped" eventually heard 6
like "$(cat "$tmpdir/begun")" "rank 0 hears .*a_fence_of_8_nodes_was_not_complete_after_15000_ms:$silent" \
	"the error of a stopped node names the silent nodes"
kill -CONT "$(service_of node2)"
halt
finish
nothing_left_soon "a stopped node leaves no cgroup, process or file behind"

begin 8 awaits 7
ip -n node2 link set eth0 down
ok "all ranks get an error after the deadline when a node's link is down" eventually heard 7
like "$(cat "$tmpdir/begun")" "rank 6 hears .*:$silent" \
	"the error of a node whose link is down names the silent nodes"
like "$(cat "$tmpdir/begun")" 'rank 1 hears .*_no_answer_about_the_missing_ranks_came_from_node_0_\(node1\)' \
	"the error on a node whose link is down names the silent parent"
halt
finish
ip -n node2 link set eth0 up
nothing_left_soon "a node whose link is down leaves no cgroup, process or file behind"
done_testing
