#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# steprun in an allocation of two nodes of a real Slurm: one srun starts both relays, layouts are
# srun's own, and scancel ends the step.
# shellcheck source=tests/lib/steprun.sh
. "${top_srcdir:?}/tests/lib/steprun.sh"

[ "$(id -u)" = 0 ] || skip_all "needs root"
for program in munged slurmctld slurmd salloc srun scancel; do
	command -v $program >/dev/null || skip_all "needs Slurm: there is no $program"
done

cat >"$tmpdir/inside" <<'S'
cd "$1"
in_step() {
	timeout -k 5 300 "$STEPRUN" --proctrack "$TRACKER" "$@"
}
show='printf "%s\n" "$(env | grep -E "^SLURM_(PROCID|NODEID|LOCALID|NTASKS|NPROCS|NNODES|JOB_NUM_NODES|GTIDS|TASKS_PER_NODE|STEP_TASKS_PER_NODE|STEP_NUM_NODES|STEP_NUM_TASKS|STEP_NODELIST|DISTRIBUTION|DIST_PLANESIZE|NTASKS_PER_NODE|JOB_ID|JOB_NODELIST)=" | sort | tr "\n" " ")"'
try() { # NAME ARG...
	name=$1
	shift
	in_step "$@" -- sh -c "$show" 2>"$name.err" | sort >"$name.ours"
	srun --overlap "$@" sh -c "$show" 2>"$name.srun.err" | sort >"$name.srun"
}
try block -n 5 -m block
try cyclic -n 5 -m cyclic
try plane -n 6 -m plane=2
"$STEPRUN" --proctrack "$TRACKER" -n 2 --attachable --input attach -- \
	sh -c 'echo up; read -r line; echo "$SLURM_PROCID: $line"' >attachable 2>attachable.err &
pid=$!
tries=0
until [ "$(wc -l <attachable)" -ge 2 ] || [ $tries -gt 5000 ]; do sleep 0.02; tries=$((tries + 1)); done
echo typed | timeout -k 5 300 "$STEPRUN" attach --stdin --tail "$SLURM_JOB_ID.$pid" >shown 2>shown.err
echo $? >shown.status
wait $pid
in_step -n 2 -- sh -c 'echo up; exec sleep 300' >killed 2>killed.err &
pid=$!
tries=0
until [ "$(wc -l <killed)" -ge 2 ] || [ $tries -gt 5000 ]; do sleep 0.02; tries=$((tries + 1)); done
ps -ww -eo pid,ppid,comm,args | grep -F -e "nodelist=$SLURM_JOB_NODELIST" -e steprun |
	awk '{ name[$1] = $3; parent[$1] = $2 } /relay/ && $3 == "srun" { n++; of[n] = $1 }
		END { for (i = 1; i <= n; i++) count += name[parent[of[i]]] == "steprun"; print count + 0 }' >launchers
squeue -h -s -o %i >steps
scancel "$(grep -v 'interactive\|extern\|batch' steps | head -n 1)"
wait $pid
echo $? >killed.status
S
STEPRUN=$steprun TRACKER=$tracker BENCH_SLURM_NODES=2 timeout -k 90 900 sh "$top_srcdir/tests/bench/with-slurm" \
	sh "$tmpdir/inside" "$tmpdir" >"$tmpdir/slurm" 2>&1 ||
	skip_all "no Slurm of two nodes came up: $(tail -n 1 "$tmpdir/slurm")"

for name in block cyclic plane; do
	is "$(cat "$tmpdir/$name.ours")" "$(cat "$tmpdir/$name.srun")" "$name: the layout is what srun gives its own tasks"
	diag "$(cat "$tmpdir/$name.err" "$tmpdir/$name.srun.err")"
done
is "$(cat "$tmpdir/shown.status") $(sort "$tmpdir/shown" | tr '\n' ' ')" "0 0: typed 1: typed up up " \
	"one srun connects a client to both nodes"
diag "$(cat "$tmpdir/shown.err" "$tmpdir/attachable.err")"
is "$(cat "$tmpdir/launchers")" 1 "one srun starts both relays"
is "$(cat "$tmpdir/killed.status")" 125 "scancel, which kills the agents as well, fails the step"
like "$(cat "$tmpdir/killed.err")" "node bench.* is lost: its launcher" \
	"the nodes that scancel killed are named"
no_processes() {
	[ -z "$(left_processes)" ]
}
ok "a step that scancel killed leaves no process behind" eventually no_processes
"$stepctl" clean >"$tmpdir/clean" 2>&1
is $? 0 "stepctl clean of a step that scancel killed succeeds"
nothing_left_soon "stepctl clean leaves nothing of a step that scancel killed"
done_testing
