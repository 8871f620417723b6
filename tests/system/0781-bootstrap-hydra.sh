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
$job.0 node 2 of 3 rank 6 of 7 on n[0-2] 3,2(x2)" "$how: seven tasks are distributed over three nodes"
	is "$(cat "$tmpdir/err")" "" "$how: seven tasks on three nodes cause no message"
done
out=$(under 2 -pmi-port -- --bootstrap=pmi --job "$job" -- sh -c "$where" | sort)
is "$out" "$job.0 node 0 of 2 rank 0 of 2 on n[0-1] 1(x2)
$job.0 node 1 of 2 rank 1 of 2 on n[0-1] 1(x2)" "hydra over TCP starts a task a node"
out=$(under 1 -- --bootstrap=pmi --job "$job" -n 2 -- sh -c "$where" | sort)
is "$out" "$job.0 node 0 of 1 rank 0 of 2 on n0 2
$job.0 node 0 of 1 rank 1 of 2 on n0 2" "hydra starts a step of one agent"
out=$(under 2 -- --bootstrap=pmi --job "$job" -n 4 -m cyclic -- sh -c 'echo $SLURM_NODEID $SLURM_GTIDS' | sort -u)
is "$out" "0 0,2
1 1,3" "-m cyclic distributes tasks over hydra's agents in turn"
out=$(under 2 -- --bootstrap=pmi --job "$job" --tasks-per-node 1,2 -- sh -c 'echo $SLURM_NODEID $SLURM_GTIDS' | sort -u)
is "$out" "0 0
1 1,2" "--tasks-per-node gives each of hydra's agents its number of tasks"
out=$(under 2 -- --bootstrap=pmi -- sh -c 'echo "$SLURM_JOB_ID.$SLURM_STEP_ID"' | sort -u | wc -l)
is "$out" 1 "hydra's agents without --job have the ids of one step"
is "$(under 2 -- --bootstrap=pmi --job "$job" -- sh -c "$leaks" | sort -u)" 0 \
	"tasks do not have hydra's variables and descriptors"

# hydra passes on what a read has got, and mixes it with other agents' output. Its reader is slow.
n=$(rounds 20000 200000)
# shellcheck disable=SC2016 # for the tasks
under 3 -- --bootstrap=pmi --job "$job" -n 6 --label -q -- sh -c \
	'seq -f "$SLURM_PROCID %07g begins here, and this is where it ends" "$0"' "$n" |
	{ sleep 0.5; cat; } >"$tmpdir/lines"
is "$(grep -cvE '^([0-5]): \1 [0-9]{7} begins here, and this is where it ends$' "$tmpdir/lines") $(sort -u "$tmpdir/lines" | wc -l)" \
	"0 $((6 * n))" "no line with a label is torn where hydra mixes the agents' output"

# What an agent of the step knows, while it runs.
timeout 300 mpiexec.hydra -n 2 -ppn 1 "$agent_command" --bootstrap=pmi --job "$job" --wire-ifname lo -- \
	sh -c "until [ -e '$tmpdir/go' ]; do sleep 0.1; done" &
engine=$!
node_runs() {
	[ "$(json_get "$run/${node}_$job.0/state.json" state 2>/dev/null)" = running ]
}
# By then the spec is whole, which the agent writes in place.
for node in n0 n1; do
	eventually node_runs
done
spec=$run/n1_$job.0/spec.json
like "$(json_get "$spec" 'wire["addresses"]')" '^\["127\.0\.0\.1:[0-9]+", "127\.0\.0\.1:[0-9]+"\]$' \
	"the spec has all agents' addresses, of the interface that was named"
is "$(json_get "$spec" 'node["ranks"]')" '["0", "1"]' "the spec has the ranks of all nodes"
like "$(json_get "$spec" 'wire["listen_fd"]')" '^[0-9]+$' "the spec has the descriptor of the listening socket"
like "$(json_get "$spec" 'wire["secret_fd"]')" '^[0-9]+$' "the spec has the descriptor of a secret"
unlike "$(cat "$spec")" '[0-9a-f]{64}' "the spec does not have the secret"
args=$(for pid in $(processes); do tr '\0' ' ' <"/proc/$pid/cmdline" && echo; done 2>/dev/null)
like "$args" '--bootstrap=pmi .*--wire-ifname' "the engine's and the agents' command lines are there"
unlike "$args" '[0-9a-f]{64}' "no command line of the step has the secret"
: >"$tmpdir/go"
wait "$engine"
is $? 0 "hydra ends with success"

