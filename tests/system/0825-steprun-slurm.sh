#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# steprun in an allocation of a real Slurm: one srun starts the relays, and the layout is srun's.
# shellcheck source=tests/lib/steprun.sh
. "${top_srcdir:?}/tests/lib/steprun.sh"

[ "$(id -u)" = 0 ] || skip_all "needs root"
for program in munged slurmctld slurmd salloc srun; do
	command -v $program >/dev/null || skip_all "needs Slurm: there is no $program"
done

cat >"$tmpdir/inside" <<'S'
cd "$1"
in_step() {
	timeout -k 5 300 "$STEPRUN" --proctrack "$TRACKER" "$@"
}
in_step -n 3 -- sh -c 'echo $SLURM_PROCID $SLURM_NODEID $SLURM_JOB_ID $SLURM_TASKS_PER_NODE' >layout 2>layout.err
echo $? >layout.status
srun -n 3 --overlap sh -c 'echo $SLURM_PROCID $SLURM_NODEID $SLURM_JOB_ID $SLURM_TASKS_PER_NODE' >layout.srun 2>&1
head -c 300000 /dev/urandom >bytes
in_step -n 2 -i 1 cat <bytes >copy 2>copy.err
in_step -q -n 2 -- sh -c 'exit $((SLURM_PROCID + 3))' 2>status.err
echo $? >status
in_step -n 2 -- sh -c 'echo up; exec sleep 300' >killed 2>killed.err &
pid=$!
tries=0
until [ "$(wc -l <killed)" -ge 2 ] || [ $tries -gt 5000 ]; do sleep 0.02; tries=$((tries + 1)); done
kill -TERM $pid
wait $pid
echo $? >killed.status
"$STEPRUN" --proctrack "$TRACKER" -n 2 --attachable --input attach -- \
	sh -c 'echo up; read -r line; echo "$SLURM_PROCID: $line"' >attachable 2>attachable.err &
pid=$!
tries=0
until [ "$(wc -l <attachable)" -ge 2 ] || [ $tries -gt 5000 ]; do sleep 0.02; tries=$((tries + 1)); done
echo typed | timeout -k 5 300 "$STEPRUN" attach --stdin --tail "$SLURM_JOB_ID.$pid" >shown 2>shown.err
echo $? >shown.status
wait $pid
in_step -n 300 true >room 2>&1
echo $? >>room
in_step -O -n 300 -- echo x >over 2>over.err
S
STEPRUN=$steprun TRACKER=$tracker timeout -k 90 900 sh "$top_srcdir/tests/bench/with-slurm" \
	sh "$tmpdir/inside" "$tmpdir" >"$tmpdir/slurm" 2>&1 ||
	skip_all "no Slurm came up: $(tail -n 1 "$tmpdir/slurm")"

diag "$(cat "$tmpdir/layout.err")"
is "$(cat "$tmpdir/layout.status")" 0 "steprun in an allocation starts its relay by srun"
is "$(sort "$tmpdir/layout")" "$(sort "$tmpdir/layout.srun")" "the layout is what srun gives its own tasks"
ok "bytes pass through srun unchanged" cmp "$tmpdir/bytes" "$tmpdir/copy"
is "$(cat "$tmpdir/status")" 4 "the status arrives through srun"
is "$(cat "$tmpdir/killed.status")" 143 "SIGTERM to steprun ends the step under srun"
is "$(cat "$tmpdir/shown.status") $(sort "$tmpdir/shown" | tr '\n' ' ')" "0 0: typed 1: typed up up " \
	"a client in the allocation shows a step, and types to it"
diag "$(cat "$tmpdir/shown.err" "$tmpdir/attachable.err")"
like "$(cat "$tmpdir/room")" "300 tasks don't fit" "more tasks than CPUs are refused"
is "$(wc -l <"$tmpdir/over")" 300 "--overcommit allows more tasks than CPUs"
nothing_left_soon "the job leaves no cgroup, process or file behind"
done_testing
