#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Steps of several components and scripts of heterogeneous jobs that stepd-slurmstepd serves, beside those of
# Slurm's own slurmstepd: two Slurms of four nodes at the same time, and the same command lines in both. Users
# must see the same: variables, labels, statuses, signals, several programs, PMI-2.
# shellcheck source=tests/lib/slurm_pair.sh
. "${top_srcdir:?}/tests/lib/slurm_pair.sh"

echo 'slurm_serve = srun, batch, het' >"$STEPD_CONFIG"
DIR=$tmpdir
PYTHONPATH=$(cd "$top_srcdir" && pwd)/tests/lib
PYTHONDONTWRITEBYTECODE=1
export DIR PYTHONPATH PYTHONDONTWRITEBYTECODE

# The variables of a task, but those of this moment.
cat >"$tmpdir/variables" <<'S'
#!/bin/sh
env | grep -E '^(SLURM|HOME=|USER=|PATH=)' |
	grep -Ev '^(SLURM_TASK_PID|SLURM_CONF|SLURM_WORKING_CLUSTER|[A-Z_]*PORT)=' |
	sed -E "s/^(SLURM_JOB_(START|END)_TIME[A-Z_0-9]*)=[0-9]+$/\\1=NUMBER/; s/^/${SLURM_PROCID-} /"
S
printf '#!/bin/sh\necho export PROLOGED=$SLURM_PROCID.$SLURM_NODEID.$SLURM_JOB_ID\n' >"$tmpdir/prolog"
# Its output is nobody's.
printf '#!/bin/sh\necho $SLURM_PROCID $SLURM_LOCALID $SLURM_JOB_ID $SLURM_STEP_ID >>epilog.$SLURM_NTASKS.$SLURM_PROCID\n' >"$tmpdir/epilog"
chmod 755 "$tmpdir/variables" "$tmpdir/prolog" "$tmpdir/epilog"

# A conversation of PMI-2: what a rank gets of the others.
cat >"$tmpdir/talk" <<'S'
import os
from pmi_talk import Talk, RANK, SIZE

def fields(answer):
    return dict(f.split("=", 1) for f in answer.split(";") if "=" in f)

t = Talk()
t.init(2)
full = fields(t.call("cmd=fullinit;pmijobid=1;pmirank=%d;threaded=FALSE;" % RANK))
print(RANK, "is", full["rank"], "of", full["size"])
for turn in range(2):
    t.call("cmd=kvs-put;key=%d.%d;value=v%d.%d;" % (turn, RANK, turn, RANK))
    t.call("cmd=kvs-fence;")
    print(RANK, turn, [fields(t.call("cmd=kvs-get;jobid=;srcid=-1;key=%d.%d;" % (turn, r))).get("value") for r in range(SIZE)])
print(RANK, fields(t.call("cmd=info-getjobattr;key=PMI_process_mapping;")).get("value"))
print(RANK, sorted(v for v in os.environ if "PMI" in v))
t.call("cmd=finalize;")
S

# A barrier of PMI-1, and the name that all have for their job.
cat >"$tmpdir/talk1" <<'S'
from pmi_talk import Talk, RANK, SIZE
t = Talk()
t.init(1)
def call(text):
    return dict(f.split("=", 1) for f in t.call(text).split(" ") if "=" in f)
name = call("cmd=get_my_kvsname")["kvsname"]
call("cmd=put kvsname=%s key=k%d value=v%d" % (name, RANK, RANK))
call("cmd=barrier_in")
print(RANK, name, [call("cmd=get kvsname=%s key=k%d" % (name, r))["value"] for r in range(SIZE)])
call("cmd=finalize")
S

