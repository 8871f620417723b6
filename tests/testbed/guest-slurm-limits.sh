#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Cores and memory of served steps, in the VM, which has all controllers: what the kernel has of them, and
# what users see of a step that is killed for lack of memory, as with Slurm's own slurmstepd.
# shellcheck source=tests/lib/slurm_pair.sh
. "${top_srcdir:?}/tests/lib/slurm_pair.sh"

# The least of all groups above, for the layouts differ.
cat >"$tmpdir/show" <<'END'
#!/bin/sh
sed -n 's/^Cpus_allowed_list:[[:space:]]*/cpus /p' /proc/self/status
own=/sys/fs/cgroup$(sed -n 's/^0:://p' /proc/self/cgroup)
for file in memory.max memory.high; do
	group=$own
	while [ "$group" != /sys/fs/cgroup ]; do
		[ ! -e "$group/$file" ] || cat "$group/$file"
		group=${group%/*}
	done | grep -v max | sort -n | sed -n "1s/^/$file /p"
done
END
cat >"$tmpdir/hog" <<'END'
#!/bin/sh
dd if=/dev/zero of=/dev/null bs=100M count=1
END
cat >"$tmpdir/steps" <<'END'
. "$1/functions"
in_turn step srun -Q -n 1 --mem=60 sh "$1/show"
in_turn step-two srun -Q -n 2 --mem=70 sh "$1/show"
in_turn step-job srun -Q -n 1 sh "$1/show"
in_turn step-less srun -Q -n 1 --mem=10 sh "$1/show"
in_turn job srun -Q -n 1 --mem=60 sh "$1/show-job"
in_turn killed srun -Q -n 1 --mem=40 sh "$1/hog"
in_turn killed-exec srun -Q -n 1 --mem=40 dd if=/dev/zero of=/dev/null bs=100M count=1
END
# What one task has too much of ends the step. How many of it have been killed when it is told is not always the same.
# The other task waits at a FIFO, without processes that come and go.
[ "$STEPD_TEST_PROTOCOL" -lt 10752 ] || cat >>"$tmpdir/steps" <<'END'
mkfifo killed-step.fifo
in_turn killed-step srun -Q -n 2 --mem=40 --oom-kill-step sh -c 'if [ $SLURM_PROCID = 0 ]; then
		: >killed-step.up
		read -r line <killed-step.fifo
	fi
	until [ -e killed-step.up ]; do sleep 0.1; done
	exec sh "$0"' "$1/hog"
cp killed-step.err killed-step.all
sed -Ei 's/Detected [0-9]+ oom/Detected N oom/' killed-step.err
END
# The group of the job, which all of its steps are in.
cat >"$tmpdir/show-job" <<'END'
#!/bin/sh
group=$(sed -nE 's,^0::(.*/(job_[0-9]+|s[0-9A-Z]{13}))/step_.*,\1,p' /proc/self/cgroup)
while [ "${group%/*}" != "${group%.scope/*}.scope" ]; do
	group=${group%/*}
done
cat "/sys/fs/cgroup$group/memory.max" "/sys/fs/cgroup$group/memory.high"
END
# Each has less than its own limit, but both more than the job's. The one that the kernel chooses is the one
# that wants more: another would be chosen, too, if it asked again while the memory of the first waits to be freed.
# So the other step makes no process while it waits.
cat >"$tmpdir/beside" <<'END'
. "$1/functions"
mkfifo other.fifo other.go
exec 4<>other.go # for who writes to it without a reader, too
line other srun -Q --overlap -n 1 --mem=60 sh -c 'exec 3<>other.fifo; dd if=/dev/zero bs=45M count=1 status=none >&3 &
	read -r go <other.go; kill $!; echo written' # 25.05 blocks SIGCHLD, with which dash would wait for good
head -c 1 <other.fifo >/dev/null # it has all of its memory
in_turn large srun -Q --overlap -n 1 --mem=60 sh -c 'echo 1000 >/proc/self/oom_score_adj
	exec dd if=/dev/zero of=/dev/null bs=50M count=1 status=none'
echo >&4
wait
END
cat >"$tmpdir/limits" <<'END'
. "$1/functions"
salloc -Q -n 2 --mem=80 sh "$1/steps" "$1"
salloc -Q -n 2 --mem=80 sh "$1/beside" "$1"
in_turn one salloc -Q -n 1 --mem=50 srun -Q sh "$1/show"
in_turn script sbatch -Q --wait -n 1 --mem=50 -o script.log "$1/show"
cp script.log script.out
in_turn script-killed sbatch -Q --wait --mem=40 -o killed.log "$1/hog"
until scontrol show job >jobs && ! grep -q COMPLETING jobs; do sleep 0.1; done
sed -n 's/^.*\(JobState=[A-Z_]*\).*/\1/p; s/^.* \(ExitCode=[0-9:]*\).*/\1/p; s/^.*\(DerivedExitCode=[0-9:]*\).*/\1/p' jobs >script-killed.out
grep -v 'records\|copied\|Killed' killed.log >script-killed.err
END
# A job that gets less while its step runs. An extern step is there, which slurmctld wants for it.
cat >"$tmpdir/less" <<'END'
. "$1/functions"
is_less() {
	scontrol show job "$SLURM_JOB_ID" | grep -q 'AllocTRES=.*mem=50M'
}
touch less.wait
srun -Q -n 1 --mem=60 sh -c 'sh "$1/show"; sh "$1/show-job"; touch less.up
	while [ -e less.wait ]; do sleep 0.1; done; sh "$1/show"; sh "$1/show-job"; cat' less "$1" <less.fifo &
exec 3>less.fifo
until_true test -e less.up
line more scontrol update "JobId=$SLURM_JOB_ID" MinMemoryNode=90
wait $!
line update scontrol update "JobId=$SLURM_JOB_ID" MinMemoryNode=50
wait $!
until_true is_less
rm less.wait
exec 3>&-
wait
sleep 1.1 # slurmd refuses credentials that are as old as the change, in seconds
in_turn next srun -Q -n 1 --mem=50 sh "$1/show"
in_turn too-much srun -Q -n 1 --mem=60 sh "$1/show"
END
cat >"$tmpdir/update" <<'END'
. "$1/functions"
mkfifo less.fifo
in_turn less salloc -Q -n 1 --mem=80 sh "$1/less" "$1"
END
# Processes that are added to an extern step, as pam_slurm_adopt adds a login.
cat >"$tmpdir/adopt" <<'END'
. "$1/functions"
node=$(ls "$at/spool")
add="$ADOPTED $at/spool/$node/${node}_$SLURM_JOB_ID.4294967292 $STEPD_TEST_PROTOCOL"
in_turn added $add sh "$1/show"
in_turn added-job $add sh "$1/show-job"
in_turn added-killed $add sh "$1/hog"
in_turn beside-it srun -Q -n 1 --mem=60 sh "$1/show"
END
cat >"$tmpdir/extern" <<'END'
. "$1/functions"
salloc -Q -n 1 --mem=80 sh "$1/adopt" "$1"
until_true idle
# slurmstepd of 24.11 leaves the socket of such an extern step.
[ "${PWD##*/}" != extern-real ] || rm -f "$at"/spool/*/*.4294967292
END
ADOPTED=$(cd "$top_builddir" && pwd)/tests/lib/slurm_adopted
export ADOPTED
unset INVOCATION_ID # slurmd is no unit of systemd's here
BENCH_SLURM_PROCTRACK=cgroup
BENCH_SLURM_NODE_WORDS=RealMemory=1000
BENCH_SLURM_CPUS=2
BENCH_SLURM_CGROUP="ConstrainCores=yes
ConstrainRAMSpace=yes"
detected='Detected [0-9]+ oom-kill event\(s\)'
# slurmd of a tree has no systemd that could make its scope.
[ -z "$slurm_root" ] || {
	detected='Detected (1 oom_kill event|[0-9]+ oom_kill events)'
	BENCH_SLURM_CGROUP="$BENCH_SLURM_CGROUP
IgnoreSystemd=yes
EnableControllers=yes"
}
BENCH_SLURM_LINES="TaskPlugin=task/affinity,task/cgroup
SelectTypeParameters=CR_CPU_Memory
CommunicationParameters=block_null_hash,block_zero_hash
SlurmctldDebug=verbose
DebugFlags=Steps
FirstJobId=$first_job
$slurmd_log"
limit_s=1500
echo 'slurm_serve = srun, batch, extern' >"$STEPD_CONFIG"
export BENCH_SLURM_PROCTRACK BENCH_SLURM_NODE_WORDS BENCH_SLURM_CPUS BENCH_SLURM_CGROUP BENCH_SLURM_LINES
both limits
same limits
like "$(cat "$tmpdir/limits-served/step.out")" "^memory.max 62914560$" "a served step has its memory"
like "$(cat "$tmpdir/limits-served/one.out")" "^cpus [01]$" "a served step has its core"
like "$(cat "$tmpdir/limits-served/killed.err")" "$detected in StepId=[0-9.]+" \
	"the user has the line for a step that was killed"
like "$(cat "$tmpdir/limits-served/script-killed.out")" "^JobState=OUT_OF_MEMORY$" "slurmctld has a script as out of memory"
# The state that sacct has of a step is that of this number, and 253 is OUT_OF_MEMORY.
ends_of() { # KIND: STEP NODES STATUS, of the jobs in turn
	sed -n 's/.*REQUEST_STEP_COMPLETE for StepId=\([0-9.]*\) nodes \([0-9-]*\) rc=\([0-9]*\).*/\1 \2 \3/p' \
		"$tmpdir/limits-$1/slurmctld.log" | sort -V
}
is "$(ends_of served)" "$(ends_of real)" "slurmctld has the same of the end of each step"
like "$(ends_of served)" " 253$" "and of a step that was killed for lack of memory that it was"
is "$(cat "$tmpdir/limits-served/job.out")" "83886080
83886080" "the steps of a job have its memory together"
like "$(cat "$tmpdir/limits-served/large.err")" "$detected" \
	"steps side by side have no more than the job's memory"
