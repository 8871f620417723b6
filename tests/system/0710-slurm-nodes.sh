#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Steps of several nodes that stepd-slurmstepd serves, beside those of Slurm's own slurmstepd: two Slurms of
# nine nodes each at the same time, and the same command lines in both. What users see must be the same, and
# what slurmctld hears of the steps' ends: from nine nodes on through the tree of their agents. Agents and
# slurmds are killed in the middle of it.
# shellcheck source=tests/lib/local_slurm.sh
. "${top_srcdir:?}/tests/lib/local_slurm.sh"

needs_slurm python3 scancel srun
serve srun
DIR=$tmpdir
PYTHONPATH=$top_srcdir/tests/lib
PYTHONDONTWRITEBYTECODE=1
export DIR PYTHONPATH PYTHONDONTWRITEBYTECODE

# In slurmstepd's place: the program, but on the nodes that $DIR/handed names.
cat >"$tmpdir/stepd" <<'S'
#!/bin/sh
case $BENCH_SLURM_NODE in
*[13579]) number=odd ;;
*) number=even ;;
esac
[ "$(cat "$DIR/handed" 2>/dev/null)" != $number ] || exec slurmstepd
exec "$PROGRAM"
S
chmod 755 "$tmpdir/stepd"

# ---- the command lines -----------------------------------------------------------------------
# Each has its output, its messages and its status in files of its name.
cat >"$tmpdir/commands" <<'S'
. "$1/functions"
limit='timeout -k 5 150'
place='echo $SLURM_PROCID $SLURM_NODEID $SLURM_LOCALID $SLURM_NTASKS $SLURM_NNODES $SLURM_GTIDS $SLURMD_NODENAME $SLURM_TASKS_PER_NODE $SLURM_CPUS_ON_NODE'
srun='srun -Q --overlap'
nodes=${SLURM_JOB_NODELIST%%[*} # "bench7-"
two="-N2 -w $nodes[1-2]"
three="-N3 -w $nodes[1-3]"
four="-N4 -w $nodes[1-4]"
line two $srun $two -n4 -l sh -c "$place"
line four $srun $four -n4 -l sh -c "$place"
line block $srun $four -n10 -l -m block sh -c "$place"
line cyclic $srun $four -n10 -l -m cyclic sh -c "$place"
line plane $srun $three -n7 -l -m plane=2 sh -c "$place"
line relative $srun -N2 -n2 -r 3 -l sh -c "$place"
line missing $srun $two -n4 nonexistent
line nowhere $srun $two -n2 -D /nowhere pwd
line statuses $srun $four -n4 sh -c 'exit $((SLURM_PROCID + 3))'
line last-status $srun $four -n4 sh -c '[ $SLURM_PROCID != 3 ] || exit 9'
line killed $srun $two -n2 sh -c 'kill -9 $$'
line usr1 $srun $four -n4 sh -c '[ $SLURM_PROCID != 2 ] || kill -USR1 $$'
line bad-exit $srun $three -n3 -K sh -c '"$DIR/meet" bad-exit 3; [ $SLURM_PROCID != 1 ] || { echo step $SLURM_STEP_ID; exit 7; }; exec sleep 300'
line errors $srun $two -n2 -l sh -c 'echo out; echo err >&2'
line half $srun $three -n3 printf half
line labels $srun $three -n 6 -l -o labels.%t sh -c 'echo $SLURM_PROCID; echo e >&2'
line files $srun $three -n6 -o files.%t.%n -e files.err.%t sh -c 'echo $SLURM_PROCID; echo e$SLURM_PROCID >&2'
line appended $srun $two -n2 -o appended --open-mode=append sh -c 'echo $SLURM_PROCID'
line null $srun $two -n2 -i /dev/null -l cat
line many $srun $four -n64 -l echo hello
shell input "echo line | $srun $three -n3 -l cat"
shell input-one "echo line | $srun $three -n3 -l -i 2 cat"
shell input-much "seq 60000 | $srun $three -n3 md5sum"
shell input-closed "seq 60000 | $srun $three -n3 head -n 1"
shell output-much "$srun $four -n4 seq 20000 | sort | md5sum"
shell variables "$srun $three -n4 sh -c 'env >variables.\$SLURM_PROCID'"'; cat variables.[0-3] | sed "/^SLURM_TASK_PID=/d; /PORT=/d; /^BENCH_SLURM/d; /^SLURM_WORKING_CLUSTER=/d; /^SLURM_JOB_*ID=/d; /^SLURM_JOB_SLUID=/d; /^SLURM_JOB_[A-Z]*_TIME=/d; /^TMPDIR=/d; /^SLURM_CONF=/d; /^SLURM_STEP.*ID=/d"'

# A step that runs, and what is done to it.
running() { # NAME COMMAND-OF-ITS-STEP
	name=$1
	shift
	{
		$srun $four -n4 python3 "$DIR/waiting" >"$name.out" 2>"$name.err" </dev/null &
		pid=$!
		until_true has_lines "$name.out" 4
		"$@" "$SLURM_JOB_ID.$(head -n 1 "$name.out" | cut -d ' ' -f 2)" >/dev/null 2>&1
		wait $pid
		echo $? >"$name.rc"
	} &
}
running cancel scancel
running cancel-kill scancel -s KILL
running cancel-usr2 scancel -s USR2
wait
S

# ---- the tree --------------------------------------------------------------------------------
# Steps of nine nodes, one after the other.
cat >"$tmpdir/scenes" <<'S'
. "$1/functions"
which=$2
conf=$(dirname "$SLURM_CONF")
nine() { # NAME STATUS: of each task
	srun -Q --overlap -N9 -n9 sh -c "echo step \$SLURM_STEP_ID; exit $2" >"$1.out" 2>"$1.err" </dev/null
	echo $? >"$1.rc"
}
nine all 0
nine largest '$SLURM_NODEID'
nine first '$((SLURM_NODEID ? 1 : 4))'
if [ "$which" = served ]; then
	for handed in odd even; do
		echo $handed >"$DIR/handed"
		nine "mixed-$handed" '$SLURM_NODEID'
	done
	rm "$DIR/handed"
fi

# A step that waits for the file NAME.go, once srun knows that it runs on so many nodes.
begin() { # NAME NODES
	srun -v --overlap -N "$2" -n "$2" sh -c "echo step \$SLURM_STEP_ID \$SLURM_NODEID \$\$ \$PPID; until [ -e $1.go ]; do sleep 0.1; done" \
		>"$1.out" 2>"$1.err" </dev/null &
	pid=$!
	until_true has_lines "$1.out" "$2"
	until_true has_started "$1.err" "$2"
}
end() { # NAME
	wait $pid
	echo $? >"$1.rc"
}
of_node() { # FILE NODE FIELD
	awk -v node="$2" -v field="$3" '$3 == node { print $field }' "$1.out"
}
parent() { # PID
	ps -o ppid= -p "$1" | tr -d ' '
}
step_of() {
	head -n 1 "$1.out" | cut -d ' ' -f 2
}

# The second node, which has seven others below it, loses what serves the step there. srun waits for its task.
begin lost 9
victim=$(of_node lost 1 5)
[ "$which" = real ] || victim=$(parent "$victim")
kill -9 "$victim"
until_true is_gone "$victim"
: >lost.go
until_true reports_more "$which" "$(step_of lost)" 7
kill -9 $pid
end lost
if [ "$which" = served ]; then
	begin agent 3
	kill -9 "$(of_node agent 1 5)"
	until_true grep -q 'task 1: ' agent.err
	: >agent.go
	end agent
fi

# The slurmd of the second node.
begin slurmd 9
slurmd=$(cat "$conf"/slurmd-*-2.pid)
kill "$slurmd"
until_true is_gone "$slurmd"
srun -Q --overlap -N4 -n4 -w "${SLURM_JOB_NODELIST%%[*}[1-4]" true >without.out 2>without.err </dev/null
echo $? >without.rc
if [ "$which" = served ]; then
	socket=$(ls "$conf"/spool/*-1/*."$(step_of slurmd)")
	for uid in 0 65534; do
		python3 "$DIR/reports" "$socket" $uid >reports.$uid 2>&1
	done
fi
: >slurmd.go
end slurmd
# A minute for those that don't report.
for name in lost slurmd; do
	until_true reports_first "$which" "$(step_of $name)"
done
rm -f "$conf"/spool/*-2/*_[0-9]*.[0-9]* # of the agent that was killed
S

# Reports of nodes at the step's socket: of the first node itself, and of one that it does not have.
cat >"$tmpdir/reports" <<'S'
import os, sys
from slurm_client import Client
if sys.argv[2] != "0":
    os.setgroups([])
    os.setgid(int(sys.argv[2]))
    os.setuid(int(sys.argv[2]))
c = Client(sys.argv[1])
print(c.completion(0, 0, 0), c.completion(1, 9, 0), c.completion(3, 2, 0))
S

# A task of one process, which writes its step's number.
cat >"$tmpdir/waiting" <<'S'
import os, signal, sys
def on_usr2(*_):
    print("usr2", flush=True)
    os._exit(5)
signal.signal(signal.SIGUSR2, on_usr2)
print("step", os.environ["SLURM_STEP_ID"], flush=True)
while True:
    signal.pause()
S

cat >>"$tmpdir/functions" <<'S'
has_started() { # FILE NODES
	[ "$(grep -c ' tasks started' "$1")" -ge "$2" ]
}
reports() { # CLUSTER [STEP]: what slurmctld has got
	sed -nE 's/.*REQUEST_STEP_COMPLETE for StepId=[0-9]+\.([0-9]+) nodes ([0-9]+-[0-9]+) rc=([0-9]+).*/\1 \2 \3/p' "$DIR/$1.ctld" |
		awk -v step="$2" 'step == "" || $1 == step { print $2, $3 }' | sort
}
reports_more() { # CLUSTER STEP COUNT
	[ "$(reports "$1" "$2" | wc -l)" -ge "$3" ]
}
reports_first() { # CLUSTER STEP
	reports "$1" "$2" | grep -q '^0-'
}
S

cat >"$tmpdir/inside" <<'S'
mkdir "$1/$2"
cd "$1/$2"
salloc -Q -N 9 -n 144 sh -c 'sh "$1/commands" "$1" "$2"; sh "$1/scenes" "$1" "$2"' sh "$1" "$2" >salloc 2>&1
echo >over
S

. "$tmpdir/functions"
BENCH_SLURM_LINES="$slurmd_log
SlurmctldLogFile=$tmpdir/@NAME@.ctld
SlurmctldDebug=verbose
DebugFlags=Steps
FirstJobId=$first_job
KillWait=2"
BENCH_SLURM_NODES=9
BENCH_SLURM_CPUS=16
export BENCH_SLURM_LINES BENCH_SLURM_NODES BENCH_SLURM_CPUS
limit_s=600
slurm_program=$tmpdir/stepd
in_both

# ---- the comparison --------------------------------------------------------------------------
# Tasks write and end in any order. Each node's message of a cancelled step is shown if srun is still there.
seen() { # CLUSTER NAME: what users see of it
	for part in out err rc; do
		alike "$tmpdir/$1/$2.$part" | sed -E 's/^step [0-9]+$/step/; /\*\*\* STEP ID ON NODE-[0-9] CANCELLED/d' | sort
	done
}
# slurmstepd of 26.05 can reset srun's connection at the step's end, with output that srun has not read yet.
lost_by_real() { # NAME
	[ "$STEPD_TEST_PROTOCOL" -ge 11520 ] && grep -q step_launch_notify_io_failure "$tmpdir/real/$1.err"
}
# This is what users would have seen then.
known() { # NAME
	case $1 in
	input-closed) printf '1\n1\n1\n' ;;
	output-much) for _ in 1 2 3 4; do seq 20000; done | sort | md5sum ;;
	*) return 1 ;;
	esac
	echo 0
}
for rc in "$tmpdir"/real/*.rc; do
	name=$(basename "$rc" .rc)
	case $name in
	lost | slurmd) continue ;; # they are told by pids
	esac
	if ! lost_by_real "$name"; then
		is "$(seen served "$name")" "$(seen real "$name")" "$name: users see the same of a served step"
	elif wanted=$(known "$name"); then
		is "$(seen served "$name")" "$wanted" "$name: users see all of a served step"
	else
		unlike "$(cat "$tmpdir/served/$name.err")" io_failure "$name: srun loses no connection of a served step"
	fi
done
for file in labels.0 labels.5 files.0.0 files.2.1 files.5.2 files.err.0 files.err.5 appended; do
	is "$(sort "$tmpdir/served/$file")" "$(sort "$tmpdir/real/$file")" "the step's file $file is the same"
done
origin='slurmstepd-bench[0-9]+-1:'
cancelled=
names='cancel cancel-kill'
if [ "$STEPD_TEST_PROTOCOL" -ge 11008 ]; then
	origin='\[[-0-9]+T[0-9:]+\.[0-9]{3}\]'
	cancelled=' DUE to SIGNAL (Terminated|Killed)'
	names=cancel # of a KILL users are not told there
fi
for name in $names; do
	like "$(cat "$tmpdir/served/$name.err")" \
		"^$origin error: \*\*\* STEP [0-9]+\.[0-9]+ ON bench[0-9]+-1 CANCELLED AT [-0-9]+T[0-9:]+$cancelled \*\*\*$" \
		"$name: a served step says when it was cancelled"
	is "$(grep -c CANCELLED "$tmpdir/served/$name.err")" 1 "$name: its first node alone says so"
done

# ---- the tree --------------------------------------------------------------------------------
step_of() { # CLUSTER NAME
	sed -nE 's/^step ([0-9]+).*/\1/p' "$tmpdir/$1/$2.out" | head -n 1
}
reported() { # CLUSTER NAME: "0-8 0", and so on
	reports "$1" "$(step_of "$1" "$2")" | tr '\n' ' '
}
is "$(reported served all)" "0-8 0 " "the end of a step of nine nodes is one report"
is "$(reported served largest)" "0-8 2048 " "the report has the largest status, one of a node that the tree ends with"
is "$(reported served first)" "0-8 1024 " "the report has the largest status, the first node's"
for name in bad-exit cancel cancel-kill cancel-usr2 all largest first; do
	is "$(reported served $name)" "$(reported real $name)" "$name: slurmctld gets the same report of a served step"
