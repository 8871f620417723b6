#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# What sacct has of the jobs and steps that stepd-slurmstepd serves, beside those of Slurm's own slurmstepd: two
# Slurms at the same time, each with a slurmdbd, and the same jobs in both. Names, states, exit codes, numbers
# of tasks and resources must be the same; what was used is within bounds that both keep.
# shellcheck source=tests/lib/local_slurm.sh
. "${top_srcdir:?}/tests/lib/local_slurm.sh"
# shellcheck source=tests/lib/slurm_database.sh
. "$top_srcdir/tests/lib/slurm_database.sh"

needs_slurm awk python3 sbatch scancel scontrol setpriv squeue srun sstat
needs_database
serve 'srun, batch, extern, interactive'
begin_database

# ---- the jobs --------------------------------------------------------------------------------
# Rank 0 has 64 MiB and rank 1 96, they use the processor for 1.2 and 2.4 seconds of their own, each writes 20 MB;
# they stay for sstat, and two readings more. They end without giving their memory back first: of a step Slurm knows what its last
# reading had, which may be made at any moment.
# What they know of their own memory is kept where a check of it fails.
cat >"$tmpdir/use" <<'S'
import os, resource, time
rank = int(os.environ["SLURM_PROCID"])
memory = b"x" * ((64 + 32 * rank) << 20)
with open("written.%d" % rank, "wb") as file:
    for _ in range(20):
        file.write(b"y" * 1000000)
while os.times().user < 1.2 * (1 + rank):
    pass
with open("/proc/self/status") as status, open("peak.%d" % rank, "w") as file:
    file.writelines(line for line in status if line.startswith("Vm"))
    print("ru_maxrss", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=file)
open("ready.%d" % rank, "w").close()
while not os.path.exists("seen"):
    time.sleep(0.1)
time.sleep(3)
os._exit(0)
S
# A job's end is often known before that of its step, which is then missing in DerivedExitCode.
cat >"$tmpdir/known" <<'S'
while squeue -h -s -j "$SLURM_JOB_ID" -o %i | grep -Eiq "\.([0-9]+|interactive)$"; do
	sleep 0.2
done
S
cat >"$tmpdir/inside" <<'S'
. "$1/functions"
pause=0.2
top=$1
mkdir "$top/$2"
cd "$top/$2"
printf '0 true\n1 false\n' >programs
sacct_of() { # FIELDS
	sacct -P -n -a -D -S now-1hour -o "$1"
}
hold() { # NAME TEXT OPTION...
	submit "$@"
	until_true is_up "$1"
}
# First of all: slurmd knows of a job that has been there by the second, and clears what it knows every other
# second. One that begins again sooner, beside others, has no extern step, or fails. Else it begins after two minutes.
hold requeued 'if [ -n "$SLURM_RESTART_COUNT" ]; then touch again; exit 0; fi; touch up; exec sleep 300' --requeue
scontrol requeue "$(job requeued)"
restarted() {
	scontrol update "JobId=$(job requeued)" StartTime=now >/dev/null 2>&1
	[ -e requeued/again ]
}
sleep 3
until_true restarted
# Those that end by themselves.
script complete 'srun -Q true; srun -Q -n 1 -J named true; srun -Q --multi-prog ../programs; srun -Q -n 1 true & wait; . ../../known' \
	-n 2 --mem=40
script failed 'exit 3'
script derived 'srun -Q sh -c "exit \$((7 + SLURM_PROCID))"; srun -Q -n 1 sh -c "kill -9 \$\$"; srun -Q -n 1 nowhere
	srun -Q -D /nowhere -n 1 true; . ../../known; exit 0' -n 2
script several 'srun -Q sh -c "exit \$((9 - SLURM_PROCID))"
	srun -Q sh -c "kill -\$((9 - SLURM_PROCID * 3)) \$\$; exec sleep 300"
	srun -Q sh -c "[ \$SLURM_PROCID = 1 ] || exit 7; kill -9 \$\$; exec sleep 300"; . ../../known; exit 0' -n 3
script killed 'kill -USR1 $$'
script aborted 'srun -Q -n 1 sh -c "kill -ABRT \$\$"; . ../../known; exit 1'
script bad-exit 'srun -Q -K sh -c "[ \$SLURM_PROCID = 1 ] && exit 9; exec sleep 300"; status=$?; . ../../known; exit $status' -n 2
script files 'true' -o /nowhere/file
script array 'exit $SLURM_ARRAY_TASK_ID' -a 0-2
script nodes 'srun -Q -n 4 sh -c "exit \$SLURM_PROCID"; srun -Q -N 1 -n 1 true; . ../../known' -N 2 -n 4
script use 'srun -Q python3 ../../use &
	until [ -e ready.0 ] && [ -e ready.1 ]; do sleep 0.2; done
	sstat -n -P --noconvert -j "$SLURM_JOB_ID.0" -o AveRSS >during 2>&1; touch seen; wait; srun -Q -n 1 sleep 0.1' -n 2 --mem=500