like "$(cat "$tmpdir/limits-served/other.out")" "^written$" "the kernel kills one of them alone"
is "$(lines_of limits | grep 'handed over')" "" "no step was handed over"
nothing_left_of() { # SCRIPT
	node=$(basename "$tmpdir/$1"-served.*.log .log)
	is "$(find "/sys/fs/cgroup/system.slice/${node#"$1-served."}_slurmstepd.scope" -mindepth 1 -maxdepth 1 -type d \
		! -name system ! -name slurmd)" "" "$1: nothing is left of the jobs' groups"
}
nothing_left_of limits
[ "$STEPD_TEST_PROTOCOL" -lt 10752 ] || like "$(cat "$tmpdir/limits-served/killed-step.all")" "Detected [3-9] oom_kill events" \
	"with --oom-kill-step all processes of both tasks are killed"
BENCH_SLURM_LINES="$BENCH_SLURM_LINES
PrologFlags=Contain"
both extern
same extern
like "$(cat "$tmpdir/extern-served/added.out")" "^memory.max 83886080$" "what is added to an extern step has the job's memory"
like "$(cat "$tmpdir/extern-served/added.out")" "^cpus [01]$" "and its core"
is "$(cat "$tmpdir/extern-served/added-killed.rc")" 137 "and is killed where it wants more"
is "$(lines_of extern | sed -nE 's/ step (served|handed over).*/ \1/p' | sort -u)" "extern served
srun served" "extern steps with limits are served"
nothing_left_of extern
if [ "$STEPD_TEST_PROTOCOL" -ge 11520 ]; then
	both update
	same update
	like "$(cat "$tmpdir/update-served/less.out")" "^memory.max 52428800$" "a running step of a job that has less has less"
	is "$(lines_of update | grep 'handed over')" "" "no other step was handed over"
	nothing_left_of update
fi
is "$(ls "$run")" "" "the served steps have left nothing in the runtime directory"
done_testing