done
for handed in odd even; do
	is "$(cat "$tmpdir/served/mixed-$handed.rc")" 8 "srun ends with the largest status where slurmstepd serves the $handed nodes"
	is "$(reported served mixed-$handed)" "0-8 2048 " "one report has all nodes where slurmstepd serves the $handed ones"
done
for cluster in real served; do
	for name in lost slurmd; do
		diag "$cluster $name: $(cat "$tmpdir/$cluster/$name.rc"): $(reported $cluster $name)"
	done
done
# Whoever reports before a node's time is over is in its report.
is "$(reported served lost)" "0-0 0 2-2 0 3-3 0 4-4 0 5-5 0 6-6 0 7-7 0 8-8 0 " \
	"the nodes below one whose agent was killed report to slurmctld themselves"
is "$(reported served lost)" "$(reported real lost)" "slurmctld gets the same reports where an agent was killed"
without_two() {
	reported "$1" slurmd | sed 's/0-1 0 /0-0 0 1-1 0 /'
}
is "$(without_two served)" "0-0 0 1-1 0 2-2 0 3-3 0 4-4 0 5-5 0 6-6 0 7-7 0 8-8 0 " \
	"the nodes below one whose slurmd is dead report to slurmctld themselves"
is "$(without_two served)" "$(without_two real)" "slurmctld gets the same reports where a slurmd is dead"
is "$(cat "$tmpdir/served/slurmd.rc") $(cat "$tmpdir/real/slurmd.rc")" "0 0" "a step ends where a slurmd is dead"