# A minute.
script time 'trap : TERM; srun -Q sleep 300; . ../../known; exit 3' -t 1
script step-time 'srun -Q -t 1 sleep 300; . ../../known; exit 2'
srun -Q -J direct -n 3 sh -c 'exit $SLURM_PROCID' >direct.out 2>&1 &
setpriv --reuid=65534 --regid=65534 --clear-groups srun -Q -D / -J user -n 2 true >user.out 2>&1 &
salloc -Q -J allocated -n 2 sh -c 'srun -Q -n 1 true; srun -Q --interactive -n 1 sh -c "exit 4"; . ../known; exit 6' >salloc.out 2>&1 &
srun -Q -J interrupted -n 1 sh -c 'trap "exit 11" TERM; touch interrupted.up; sleep 300 & wait' >interrupted.out 2>&1 &
{
	until_true test -e interrupted.up
	scancel -n interrupted
} &

# slurmd has a thread for each request: one to resume a job can be done before the one to suspend it, which stands
# for good then.
stands() { # FILE
	[ $(($(date +%s) - $(stat -c %Y "$1"))) -ge 3 ]
}
# Those that something is done to.
{
	hold cancelled 'trap : TERM; srun -Q sh -c "touch up; exec sleep 300"; . ../../known; exit 3'
	scancel "$(job cancelled)"
} &
{
	hold cancelled-user 'srun -Q sh -c "trap : TERM; touch up; sleep 300 & wait; exit 5"; . ../../known; exit 0'
	scancel -s TERM "$(job cancelled-user).0"
} &
{
	hold cancelled-step 'srun -Q sh -c "touch up; exec sleep 300"; . ../../known; exit 4'
	scancel "$(job cancelled-step).0"
} &
{
	hold killed-step 'srun -Q sh -c "touch up; exec sleep 300"; . ../../known; exit 0'
	scancel -s KILL "$(job killed-step).0"
} &
{
	hold suspended 'srun -Q sh -c "touch beat up; until [ -e go ]; do touch beat; sleep 0.1; done; exit 8"; . ../../known; exit 0'
	scontrol suspend "$(job suspended)"
	until_true stands suspended/beat
	scontrol resume "$(job suspended)"
	touch suspended/go
} &
wait
until_true idle
node=$(scontrol show hostnames "$(sinfo -h -o %N)" | tail -n 1)
hold lost 'srun -Q sh -c "touch up; exec sleep 300"' -w "$node" --no-requeue
scontrol update "NodeName=$node" State=DOWN Reason=test
until_true idle
until_true no_step

# slurmdbd gets what it is to know in the order in which it happened.
srun -Q -J last true
is_settled() {
	sacct_of JobName,State >states
	grep -q '^last|COMPLETED' states && ! grep -Eq 'RUNNING|PENDING|SUSPENDED|COMPLETING' states
}
until_true is_settled
sacct_of JobID,JobName,State,ExitCode,DerivedExitCode,NTasks,NNodes,AllocCPUS,ReqCPUS,ReqMem,AllocTRES,User,Partition,Layout >all
sacct -P -a -D -S now-1hour --noconvert -o JobID,JobName,MaxRSS,AveRSS,MaxRSSTask,MaxVMSize,AveCPU,MinCPU,MinCPUTask,TotalCPU,UserCPU,SystemCPU,MaxDiskRead,MaxDiskWrite,AveDiskWrite,MaxDiskWriteNode,MaxPages,TRESUsageInMax,TRESUsageInTot,TRESUsageOutMax,ConsumedEnergyRaw >used
cp "$at"/slurm*.log .
echo >over
S

BENCH_SLURM_NODES=2
BENCH_SLURM_CPUS=64
BENCH_SLURM_NODE_WORDS=RealMemory=4000
BENCH_SLURM_LINES="PrologFlags=Contain
SelectTypeParameters=CR_CPU_Memory
DefMemPerCPU=10
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
LaunchParameters=use_interactive_step
CommunicationParameters=block_null_hash,block_zero_hash
FirstJobId=$first_job
$slurmd_log"
export BENCH_SLURM_NODES BENCH_SLURM_CPUS BENCH_SLURM_NODE_WORDS BENCH_SLURM_LINES
in_both

