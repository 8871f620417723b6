#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Fences and messages over two to eight hosts with networks of their own, over trees of several
# widths, and by each way in which nodes know each other.
# shellcheck source=tests/lib/across.sh
. "${top_srcdir:?}/tests/lib/across.sh"
on_nodes 8 "$0" "$@"

for n in 2 3 5 8; do
	tasks=$((2 * n))
	talk $n exchange
	all_have "each rank on $n hosts gets the values of all"
done
tasks=8
options=--wire-fanout=2
talk 8 exchange
all_have "each rank gets the values of all over a narrow tree"
options='-m cyclic --wire-fanout=3'
tasks=11
talk 4 exchange
all_have "each rank gets the values of all with uneven nodes"
tasks=8 options=--wire-auth=none
talk 4 exchange
all_have "each rank gets the values of all without authentication"

options='--launcher local'
out=$(timeout 300 "$steprun" --job "$job" --launcher local -N 4 --mpi=pmi2 -n 8 python3 "$talk_py" exchange 2>&1)
status=$?
all_have "each rank gets the values of all with four agents on one machine"

# Of this test's own, in a mount namespace of its own: the testbed's.
if [ -x /usr/sbin/munged ]; then
	mkdir -p /run/munge
	mount -t tmpfs -o mode=755 stepd-munge /run/munge
	dd if=/dev/urandom of="$tmpdir/munge.key" bs=64 count=1 2>/dev/null
	chmod 600 "$tmpdir/munge.key"
	/usr/sbin/munged --force --key-file="$tmpdir/munge.key" --log-file="$tmpdir/munge.log" \
		--pid-file="$tmpdir/munge.pid" --seed-file="$tmpdir/munge.seed" --socket=/run/munge/munge.socket.2
	eventually test -S /run/munge/munge.socket.2
	options='--wire-auth=munge --wire-fanout=2'
	talk 4 exchange
	all_have "each rank gets the values of all with authentication by munge"
	kill "$(cat "$tmpdir/munge.pid")"
	eventually test ! -e "$tmpdir/munge.pid"
	options='--wire-auth=munge --wire-timeout=2s --pmi-timeout=20s'
	tasks=2
	talk 2 exchange
	unlike "$out" '^ok' "no fence succeeds without a munged"
	like "$out" "node 0 \(node1\) is lost: .*munge can't make a credential: .*Did you start munged" \
		"a fence without a munged fails with the reason and the remedy"
else
	skip 3 "needs munged"
fi

# shellcheck disable=SC2086 # names
for node in $STEPD_NODES; do
	ip -n "$node" -4 addr flush dev eth0
done
tasks=8 options=
talk 8 exchange
all_have "each rank gets the values of all over IPv6 alone"
# shellcheck disable=SC2016 # of the task's shell
out=$(across 2 --mpi=pmi2 -n 2 -- sh -c '
	[ "$SLURM_PROCID" = 0 ] || cat "$STEPD_RUNTIME_DIR/node2_$SLURM_JOB_ID.0/spec.json"' 2>&1)
like "$(printf '%s\n' "$out" | grep '^{' | json_get - 'wire["addresses"]')" \
	'^\["\[fd98::1\]:[0-9]+", "\[fd98::2\]:[0-9]+"\]$' "the spec has the IPv6 addresses of the hosts"
nothing_left_soon "the job leaves no cgroup, process or file behind"
done_testing