is "$(cat "$tmpdir/served/agent.rc")" 143 "srun ends with its tasks' signal after one node's agent was killed"
like "$(cat "$tmpdir/served/agent.err")" "task 1: Terminated" "srun says that the task of a killed agent was ended"
is "$(reported served agent)" "0-0 0 1-1 15 2-2 0 " "slurmctld gets a report of each node where an agent was killed"
is "$(cat "$tmpdir/served/reports.0")" "(-1, 34) (-1, 34) (-1, 34)" "reports of nodes that are not below are refused"
is "$(cat "$tmpdir/served/reports.65534")" "(-1, 1) (-1, 1) (-1, 1)" "reports by a user are refused"

# ---- the logs --------------------------------------------------------------------------------
log_lines >"$tmpdir/lines"
of_step() { # NAME REGEX: how many lines of its step
	grep -E "\[[0-9]+\.$(step_of served "$1")\]" "$tmpdir/lines" | grep -Ec "$2"
}
is "$(grep 'handed over' "$tmpdir/lines")" "" "no step is handed over"
is "$(of_step lost 'slurmctld gets the report of its end here')" 7 "the log has each node that reports past a killed agent"
is "$(of_step slurmd 'slurmctld gets the report of its end here.*Connection refused')" 7 "the log has each node that reports past a dead slurmd"
is "$(of_step lost '8 of the 8 nodes below have not reported its end')" 1 "the log has how many nodes have not reported"
diag "$(grep -v 'step served$\|handed over' "$tmpdir/lines")"

# ---- what is left ----------------------------------------------------------------------------
node=$(basename "$tmpdir"/served.*-2.log -2.log)
node=${node#served.}
id=$(sed -nE 's/.*\[([0-9]+)\.[0-9]+\].*/\1/p' "$tmpdir/lines" | head -n 1)
rm -rf "/run/stepd-slurmstepd/$node-2_$id.$(step_of served lost)" # nobody is left to do it
is "$(ls "$run")" "" "the served steps have left nothing in the runtime directory"
is "$(ls -d "/run/stepd-slurmstepd/$node"-* 2>/dev/null)" "" "the served steps have left no FIFO"
done_testing
