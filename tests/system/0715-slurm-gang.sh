#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Preemption by SUSPEND,GANG and time slices of a real slurmctld, of jobs that stepd-slurmstepd serves, beside
# those of Slurm's own slurmstepd: two Slurms of three nodes at the same time. The first example of Slurm's
# guide to preemption, "scontrol suspend", and two jobs that share a node: the processor time of whoever is
# suspended stands still, and goes on after.
# shellcheck source=tests/lib/local_slurm.sh
. "${top_srcdir:?}/tests/lib/local_slurm.sh"

needs_slurm python3 sbatch scancel scontrol sinfo squeue srun
serve "srun, batch"

# A fifth of a processor. A process writes down what it hears of a suspension.
cat >"$tmpdir/burn" <<'P'
import os, signal, sys, time
def hear(number, _):
    with open(sys.argv[1] + ".heard", "a") as f:
        f.write(signal.Signals(number).name + "\n")
if sys.argv[3] == "hears":
    signal.signal(signal.SIGTSTP, hear)
    signal.signal(signal.SIGCONT, hear)
with open(sys.argv[1] + ".new", "w") as f:
    f.write("%d\n" % os.getpid())
os.rename(sys.argv[1] + ".new", sys.argv[1])
while not os.path.exists(sys.argv[2]):
    end = time.process_time() + 0.02
    while time.process_time() < end:
        pass
    time.sleep(0.08)
P

# Of its step alone, and resumed before it stands: its processes go on.
cat >"$tmpdir/resume-soon" <<'P'
import sys, threading, time
from slurm_client import Client
def suspend():
    print("suspend", *Client(sys.argv[1]).suspend(), flush=True)
def heard():
    try:
        return len(open(sys.argv[2]).read().split())
    except FileNotFoundError:
        return 0
before = heard()
thread = threading.Thread(target=suspend)
thread.start()
while heard() == before:
    time.sleep(0.01)
print("resume", *Client(sys.argv[1]).resume(), flush=True)
thread.join()
while heard() < before + 2:
    time.sleep(0.01)
P

cat >>"$tmpdir/functions" <<'S'
pause=0.2
# A script with a step on each node: all of them use processor time until there is a file "end" for it.
burns() { # NAME STATUS hears|deaf
	echo "srun -Q --overlap -l sh -c 'exec python3 $DIR/burn $PWD/$1.\$SLURM_PROCID.pid $PWD/$1.end $3' & python3 $DIR/burn $PWD/$1.script.pid $PWD/$1.end $3; wait \$!; exit $2"
}
# A script alone: srun would wait long for a step in a job that is suspended then.
burns_alone() { # NAME STATUS
	echo "python3 $DIR/burn $PWD/$1.script.pid $PWD/$1.end deaf; exit $2"
}
has_begun() { # NAME PROCESSES
	[ "$(cat "$1".*.pid 2>/dev/null | wc -l)" -eq "$2" ]
}
job_state() { # NAME
	scontrol -o show job "$(job "$1")" | sed -n 's/.*JobState=\([A-Z]*\).*/\1/p'
}
is_state() { # NAME STATE
	[ "$(job_state "$1")" = "$2" ]
}
# The sum of what the processes of jobs have used.
ticks() { # NAME...
	for ticks_name; do cat "$ticks_name".*.pid; done | while read -r pid; do
		sed 's/.*) //' "/proc/$pid/stat"
	done | awk '{ sum += $12 + $13 } END { print sum + 0 }'
}
# While the one uses a tenth of a second or more, the other uses nothing.
stands() { # NAME BESIDE
	stands_before=$(ticks "$1") && beside_before=$(ticks "$2") && sleep 0.7 && beside=$(ticks "$2") &&
		stands=$(ticks "$1") && [ "$stands" = "$stands_before" ] && [ $((beside - beside_before)) -ge 10 ]
}
# The task of its step. Whether the script's child does depends on ProctrackType.
heard() { # NAME: of a suspension, and of the end of it
	[ "$(cat "$1.0.pid.heard" 2>/dev/null | tr '\n' ' ')" = "SIGTSTP SIGCONT " ]
}
uses() { # NAME TICKS-BEFORE
	[ $(($(ticks "$1") - $2)) -ge 10 ]
}
S

# ---- the guide's example ---------------------------------------------------------------------
# A job for each node, and one of a higher priority for two of them.
cat >"$tmpdir/guide" <<'S'
for name in low1 low2 low3; do
	submit $name "$(burns $name 3 hears)" -p active -N 1 --exclusive
done
for name in low1 low2 low3; do
	until_true has_begun $name 2
done
submit high "$(burns high 4 deaf)" -p hipri -N 2 --exclusive
until_true has_begun high 3
suspended() {
	[ "$(squeue -h -p active -t S -o %j | wc -l)" -eq 2 ]
}
until_true suspended
stopped=
for name in low1 low2 low3; do
	is_state $name RUNNING && going=$name || stopped="$stopped $name"
done
for name in $stopped; do
	until_true stands $name high
	state $name >$name.suspended
done
set -- "$1" "$2" $stopped
# For as long as the other one has used two seconds.
before="$(ticks "$3") $(ticks "$4")"
high_before=$(ticks high)
going_before=$(ticks "$going")
uses_long() {
	[ $(($(ticks high) - high_before)) -ge 200 ]
}
until_true uses_long
echo "$before" >stood.before
echo "$(ticks "$3") $(ticks "$4")" >stood.after
uses "$going" "$going_before" && echo goes >going
timeout 20 scontrol listpids "$(job "$3")" "$(squeue -h -j "$(job "$3")" -o %N)" | awk 'NR > 1 { print $3, $4 }' | sort >listed
: >high.end
until_true is_over high
for name in $stopped; do
	until_true is_state $name RUNNING
	until_true uses $name "$(ticks $name)"