# ---- the comparison --------------------------------------------------------------------------
# Rows have the job's name in the place of its number.
named() { # KIND FILE
	alike "$tmpdir/$1/$2" | awk -F'|' -v OFS='|' '
		{ id = $1; sub(/[._].*/, "", id) }
		$1 !~ /\./ { name[id] = $2 }
		{ rest = $1; sub(/^[0-9]+/, "", rest); $1 = name[id] rest; print }'
}
for kind in served real; do
	# Nothing in these jobs waits until slurmctld knows of their steps' ends. A job may be requeued before
	# slurmctld has read of the end of its extern step, which then is CANCELLED: so the real one's is left out.
	named $kind all | awk -F'|' -v OFS='|' -v kind=$kind '
		/^(direct|interrupted|lost|requeued|user)[.|]/ { $5 = "" }
		kind == "real" && /^requeued\.extern/ { $3 = "COMPLETED"; $4 = "0:0" }
		{ print }' | sort >"$tmpdir/$kind.all"
	named $kind used >"$tmpdir/$kind.used"
done
for job in $(cut -d'|' -f1 "$tmpdir/real.all" "$tmpdir/served.all" | sed 's/[._].*//' | sort -u); do
	is "$(grep "^${job}[._|]" "$tmpdir/served.all")" "$(grep "^${job}[._|]" "$tmpdir/real.all")" \
		"$job: sacct has the same of a job whose steps are served"
done
for state in COMPLETED FAILED 'CANCELLED by 0' TIMEOUT NODE_FAIL REQUEUED; do
	like "$(cat "$tmpdir/served.all")" "\\|$state\\|" "there is a job that is $state"
done

# ---- what was used ---------------------------------------------------------------------------
value() { # KIND ROW FIELD: of the step, as a plain number: seconds, bytes
	awk -F'|' -v row="$2" -v field="$3" '
		NR == 1 { for (i = 1; i <= NF; i++) if ($i == field) at = i }
		$1 != row { next }
		{
			v = $at; days = 0; unit = 1
			if (v ~ /[KMG]$/) unit = v ~ /K$/ ? 1024 : v ~ /M$/ ? 1048576 : 1073741824
			if (v ~ /-/) { days = v; sub(/-.*/, "", days); sub(/.*-/, "", v) }
			if (v ~ /:/) { n = split(v, t, ":"); v = days * 24; for (i = 1; i <= n; i++) v = v * 60 + t[i] }
			print v == "" ? "" : v * unit; exit
		}' "$tmpdir/$1.used"
}
between() { # KIND FIELD VALUE LEAST MOST
	ok "$2 is between $4 and $5 of a step ($1: $3)" \
		awk -v n="$3" -v least="$4" -v most="$5" 'BEGIN { exit !(n != "" && n + 0 >= least && n + 0 <= most) }'
}
within() { # FIELD LEAST MOST
	for kind in served real; do
		between $kind "$1" "$(value $kind use.script.0 "$1")" "$2" "$3"
	done
}
within MaxRSS 100663296 160000000
for kind in served real; do
	between $kind "AveRSS by sstat" "$(cat "$tmpdir/$kind/use/during")" 83886080 130000000
done
# slurmstepd also reads a task that has given its memory back by its exit and is no zombie yet: so not of the real one.
between served AveRSS "$(value served use.script.0 AveRSS)" 83886080 130000000
within MaxVMSize 100663296 2000000000
within AveCPU 1 15
within TotalCPU 3 40
within UserCPU 1 40
within MaxDiskWrite 19900000 24000000
within AveDiskWrite 19900000 24000000
for field in MaxRSSTask MinCPUTask ConsumedEnergyRaw; do
	is "$(value served use.script.0 $field)" "$(value real use.script.0 $field)" "$field of a step is the same"
done
filled() { # KIND ROW: which columns have something
	awk -F'|' -v row="$2" 'NR == 1 { n = split($0, names, "|") }
		$1 == row { for (i = 1; i <= n; i++) if ($i != "") printf "%s ", names[i] }' "$tmpdir/$1.used"
}
for row in use.script use.script.batch use.script.0; do
	is "$(filled served $row)" "$(filled real $row)" "$row: the same columns have a value"
done

# ---- what only a served step has -------------------------------------------------------------
is "$(log_lines | grep -c 'handed over')" 0 "no step was handed over"
is "$(grep -iE 'error:.*(malformed|unpack|STEP_COMPLETE|jobacctinfo|protocol)' "$tmpdir/served/slurmctld.log")" "" \
	"slurmctld takes the records of served steps"
is "$(ls "$run")" "" "the served steps have left nothing in the runtime directory"
done_testing
