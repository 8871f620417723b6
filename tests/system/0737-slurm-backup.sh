#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# A site with a backup of slurmctld: served steps end as those of slurmstepd, whoever of the two serves. Two
# Slurms at the same time, one of them with Slurm's own slurmstepd, and the same command lines in both.
# shellcheck source=tests/lib/slurm_pair.sh
. "${top_srcdir:?}/tests/lib/slurm_pair.sh"

unshare --mount --uts true 2>/dev/null || skip_all "needs namespaces of mounts and of host names"
limit_s=400
BENCH_SLURM_BACKUP=yes
BENCH_SLURM_CPUS=8
BENCH_SLURM_LINES="SlurmctldTimeout=10
SelectTypeParameters=CR_CPU
CommunicationParameters=NoCtldInAddrAny,block_null_hash,block_zero_hash
FirstJobId=$first_job
$slurmd_log"
export BENCH_SLURM_BACKUP BENCH_SLURM_CPUS BENCH_SLURM_LINES

cat >"$tmpdir/one" <<'S'
. "$1/functions"
serving() { # primary|backup UP
	scontrol ping 2>/dev/null | grep -qi "Slurmctld($1).* is $2"
}
has_state() { # NAME STATE
	scontrol -o show job "$(job "$1")" 2>/dev/null | grep -q "JobState=$2"
}
until_true serving backup UP
in_turn both srun -Q -n 2 -l echo both
in_turn both-script sbatch -Q --wait -n 2 -o both.log --wrap 'srun -Q -n 2 -l echo step; exit 3'
cat both.log >>both-script.out

# The primary is killed while steps run. They end before the backup serves.
submit ends 'touch up; while [ ! -e go ]; do sleep 0.1; done; exit 5' -n 1 -o log
submit steps 'srun -Q -n 2 -l sh -c "touch up; while [ ! -e go ]; do sleep 0.1; done; echo ends"; echo "srun $?"' -n 2 -o log
until_true is_up ends
until_true is_up steps
kill_slurmctld # the primary
touch ends/go steps/go
until_true serving primary DOWN
until_true has_state ends FAILED
until_true has_state steps COMPLETED
state ends >ends.out
state steps >steps.out
cat steps/log >>steps.out
for name in ends steps; do
	echo 0 >$name.rc
	: >$name.err
done
in_turn backup srun -Q -n 2 -l echo backup
in_turn backup-script sbatch -Q --wait -n 2 -o backup.log --wrap 'srun -Q -n 2 -l echo step; exit 4'
cat backup.log >>backup-script.out
until_true no_step
until_true idle
squeue -h -s >left.out 2>left.err
echo $? >left.rc
S
both one
same one
is "$(lines_of one | grep 'handed over')" "" "no step is handed over"
like "$(cat "$tmpdir/one-served/ends.out")" '^ExitCode=5:0$' "the backup learns of the end of a script that the primary has started"
like "$(cat "$tmpdir/one-served/steps.out")" '^srun 0$' "a step ends while no slurmctld serves"
is "$(ls "$run")" "" "the served steps have left nothing in the runtime directory"
done_testing
