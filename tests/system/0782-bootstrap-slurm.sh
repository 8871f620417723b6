#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Agents that srun starts find each other by Slurm's pmi2 plugin, in both protocols.
# shellcheck source=tests/lib/bootstrap.sh
. "${top_srcdir:?}/tests/lib/bootstrap.sh"

for program in slurmctld slurmd srun munged; do
	command -v $program >/dev/null || skip_all "needs $program"
done
[ "$(id -u)" = 0 ] || skip_all "needs root, for slurmd"

# Runs inside the allocation; each part's output is a file.
cat >"$tmpdir/inside" <<END
#!/bin/sh
begin() {
	timeout 300 srun --mpi=pmi2 --overlap "\$@" </dev/null
}
for how in pmi pmi2; do
	begin -n 3 '$agent_command' --bootstrap=\$how -n 5 -- sh -c '$where' >'$tmpdir/'\$how.out 2>&1
	echo \$? >'$tmpdir/'\$how.status
	begin -n 2 '$agent_command' --bootstrap=\$how -- sh -c 'sleep 0.3; exit \$((7 * SLURM_PROCID))' >'$tmpdir/'\$how.exit.out 2>&1
	echo \$? >'$tmpdir/'\$how.exit.status
done
begin -n 2 '$agent_command' --bootstrap=pmi -- sh -c '$leaks' >'$tmpdir/leaks.out' 2>&1
begin -n 2 -K '$agent_command' --bootstrap=pmi -- sh -c '[ "\$SLURM_PROCID" = 0 ] || kill -9 \$PPID; sleep 60' >'$tmpdir/kill.out' 2>&1
echo \$? >'$tmpdir/kill.status'
begin -n 2 sh -c '[ "\$PMI_RANK" = 0 ] || exec sleep 5; exec "\$@"' sh '$agent_command' --bootstrap=pmi --wire-timeout 1s -- true >'$tmpdir/late.out' 2>&1
timeout 300 srun --mpi=none --overlap -n 1 '$agent_command' --bootstrap=pmi -- true >'$tmpdir/none.out' 2>&1
echo done >'$tmpdir/done'
END
chmod +x "$tmpdir/inside"
timeout 300 "$top_srcdir/tests/bench/with-slurm" "$tmpdir/inside" >"$tmpdir/slurm.out" 2>&1
if [ ! -e "$tmpdir/done" ]; then
	diag "$(cat "$tmpdir/slurm.out")"
	skip_all "no Slurm comes up here"
fi

for how in pmi pmi2; do
	is "$(cat "$tmpdir/$how.status")" 0 "$how: a step of three agents under srun succeeds"
	is "$(sed 's/^[0-9]*\.[0-9]* //' "$tmpdir/$how.out" | sort)" "node 0 of 3 rank 0 of 5 on n[0-2] 2(x2),1
node 0 of 3 rank 1 of 5 on n[0-2] 2(x2),1
node 1 of 3 rank 2 of 5 on n[0-2] 2(x2),1
node 1 of 3 rank 3 of 5 on n[0-2] 2(x2),1
node 2 of 3 rank 4 of 5 on n[0-2] 2(x2),1" "$how: tasks are distributed over srun's agents"
	is "$(sed 's/ .*//' "$tmpdir/$how.out" | sort -u | wc -l)" 1 "$how: srun's agents have the ids of one step"
	is "$(cat "$tmpdir/$how.exit.status")" 7 "$how: srun ends with the agents' status"
	unlike "$(cat "$tmpdir/$how.exit.out")" "Force Terminated|Killed" "$how: srun takes no agent for dead"
done
is "$(sort -u "$tmpdir/leaks.out")" 0 "tasks do not have srun's variables and descriptors"
isnt "$(cat "$tmpdir/kill.status")" 124 "an agent that is killed ends srun -K's step"
like "$(cat "$tmpdir/kill.out")" "task 1: Killed" "srun -K names the killed agent"
like "$(cat "$tmpdir/late.out")" "has not answered to 'barrier_in' in time: an agent of another node has not come" \
	"an agent that does not come fails the others at --wire-timeout"
like "$(cat "$tmpdir/none.out")" "no engine has left its PMI here" \
	"an agent under srun --mpi=none is refused with the reason"
done_testing