# Ends. The agents had finalized at the engine before the tasks ran.
under 2 -- --bootstrap=pmi --job "$job" -- sh -c 'exit $((7 * SLURM_PROCID))' >/dev/null 2>&1
is $? 7 "hydra ends with the agents' status"
under 2 -- --bootstrap=pmi --job "$job" -- sh -c \
	'[ "$SLURM_PROCID" = 0 ] || kill -9 $PPID; sleep 1; echo "rank $SLURM_PROCID goes on"' >"$tmpdir/out" 2>&1
is $? 9 "hydra ends with 9 where an agent is killed"
like "$(cat "$tmpdir/out")" "rank 1 goes on" "hydra does not end the tasks of a killed agent"
like "$(cat "$tmpdir/out")" "EXIT CODE: 9" "hydra reports the killed agent"

# What can't be. A hydra whose processes fail may lose what they wrote: they write to a file.
agents_err=$tmpdir/agents.err
export agents_err
refused() { # AGENTS COMMAND ARG...: sets $status
	agents=$1
	shift
	: >"$agents_err"
	# shellcheck disable=SC2016 # of that shell
	timeout 300 mpiexec.hydra -n "$agents" -ppn 1 sh -c 'exec "$0" "$@" 2>>"$agents_err"' "$@" \
		</dev/null >/dev/null 2>&1
	status=$?
}
refused 2 "$agent_command" --bootstrap=pmi --node-count 2 --job "$job" -- true
isnt $status 0 "--node-count is refused under hydra"
like "$(cat "$agents_err")" "--bootstrap=pmi: finds 'count' out by itself; leave it out of options and spec" \
	"the refusal of --node-count has the reason"
refused 2 "$stepd" run --runtime-dir "$run" --bootstrap=pmi -- true
isnt $status 0 "two agents of one name are refused"
like "$(cat "$agents_err")" "two agents are on node '.*': have the engine start one a node" \
	"the refusal of two agents of one name has the remedy"
refused 3 "$agent_command" --bootstrap=pmi -n 2 --job "$job" -- true
isnt $status 0 "more nodes than tasks are refused"
like "$(cat "$agents_err")" "2 tasks leave none for node 'n2'; start fewer agents" \
	"the refusal of more nodes than tasks has the remedy"
refused 2 "$agent_command" --bootstrap=pmi --wire-ifname nosuch0 --job "$job" -- true
like "$(cat "$agents_err")" "the network interface 'nosuch0' is not there, is down or has no address" \
	"a missing network interface is reported"
out=$("$stepd" run --bootstrap=pmi -- true 2>&1)
is $? 125 "--bootstrap=pmi is refused without an engine"
like "$out" "no engine has left its PMI here: .*srun --mpi=pmi2" "the refusal of --bootstrap=pmi has the remedy"
out=$("$stepd" run --bootstrap=tree -- true 2>&1)
is $? 125 "an unknown --bootstrap is refused"
like "$out" "--bootstrap: 'tree' is not one of pmi, pmi1, pmi2" \
	"the refusal of an unknown --bootstrap lists the known ones"
out=$(PMI_FD=77 PMI_RANK=0 PMI_SIZE=1 "$stepd" run --bootstrap=pmi -- true 2>&1)
is $? 125 "a PMI_FD that is not open is refused"
like "$out" "PMI_FD is '77', which is no open descriptor" "the refusal of a PMI_FD that is not open names it"
out=$(PMI_PORT=localhost PMI_ID=0 "$stepd" run --bootstrap=pmi -- true 2>&1)
like "$out" "PMI_PORT is 'localhost', not HOST:PORT" "a PMI_PORT without a port is refused by name"
done_testing