# ---- in the allocation of a heterogeneous job: one node with two tasks, and two nodes with four --------
cat >"$tmpdir/lines" <<'S'
srun='srun -Q --overlap'
all="$srun --het-group=0,1"
in_turn whole $all "$DIR/variables"
in_turn first $srun "$DIR/variables"
in_turn second $srun --het-group=1 "$DIR/variables"
in_turn apart $srun --het-group=0 "$DIR/variables" : --het-group=1 "$DIR/variables"
in_turn fewer $srun --het-group=0 -n1 "$DIR/variables" : --het-group=1 -N1 -n1 "$DIR/variables"
in_turn export $srun --export=A=b --het-group=0,1 sh -c 'echo $A $SLURM_PROCID ${SLURM_JOB_PARTITION-none}'
in_turn programs $srun --het-group=0 echo first : --het-group=1 echo second
in_turn labels $all -l sh -c 'echo out $SLURM_PROCID; echo err $SLURM_PROCID >&2'
in_turn label-one $srun --het-group=1 -l sh -c 'echo out $SLURM_PROCID'
in_turn unbuffered $all -u -l sh -c 'echo out $SLURM_PROCID $SLURM_LOCALID $SLURM_NODEID'
in_turn status $all sh -c 'exit $SLURM_PROCID'
in_turn status-one $all sh -c '[ $SLURM_PROCID != 4 ] || exit 7'
in_turn signal $all sh -c '[ $SLURM_PROCID != 3 ] || kill -9 $$'
in_turn bad-exit $all -K sh -c '"$DIR/meet" bad-exit 6; [ $SLURM_PROCID != 2 ] || exit 4; exec sleep 100'
in_turn bad-exit-first $all -K sh -c '"$DIR/meet" bad-exit-first 6; [ $SLURM_PROCID != 0 ] || kill -USR1 $$; exec sleep 100'
in_turn wait $all -W 1 sh -c '[ $SLURM_PROCID = 0 ] || exec sleep 100'
in_turn nothing $all /no/such/program
# slurmstepd's lines may come in pieces: those of one task are compared.
in_turn nowhere sh -c "$all -D /no/such/directory pwd 2>nowhere.lines"
in_turn nowhere-one $srun --het-group=1 -N 1 -n 1 -D /no/such/directory pwd
in_turn stdin sh -c "echo line | $srun --het-group=1 -l cat"
in_turn stdin-none sh -c "echo line | $all -l -i none cat"
in_turn stdin-one sh -c "echo line | $srun --het-group=0 -l -i 1 cat"
in_turn file $all -o file.out sh -c 'echo out $SLURM_PROCID; echo err $SLURM_PROCID >&2'
in_turn file-each $all -o each.%t.out echo out
in_turn file-node $all -o node.%u.%n.out --open-mode=append sh -c 'echo out $SLURM_PROCID'
in_turn prolog $all --task-prolog="$DIR/prolog" --task-epilog="$DIR/epilog" sh -c 'echo $PROLOGED'
printf '0-1 echo some %%t %%o\n* echo all %%t %%o\n' >several
in_turn several $all -l --multi-prog several
printf '0 echo zero %%t\n1 sh -c false\n2-3 echo rest %%t %%o\n' >each
in_turn several-one $srun --het-group=1 --multi-prog each
in_turn directory $all sh -c 'pwd; umask; ulimit -n; id'
in_turn output sh -c "$all sh -c 'head -c 300000 /dev/zero' | wc -c"
in_turn limit $all -t 0:01 sh -c 'sleep 0.1'
in_turn pmi2 $all --mpi=pmi2 -K python3 "$DIR/talk"
in_turn pmi2-one $srun --het-group=1 --mpi=pmi2 -K python3 "$DIR/talk"
in_turn pmi1 $all --mpi=pmi2 -K python3 "$DIR/talk1"
in_turn pmi2-first $srun --mpi=pmi2 -K python3 "$DIR/talk"
in_turn pmi2-abort $all --mpi=pmi2 -K sh -c '"$DIR/meet" pmi2-abort 6; [ $SLURM_PROCID != 4 ] || exit 3; exec python3 "$DIR/talk" >/dev/null' # some have written when they are killed
# On which nodes tasks are left to be cancelled depends on how soon those of the others are gone.
sed -E 's/bench[0-9]+-[0-9]/NODE/g; s/ AT .*/ AT TIME/' pmi2-abort.err | sort -u >pmi2-abort.lines
mv pmi2-abort.lines pmi2-abort.err
for f in file.out each.*.out node.*.out epilog.*; do
	echo "== $f"
	sort "$f"
done >files.out 2>&1
echo 0 >files.rc
: >files.err
S

