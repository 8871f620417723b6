#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Ranks that don't come to a fence over hosts, nodes that have ended while others go on through
# them, and nodes that don't know the step's secret.
# shellcheck source=tests/lib/across.sh
. "${top_srcdir:?}/tests/lib/across.sh"
on_nodes 8 "$0" "$@"

options='--wire-fanout=2 --pmi-timeout=1s -m cyclic'
tasks=16
begin 8 awaits 3 11
ok "all other ranks get an error after the deadline when no rank of a node comes" eventually heard 14
is "$(grep -c 'hears cmd=barrier_out rc=-1 msg=.*:_missing_are_ranks_3,_11_on_node_3_(node4)$' "$tmpdir/begun")" \
	14 "the error names all missing ranks and their node"
halt
finish
begin 8 awaits 5
ok "all other ranks get an error when one rank of a node does not come" eventually heard 15
is "$(grep -c 'hears cmd=barrier_out rc=-1 msg=.*rank_5_on_node_5_(node6)' "$tmpdir/begun")" 15 \
	"the error names the missing rank and its node"
halt
finish
unlike "$out" ' is lost: ' "steprun reports no lost node when it ends the step"
nothing_left_soon "a step with missing ranks leaves no cgroup, process or file behind"

# node2 is between node1 and node4 and node5, node4 between node2 and node8.
tasks=8 options=--wire-fanout=2
wide 8 leaves 1 3
is "$status" 0 "a step whose inner nodes end first succeeds"
is "$(printf '%s\n' "$out" | grep -c 'goes on, bad 0')" 6 "the other nodes go on through nodes that have ended"
wide 8 leaves 0
is "$status $(printf '%s\n' "$out" | grep -c 'goes on, bad 0')" "0 7" \
	"the other nodes go on through the first node that has ended"
nothing_left_soon "a step whose nodes end first leaves no cgroup, process or file behind"

# Agents by hand: what an engine gives them that is not stepd's own.
part() { # NODE SECRET
	printf '%s' "$2" >"$tmpdir/secret$1"
	on-node "node$1" timeout 300 "$stepd" run --job "$job" --node-name "node$1" --node-id $(($1 - 1)) \
		--node-count 3 --node-list 'node[1-3]' --node-ranks 0:1:2 -n 3 --mpi=pmi2 \
		--wire-addresses '10.98.0.1:7070,10.98.0.2:7070,10.98.0.3:7070' --wire-timeout=2s \
		--wire-secret-fd 9 -- python3 "$talk_py" exchange >"$tmpdir/part$1" 2>&1 9<"$tmpdir/secret$1"
}
parts() { # SECRET-OF-NODE2
	part 1 0123456789abcdef0123456789abcdef &
	first=$!
	part 2 "$1" &
	second=$!
	part 3 0123456789abcdef0123456789abcdef
	third=$?
	wait $second
	second=$?
	wait $first
	first=$?
}
parts 0123456789abcdef0123456789abcdef
is "$first $second $third" "0 0 0" "three agents with one secret succeed"
parts 0123456789abcdef0123456789abcdeX
unlike "$(cat "$tmpdir"/part?)" '^ok' "no fence succeeds with another secret on a node"
like "$(cat "$tmpdir/part1")" 'node 1 \(node2\) is lost: there was no connection to it within 2000 ms' \
	"the parent names the node with another secret"
like "$(cat "$tmpdir/part3")" 'node 1 \(node2\) is lost' "the other nodes name the node with another secret"
unlike "$(cat "$tmpdir"/part?)" '0123456789abcde' "the secret is in no message"
nothing_left_soon "the job leaves no cgroup, process or file behind"
done_testing