done
echo resumed >resumed
for name in $stopped; do
	until_true heard $name && echo "a task hears" >>heard
	[ ! -e $name.script.pid.heard ] || echo "a script's child hears" >>heard
done
S

cat >"$tmpdir/inside" <<'S'
. "$1/functions"
mkdir "$1/$2"
cd "$1/$2"
. "$1/guide"

# By hand; one is cancelled while it is suspended.
scontrol suspend "$(job low1)"
echo "suspend $?" >command.text
until_true stands low1 low2
scontrol resume "$(job low1)"
echo "resume $?" >>command.text
until_true uses low1 "$(ticks low1)"
if [ "$2" = served ]; then
	python3 "$DIR/resume-soon" "$at"/spool/*/*_"$(job low2).0" low2.0.pid.heard >soon 2>&1
fi
scontrol suspend "$(job low3)"
until_true stands low3 low2
scancel "$(job low3)"
until_true is_over low3
: >low1.end
: >low2.end
until_true is_over low1
until_true is_over low2

# Time slices: two jobs on one node.
NODE=$(first_node)
for name in one two; do
	submit $name "$(burns_alone $name 5)" -p shared -w "$NODE" -N 1
	until_true has_begun $name 1
done
for turn in 1 2; do
	until_true stands one two && echo "one stands" >>turns
	until_true stands two one && echo "two stands" >>turns
done
: >one.end
: >two.end
until_true is_over one
until_true is_over two
until_true idle
until_true no_step
for id in *.id; do
	state "${id%.id}" >"${id%.id}.state"
	cp "${id%.id}/slurm-$(job "${id%.id}").out" "${id%.id}.text"
done
ls "$at"/spool/* >spool
cp "$at/slurmctld.log" .
echo >over
S

DIR=$tmpdir
PYTHONPATH=$top_srcdir/tests/lib
PYTHONDONTWRITEBYTECODE=1
export DIR PYTHONPATH PYTHONDONTWRITEBYTECODE
BENCH_SLURM_LINES="CommunicationParameters=block_null_hash,block_zero_hash
FirstJobId=$first_job
KillWait=2
MinJobAge=2000
SelectType=select/linear
PreemptType=preempt/partition_prio
PreemptMode=SUSPEND,GANG
SchedulerTimeSlice=5
SchedulerParameters=batch_sched_delay=0,sched_min_interval=1
PartitionName=active Nodes=ALL PriorityTier=1 OverSubscribe=FORCE:1
PartitionName=hipri Nodes=ALL PriorityTier=2 OverSubscribe=FORCE:1
PartitionName=shared Nodes=ALL PriorityTier=1 OverSubscribe=FORCE:2
$slurmd_log"
BENCH_SLURM_NODES=3
BENCH_SLURM_CPUS=2
export BENCH_SLURM_LINES BENCH_SLURM_NODES BENCH_SLURM_CPUS
in_both

# ---- the comparison --------------------------------------------------------------------------
seen() { # WHICH NAME
	for part in state text; do
		alike "$tmpdir/$1/$2.$part" | sed -E 's/NODE-[0-9]/NODE/; s/slurm-[0-9]+/slurm-ID/' | sort
	done
}
for id in "$tmpdir"/real/*.id; do
	name=$(basename "$id" .id)
	[ "$name" != low3 ] || continue # it is killed by slurmstepd, and ended as any other here
	is "$(seen served "$name")" "$(seen real "$name")" "$name: users see the same of a job"
done
is "$(cat "$tmpdir/served/command.text")" "$(cat "$tmpdir/real/command.text")" "scontrol suspend and resume end the same"
for name in served real; do
	is "$(cat "$tmpdir/$name/stood.after" 2>&1)" "$(cat "$tmpdir/$name/stood.before" 2>&1)" \
		"$name: the processor time of jobs that are preempted stands still"
	is "$(cat "$tmpdir/$name/going" 2>&1)" goes "$name: the job goes on that is not preempted"
	is "$(cat "$tmpdir/$name/resumed" 2>&1)" resumed "$name: the jobs go on when the other is over"
	is "$(grep -c 'a task' "$tmpdir/$name/heard")" 2 "$name: tasks hear of a suspension, and of its end"
	is "$(cat "$tmpdir/$name/turns" 2>&1)" "one stands
two stands
one stands
two stands" "$name: two jobs of one node have time slices in turn"
done
is "$(sort "$tmpdir/served/heard")" "$(sort "$tmpdir/real/heard")" "the same processes hear of a suspension"
is "$(sort "$tmpdir/served/soon")" "resume 0 0
suspend 0 0" "a step that is resumed before it stands goes on"
like "$(cat "$tmpdir/real/low3.state" "$tmpdir/real/low3.text")" '^JobState=CANCELLED$' "real: a suspended job is cancelled"
like "$(cat "$tmpdir/served/low3.state")" '^ExitCode=0:15$' "a suspended job that is cancelled goes on to its end"
like "$(cat "$tmpdir/served/low3.text")" 'JOB [0-9]+ ON bench[0-9]+-[1-3] CANCELLED AT' "a suspended job that is cancelled says so"
like "$(cat "$tmpdir/served/listed")" '^0 ' "scontrol lists the tasks of a suspended step"

# ---- what is left ----------------------------------------------------------------------------
is "$(grep -E '^job|_[0-9]+\.' "$tmpdir/served/spool")" "" "what was served has left nothing in slurmd's directory"
is "$(ls "$run")" "" "what was served has left nothing in the runtime directory"
is "$(log_lines | grep -c 'handed over')" 0 "no step was handed over"
done_testing