# A step while it runs: its number is in up.
cat >"$tmpdir/running" <<'S'
# All append to the files, so that nobody writes over what another has written.
run() { # NAME COMMAND..., a shell's text that is evaluated once all six tasks run
	name=$1
	shift
	rm -f up.*
	$all sh -c 'trap "echo usr1 \$SLURM_PROCID" USR1; trap "echo term \$SLURM_PROCID; exit 5" TERM
		echo $SLURM_STEP_ID >up.$SLURM_PROCID; while :; do sleep 100 & wait; done' >>"$name.out" 2>>"$name.err" </dev/null &
	step_pid=$!
	until_true all_up
	step=$(cat up.0)
	for command in "$@"; do
		eval "$command" >>"$name.out" 2>>"$name.err" </dev/null
	done
	wait $step_pid
	echo $? >"$name.rc"
}
all_up() {
	[ -s up.0 ] && [ -s up.1 ] && [ -s up.2 ] && [ -s up.3 ] && [ -s up.4 ] && [ -s up.5 ]
}
second=$((SLURM_JOB_ID + 1))
second_gone() {
	! squeue -h -s -j "$second" -o %i | grep -q "\.$step\$"
}
# In 25.11.7 steps of heterogeneous jobs can't be signalled, with slurmstepd either ("Invalid job id specified").
if [ "$STEPD_TEST_PROTOCOL" != 11264 ]; then
	run cancel 'scancel $SLURM_JOB_ID.$step'
	# The other scancel signals all components, and says which of them has ended.
	run cancel-second 'scancel $second.$step' 'until_true second_gone' 'scancel $SLURM_JOB_ID.$step'
	run usr1 'scancel -s USR1 $SLURM_JOB_ID.$step' 'until_true grep -q usr1 usr1.out' 'sleep 1' 'scancel $SLURM_JOB_ID.$step'
	run interrupt 'kill -TERM $step_pid'
	run pids 'scontrol listpids $second.$step ${SLURM_JOB_NODELIST%-*}-2 | awk "{ print \$2, \$3, \$4, \$5 }" | head -n 3' 'scancel $SLURM_JOB_ID.$step'
fi
S

# ---- in an allocation of one component: three nodes --------------------------------------------
cat >"$tmpdir/local" <<'S'
srun='srun -Q --overlap'
in_turn local $srun -n1 -N1 "$DIR/variables" : -n2 -N2 "$DIR/variables"
in_turn local-labels $srun -l -n2 -N1 sh -c 'echo $SLURM_PROCID $SLURM_NTASKS' : -n4 -N2 sh -c 'echo $SLURM_PROCID $SLURM_NTASKS'
in_turn local-status $srun -n1 -N1 true : -n2 -N2 sh -c 'exit $SLURM_PROCID'
# Whether the last ones' "CANCELLED" reaches srun is a race.
in_turn local-kill sh -c "$srun -K -n1 -N1 sh -c '\"\$DIR/meet\" local-kill 3; exec sleep 100' : \
	-n2 -N2 sh -c '\"\$DIR/meet\" local-kill 3; [ \$SLURM_PROCID != 2 ] || exit 9; exec sleep 100' 2>kill.err
	rc=\$?; grep -v CANCELLED kill.err; exit \$rc"
in_turn local-several $srun -l -n1 -N1 echo one : -l -n4 -N2 --multi-prog each
in_turn local-too-many $srun -n1 -N2 echo a : -n2 -N2 echo b
rm -f local.up.*
$srun -n1 -N1 sh -c 'echo $SLURM_STEP_ID >local.up.$SLURM_PROCID; exec sleep 100' : \
	-n2 -N2 sh -c 'echo $SLURM_STEP_ID >local.up.$SLURM_PROCID; exec sleep 100' >local-cancel.out 2>local-cancel.err </dev/null &
until_true eval '[ -s local.up.0 ] && [ -s local.up.1 ] && [ -s local.up.2 ]'
scancel "$SLURM_JOB_ID.$(cat local.up.0)"
wait $!
echo $? >local-cancel.rc
# Which components' lines reach srun is a race.
grep CANCELLED local-cancel.err >local-cancel.lines
sed -i '/CANCELLED/d' local-cancel.err
S

