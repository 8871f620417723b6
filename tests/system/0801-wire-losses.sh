#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# What is lost in the middle of a fence over hosts: the others' ranks are told which node it was, at
# once, steprun ends the step with its name, and nothing is left.
# shellcheck source=tests/lib/across.sh
. "${top_srcdir:?}/tests/lib/across.sh"
on_nodes 8 "$0" "$@"

# Rank 7, of node8, does not come; node2 and node3 have nodes behind them in this tree.
options='--wire-fanout=2 --pmi-timeout=60s'

begin 8 awaits 7
kill -9 "$(agent_of node3)"
finish
is "$status" 125 "an agent that is killed ends the step"
like "$out" "^steprun: node3: the agent has been killed" "and steprun names its node"
nothing_left_soon "nothing is left of it"

begin 8 awaits 7
kill -9 "$(service_of node2)"
ok "when a service process is killed, the ranks of all other nodes hear of it" eventually heard 6
is "$(grep -c 'rank . hears .* rc=-1 msg=node_1_(node2)_is_lost:' "$tmpdir/begun")" 6 "and of whose"
halt
finish
like "$out" '^rank 1 is hung up on$' "its own ranks are hung up on"
like "$out" 'the MPI service process \(pid [0-9]*\) ended by signal 9: MPI calls of the tasks fail' "which is in the log"
nothing_left_soon "nothing is left of it"

# A node that is silent is not lost for the wire before half a minute is over; a fence has its
# deadline. Behind node2 are node4, node5 and node8.
options='--wire-fanout=2 --pmi-timeout=2s'
silent='_no_word_came_from_node_1_\(node2\),_node_3_\(node4\),_node_4_\(node5\),_node_7_\(node8\)'

begin 8 awaits 7
kill -STOP "$(service_of node2)"
ok "with a node that is stopped, the ranks of the others hear after the deadline" eventually heard 6
like "$(cat "$tmpdir/begun")" "rank 0 hears .*a_fence_of_8_nodes_was_not_complete_after_2000_ms:$silent" \
	"who is silent"
kill -CONT "$(service_of node2)"
halt
finish
nothing_left_soon "nothing is left of it"

begin 8 awaits 7
ip -n node2 link set eth0 down
ok "with a node whose link is down all hear after the deadline" eventually heard 7
like "$(cat "$tmpdir/begun")" "rank 6 hears .*:$silent" "who is silent"
like "$(cat "$tmpdir/begun")" 'rank 1 hears .*_no_word_of_who_is_missing_came_from_node_0_\(node1\)' \
	"and those who are cut off, from whom they have no word"
halt
finish
ip -n node2 link set eth0 up
nothing_left_soon "nothing is left of it"
done_testing
