#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What an engine's PMI server can do wrong: each ends the agent with one sentence, and no task runs.
# shellcheck source=tests/lib/bootstrap.sh
. "${top_srcdir:?}/tests/lib/bootstrap.sh"

command -v python3 >/dev/null || skip_all "needs python3"

server() { # SIZE FAULT ARG...
	size=$1 fault=$2
	shift 2
	timeout 300 python3 "$top_srcdir/tests/lib/pmi_server.py" "$size" "$fault" "$agent_command" \
		--bootstrap=pmi --job "$job" "$@" </dev/null 2>&1
}

is "$(server 2 none -- sh -c "$where" | sort)" "$job.0 node 0 of 2 rank 0 of 2 on n[0-1] 1(x2)
$job.0 node 1 of 2 rank 1 of 2 on n[0-1] 1(x2)" "agents start under a good PMI server"
is "$(server 2 split -- echo ran | sort -u)" ran "agents start under a PMI server that replies byte by byte"
is "$(server 2 spaces:put -- echo ran | sort -u)" ran \
	"agents start under a PMI server that sends blanks and unknown keys"
is "$(server 2 none -- sh -c "$leaks" | sort -u)" 0 \
	"tasks do not have the PMI server's variables and descriptors"

refused() { # FAULT PATTERN
	out=$(server 2 "$1" --wire-timeout 2s -- echo ran)
	is $? 125 "$1: the agents exit with 125"
	like "$out" "error: --bootstrap=pmi: $2" "$1: the agents report the reason"
	unlike "$out" '^ran' "$1: no task ran"
}

refused absent "the engine's PMI server has not answered to 'barrier_in' in time: an agent of another node"
refused silent:init "the engine's PMI server has not answered to 'init' in time"
refused silent:finalize "the engine's PMI server has not answered to 'finalize' in time"
refused hangup:put "the engine's PMI server has hung up at 'put'"
refused garbage:get_maxes "the engine's PMI server answers 'get_maxes' with data that is no message of PMI-1"
refused long:get_my_kvsname "the engine's PMI server answers 'get_my_kvsname' with more than 8192 bytes"
refused refuse:init "the engine's PMI server refuses 'init' \(rc -1, no_such_thing\)"
refused refuse:put "the engine's PMI server refuses 'put'"
refused refuse:get "process 0 of the engine's job has put nothing"
refused other:barrier_in "the engine's PMI server answers 'barrier_in' with 'surprise', not with 'barrier_out'"
refused card:nonsense "process 1 of the engine's job: it is not a stepd that this one \(.*\) can speak with"
refused card:stepd-1,1.0 "process 1 of the engine's job: its card can't be read"
refused "card:stepd-1,1.0,../x,a:1,1,0,0," "process 1 of the engine's job: its card can't be read"
refused "card:stepd-1,1.0,n0,127.0.0.1:1,1,0,0," "two agents are on node 'n0'"
refused "card:stepd-1,1.0,n1,127.0.0.1:1,1,0,3," "some nodes are given --local-ntasks and some are not"
out=$(server 2 "card:stepd-1,9.9,n7,127.0.0.1:1,4,5,0," -n 2 -- sh -c 'echo "$SLURM_STEP_NODELIST"' | sort -u)
like "$out" "n\[0,7\]" "the node list has the name that another agent publishes"

# ---- names of nodes -----------------------------------------------------------------------------
cat >"$tmpdir/named" <<END
#!/bin/sh
# As srun starts it on node "m1", "m2", ... of one host; PROCID takes the place of the rank.
SLURM_PROCID=\${PROCID:-\$PMI_RANK} SLURMD_NODENAME=m\$((PMI_RANK + 1))
[ -z "\$NO_JOBID" ] || unset PMI_JOBID
export SLURM_PROCID SLURMD_NODENAME
exec $stepd run --runtime-dir "$run" --proctrack linuxproc "\$@"
END
chmod +x "$tmpdir/named"
named() {
	timeout 300 python3 "$top_srcdir/tests/lib/pmi_server.py" 2 none "$tmpdir/named" --bootstrap=pmi --job "$job" \
		-- sh -c 'echo "$SLURM_STEP_NODELIST"' </dev/null 2>&1 | sort -u
}
is "$(named)" "m[1-2]" "agents on one host have Slurm's node names"
like "$(PROCID=0 named)" "m1,$(uname -n | cut -d. -f1)\$" \
	"an environment carried from another process gives no node name"
like "$(NO_JOBID=1 named)" "two agents are on node '$(uname -n | cut -d. -f1)'" \
	"SLURMD_NODENAME under another PMI than Slurm's gives no node name"

reported=0
for round in 1 2 3 4 5; do
	server 1 kill --tasks-per-node 1,1 -- true | grep -q "node.tasks_per_node has 2 entries" && reported=$((reported + 1))
done
is $reported "$round" "an agent that fails reports the reason before the engine kills it"

# A network with IPv6 alone.
if [ "$(id -u)" = 0 ] && command -v ip >/dev/null && unshare -n true 2>/dev/null; then
	cat >"$tmpdir/v6" <<END
ip link set lo up && ip addr del 127.0.0.1/8 dev lo && ip addr add fd00::1/128 dev lo || exit 77
exec timeout 300 python3 '$top_srcdir/tests/lib/pmi_server.py' 2 none '$agent_command' --bootstrap=pmi \\
	--job $job -- sh -c 'cat "$run"/n1_$job.0/spec.json; : >"$tmpdir/read.\$SLURM_PROCID"
	until [ -e "$tmpdir/read.0" ] && [ -e "$tmpdir/read.1" ]; do sleep 0.02; done' </dev/null
END
	out=$(unshare -n sh "$tmpdir/v6" 2>&1)
	like "$(printf '%s\n' "$out" | grep '^{' | json_get - 'wire["addresses"]')" \
		'^\["\[fd00::1\]:[0-9]+", "\[fd00::1\]:[0-9]+"\]$' "agents publish IPv6 addresses in brackets"
else
	skip 1 "needs root and iproute2"
fi
nothing_left_soon "the job leaves no cgroup, process or file behind"
done_testing
