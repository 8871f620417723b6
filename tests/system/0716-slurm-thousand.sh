#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# A batch script with 1,000 steps, eight at a time, all of which stepd-slurmstepd serves: each has its output
# and its status, slurmctld hears of each end, and nothing is left behind.
# shellcheck source=tests/lib/local_slurm.sh
. "${top_srcdir:?}/tests/lib/local_slurm.sh"

needs_slurm sbatch scontrol squeue srun
serve "srun, batch"
STEPS=$(rounds 200 1000)
RUN=$run
export STEPS RUN

# Every tenth step fails.
cat >"$tmpdir/steps" <<'S'
#!/bin/sh
worker() { # FIRST
	step=$1
	while [ "$step" -lt "$STEPS" ]; do
		srun -Q --overlap -n 1 sh -c "echo $step \$SLURM_STEP_ID; exit $((step % 10 ? 0 : 3))" >>out 2>>"err.$1" </dev/null
		echo "$step $?" >>status
		step=$((step + 8))
	done
}
for first in 0 1 2 3 4 5 6 7; do
	worker $first &
done
wait
srun -Q --overlap -n 1 true
S

cat >"$tmpdir/inside" <<'S'
. "$1/functions"
pause=0.2
mkdir "$1/$2"
cd "$1/$2"
NODE=$(first_node)
slurmd=$(cat "$at/slurmd-$NODE.pid")
descriptors() {
	ls "/proc/$slurmd/fd" | wc -l
}
has_descriptors() { # COUNT
	[ "$(descriptors)" -le "$1" ]
}
# As it is once it has started a script and a step.
submit before 'srun -Q -n 1 true'
until_true is_over before
until_true no_step
sleep 1
descriptors >descriptors.before
mkdir many
(cd many && exec sbatch --parsable -n 8 "$1/steps") >many.id
until_true is_over many
until_true no_step
until_true has_descriptors "$(cat descriptors.before)"
descriptors >descriptors.after
scontrol -o show job "$(job many)" >job
squeue -h -s >steps.left 2>&1
scontrol -o show step >>steps.left 2>&1
ls "$at/spool/$NODE" >spool
echo "$NODE" >node
cp "$at/slurmctld.log" .
# By the command line: those of this test's runtime directory.
grep -lz -e "--runtime-dir=$RUN" /proc/[0-9]*/cmdline 2>/dev/null >processes
find /sys/fs/cgroup -type d -path "*$(job many)*" >cgroups
echo >over
S

BENCH_SLURM_LINES="CommunicationParameters=block_null_hash,block_zero_hash
FirstJobId=$first_job
JobAcctGatherType=jobacct_gather/linux
MinJobAge=2000
DebugFlags=Steps
SlurmctldDebug=verbose
$slurmd_log"
BENCH_SLURM_STEPD=$PROGRAM
export BENCH_SLURM_LINES BENCH_SLURM_STEPD
limit_s=340
in_slurm served "$(slurm_port 2)"
[ -s "$tmpdir/served/over" ] || skip_all "no Slurm came up: $(tail -n 1 "$tmpdir/served.slurm")"

cd "$tmpdir/served" || exit 1
is "$(sort -n many/out | cut -d' ' -f1)" "$(seq 0 $((STEPS - 1)))" "each of $STEPS steps has written its line"
is "$(cut -d' ' -f2 many/out | sort -un)" "$(seq 0 $((STEPS - 1)))" "each step has a number of its own"
is "$(sort -n many/status)" "$(seq 0 $((STEPS - 1)) | awk '{ print $1, $1 % 10 ? 0 : 3 }')" "srun has the status of each step"
is "$(sort -u many/err.[0-9] | sed -E 's/bench[0-9]+/NODE/')" "srun: error: NODE: task 0: Exited with exit code 3" \
	"srun says of the steps that fail what it should, and no more"
is "$(grep -c 'srun step served$' "$tmpdir"/served.*.log)" $((STEPS + 2)) "each step was served"
like "$(cat job)" ' JobState=COMPLETED .* ExitCode=0:0 ' "slurmctld has the job as completed"
reports() { # REGEX: of the job's numbered steps
	sed -nE "s/.*REQUEST_STEP_COMPLETE for StepId=$(cat many.id)\.([0-9]+) .*rc=$1\(.*/\1/p" slurmctld.log | sort -un | wc -l
}
is "$(reports '[0-9]+')" $((STEPS + 1)) "slurmctld has a report of each step's end"
is "$(reports 768)" $((STEPS / 10)) "the reports have the statuses of those that failed"
is "$(cat steps.left)" "No job steps in the system" "slurmctld has no step left"

is "$(cat descriptors.after)" "$(cat descriptors.before)" "slurmd has as many descriptors as before"
is "$(grep -E '^job|_[0-9]+\.' spool)" "" "nothing is left in slurmd's directory"
is "$(ls "$run")" "" "nothing is left in the runtime directory"
is "$(ls -d "/run/stepd-slurmstepd/$(cat node)"_* 2>/dev/null)" "" "no FIFO is left"
is "$(cat processes)" "" "no process is left"
is "$(cat cgroups)" "" "no cgroup is left"
done_testing
