#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Agents that MPICH's mpiexec starts find each other by its PMI: PMI-1, PMI-2 and over TCP.
# shellcheck source=tests/lib/bootstrap.sh
. "${top_srcdir:?}/tests/lib/bootstrap.sh"

command -v mpiexec.hydra >/dev/null || skip_all "needs Debian's mpich"

# AGENTS and the rest of the line: mpiexec's options up to "--", then the agents'
under() { # AGENTS [MPIEXEC-OPTION...] -- ARG...
	agents=$1 options=
	shift
	while [ "$1" != -- ]; do
		options="$options $1"
		shift
	done
	shift
	# shellcheck disable=SC2086 # words
	timeout 300 mpiexec.hydra -n "$agents" -ppn 1 $options "$agent_command" "$@" </dev/null
}

for how in pmi pmi1 pmi2; do
	out=$(under 3 -- --bootstrap=$how -n 7 --job "$job" -- sh -c "$where" 2>"$tmpdir/err" | sort)
	is "$out" "$job.0 node 0 of 3 rank 0 of 7 on n[0-2] 3,2(x2)
$job.0 node 0 of 3 rank 1 of 7 on n[0-2] 3,2(x2)
$job.0 node 0 of 3 rank 2 of 7 on n[0-2] 3,2(x2)
$job.0 node 1 of 3 rank 3 of 7 on n[0-2] 3,2(x2)
$job.0 node 1 of 3 rank 4 of 7 on n[0-2] 3,2(x2)
$job.0 node 2 of 3 rank 5 of 7 on n[0-2] 3,2(x2)
$job.0 node 2 of 3 rank 6 of 7 on n[0-2] 3,2(x2)" "$how: seven tasks on three nodes"
	is "$(cat "$tmpdir/err")" "" "$how: nothing is wrong"
done
out=$(under 2 -pmi-port -- --bootstrap=pmi --job "$job" -- sh -c "$where" | sort)
is "$out" "$job.0 node 0 of 2 rank 0 of 2 on n[0-1] 1(x2)
$job.0 node 1 of 2 rank 1 of 2 on n[0-1] 1(x2)" "over TCP: a task a node"
out=$(under 1 -- --bootstrap=pmi --job "$job" -n 2 -- sh -c "$where" | sort)
is "$out" "$job.0 node 0 of 1 rank 0 of 2 on n0 2
$job.0 node 0 of 1 rank 1 of 2 on n0 2" "an agent alone"
out=$(under 2 -- --bootstrap=pmi --job "$job" -n 4 -m cyclic -- sh -c 'echo $SLURM_NODEID $SLURM_GTIDS' | sort -u)
is "$out" "0 0,2
1 1,3" "tasks dealt out in turn"
out=$(under 2 -- --bootstrap=pmi --job "$job" --tasks-per-node 1,2 -- sh -c 'echo $SLURM_NODEID $SLURM_GTIDS' | sort -u)
is "$out" "0 0
1 1,2" "as many a node as was said"
out=$(under 2 -- --bootstrap=pmi -- sh -c 'echo "$SLURM_JOB_ID.$SLURM_STEP_ID"' | sort -u | wc -l)
is "$out" 1 "without --job all have the ids of one step"
is "$(under 2 -- --bootstrap=pmi --job "$job" -- sh -c "$leaks" | sort -u)" 0 \
	"the engine's variables and descriptors are not the tasks'"

# What an agent of the step knows, while it runs.
timeout 300 mpiexec.hydra -n 2 -ppn 1 "$agent_command" --bootstrap=pmi --job "$job" --wire-ifname lo -- \
	sh -c "until [ -e '$tmpdir/go' ]; do sleep 0.1; done" &
engine=$!
eventually test -s "$run/n1_$job.0/spec.json"
eventually test -s "$run/n0_$job.0/spec.json"
spec=$(cat "$run/n1_$job.0/spec.json")
like "$spec" '"addresses":\["127\.0\.0\.1:[0-9]+","127\.0\.0\.1:[0-9]+"\]' "all addresses, of the interface that was named"
like "$spec" '"ranks":\["0","1"\]' "the ranks of all nodes"
like "$spec" '"listen_fd":[0-9]+' "the socket"
like "$spec" '"secret_fd":[0-9]+' "a secret"
unlike "$spec" '[0-9a-f]{64}' "which is not written down"
unlike "$(ps -eo args)" '[0-9a-f]{64}' "nor on any command line"
: >"$tmpdir/go"
wait "$engine"
is $? 0 "the engine ends well"

# Ends. The engine was told goodbye before the tasks ran.
under 2 -- --bootstrap=pmi --job "$job" -- sh -c 'exit $((7 * SLURM_PROCID))' >/dev/null 2>&1
is $? 7 "the engine has the agents' status"
under 2 -- --bootstrap=pmi --job "$job" -- sh -c \
	'[ "$SLURM_PROCID" = 0 ] || kill -9 $PPID; sleep 1; echo "rank $SLURM_PROCID goes on"' >"$tmpdir/out" 2>&1
is $? 9 "the engine hears of an agent that is killed"
like "$(cat "$tmpdir/out")" "rank 1 goes on" "but not before its tasks have ended, which it leaves alone"
like "$(cat "$tmpdir/out")" "EXIT CODE: 9" "and says so"

# What can't be.
out=$(under 2 -- --bootstrap=pmi --node-count 2 --job "$job" -- true 2>&1)
isnt $? 0 "the place in the step is the engine's to say"
like "$out" "--bootstrap=pmi: finds 'count' out by itself; leave it out of options and spec" "which is told"
out=$(timeout 300 mpiexec.hydra -n 2 "$stepd" run --runtime-dir "$run" --bootstrap=pmi -- true 2>&1)
isnt $? 0 "two agents of one name"
like "$out" "two agents are on node '.*': have the engine start one a node" "are refused with the remedy"
out=$(under 3 -- --bootstrap=pmi -n 2 --job "$job" -- true 2>&1)
isnt $? 0 "more nodes than tasks"
like "$out" "2 tasks leave none for node 'n2'; start fewer agents" "are refused"
out=$(under 2 -- --bootstrap=pmi --wire-ifname nosuch0 --job "$job" -- true 2>&1)
like "$out" "the network interface 'nosuch0' is not there, is down or has no address" "an interface that is not there"
out=$("$stepd" run --bootstrap=pmi -- true 2>&1)
is $? 125 "without an engine nothing starts"
like "$out" "no engine has left its PMI here: .*srun --mpi=pmi2" "and the ways to one are told"
out=$("$stepd" run --bootstrap=tree -- true 2>&1)
is $? 125 "another way than those there are"
like "$out" "--bootstrap: 'tree' is not one of pmi, pmi1, pmi2" "is refused"
out=$(PMI_FD=77 PMI_RANK=0 PMI_SIZE=1 "$stepd" run --bootstrap=pmi -- true 2>&1)
is $? 125 "a descriptor that was not handed down"
like "$out" "PMI_FD is '77', which is no open descriptor" "is told"
out=$(PMI_PORT=localhost PMI_ID=0 "$stepd" run --bootstrap=pmi -- true 2>&1)
like "$out" "PMI_PORT is 'localhost', not HOST:PORT" "a port that is none"
done_testing