# ---- outside of allocations ----------------------------------------------------------------------
cat >"$tmpdir/scripts" <<'S'
two='-N 1 -n 2 : -N 2 -n 4'
in_turn alone srun -Q -N1 -n1 "$DIR/variables" : -N2 -n2 "$DIR/variables"
in_turn alone-status srun -Q -N1 -n1 true : -N1 -n1 sh -c 'exit 6'
batch() { # NAME TEXT
	printf '#!/bin/sh\n%s\n' "$2" >"$1.script"
	# shellcheck disable=SC2086 # options
	sbatch -Q --wait -o "$1.out" $two "$1.script" 2>"$1.err"
	echo $? >"$1.rc"
}
batch script '"$DIR/variables"'
batch script-status 'exit 3'
batch script-steps 'srun -Q --het-group=0,1 -l sh -c "echo \$SLURM_PROCID of \$SLURM_NTASKS"; srun -Q --het-group=1 sh -c "exit \$SLURM_PROCID"; echo $?; srun -Q hostname | sort'
sbatch --parsable -o cancelled.out $two --wrap 'trap "echo term; exit 4" TERM; touch cancelled.up; sleep 100 & wait; wait' >cancelled.id
until_true test -e cancelled.up
scancel "$(cat cancelled.id)"
until_true idle
scontrol -o show job "$(cat cancelled.id)" | tr ' ' '\n' | grep -E '^(JobState|ExitCode|Reason)=' >cancelled.err
echo 0 >cancelled.rc
S

cat >"$tmpdir/het" <<'S'
. "$1/functions"
limit='timeout -k 5 60'
salloc -Q -N 1 -n 2 : -N 2 -n 4 sh -c '. "$1/functions"; limit="timeout -k 5 60"; . "$1/lines"; . "$1/running"' sh "$1" >salloc 2>&1
until_true no_step
salloc -Q -N 3 -n 12 sh -c '. "$1/functions"; limit="timeout -k 5 60"; . "$1/local"' sh "$1" >salloc.local 2>&1
until_true no_step
. "$1/scripts"
S

BENCH_SLURM_NODES=4
BENCH_SLURM_CPUS=4
BENCH_SLURM_LINES="$slurmd_log
FirstJobId=$first_job
KillWait=2
SchedulerParameters=bf_interval=1,batch_sched_delay=0,sched_min_interval=1"
export BENCH_SLURM_NODES BENCH_SLURM_CPUS BENCH_SLURM_LINES
both het

# slurmstepd itself says now and then twice that it is cancelled.
seen() { # SCRIPT KIND NAME
	parts='out err rc'
	[ "$3" != output ] || parts=rc # the real one loses some now and then, and says that it is cancelled
	for part in $parts; do
		alike "$tmpdir/$1-$2/$3.$part" | sort | awk '!/ CANCELLED AT / || !seen[$0]++'
	done
}
same het
is "$(cat "$tmpdir/het-served/output.out" "$tmpdir/het-served/output.err")" 1800000 \
	"het: output: srun has each byte of served components, and no line on its standard error"
for name in pmi2 pmi2-one pmi1; do
	is "$(cat "$tmpdir/het-served/$name.rc" 2>/dev/null)" 0 "het: $name: ranks of all components meet by PMI"
done
like "$(cat "$tmpdir/het-served/local-cancel.lines")" "\*\*\* STEP [0-9]+\.[0-9]+\+0 ON [^ ]* CANCELLED AT" \
	"the component that srun begins with says that it is cancelled"
is "$(grep -c "going to /tmp instead$" "$tmpdir/het-served/nowhere.lines")" 9 "each node and task without its directory says so"
lines_of het >"$tmpdir/lines.log"
is "$(grep -c 'handed over' "$tmpdir/lines.log")" "$(grep -c 'het step handed over to .* its files have names with patterns' "$tmpdir/lines.log")" \
	"only a component whose files have ranks in their names was handed over"
is "$(grep -c 'batch step served' "$tmpdir/lines.log")" 4 "the scripts of heterogeneous jobs are served"
is "$(ls "$run")" "" "the served components have left nothing in the runtime directory"
done_testing
