#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# The steps that stepd-slurmstepd serves, beside those of Slurm's own slurmstepd: two Slurms at the same
# time, the same command lines in both, all at once in an allocation; what users see must be the same, but
# for pids, ports and times.
# shellcheck source=tests/lib/local_slurm.sh
. "${top_srcdir:?}/tests/lib/local_slurm.sh"

needs_slurm python3 scancel scontrol setpriv srun
serve srun

# ---- the command lines -----------------------------------------------------------------------
# Each has its output, its messages and its status in files of its name.
cat >"$tmpdir/commands" <<'S'
. "$1/functions"
dir=$1
line hello srun -Q --overlap -n 2 -l echo hello
line many srun -Q --overlap -n 40 -l sh -c 'echo $SLURM_PROCID $SLURM_LOCALID $SLURM_NTASKS'
line missing srun -Q --overlap -n 2 nonexistent
line denied srun -Q --overlap -n 2 /etc/passwd
line nowhere srun -Q --overlap -n 1 -D /nowhere pwd
line script srun -Q --overlap -n 1 ./bad-interpreter
line format srun -Q --overlap -n 1 ./bad-format
line statuses srun -Q --overlap -n 2 sh -c 'exit $((SLURM_PROCID + 3))'
line status255 srun -Q --overlap -n 1 sh -c 'exit 255'
line killed srun -Q --overlap -n 2 sh -c 'kill -9 $$'
line aborted srun -Q --overlap -n 1 sh -c 'kill -ABRT $$'
line usr1 srun -Q --overlap -n 1 sh -c 'kill -USR1 $$'
line bad-exit srun -Q --overlap -n 3 -K sh -c '[ $SLURM_PROCID = 1 ] && exit 7; exec sleep 300'
line errors srun -Q --overlap -n 2 -l sh -c 'echo out; echo err >&2'
line half srun -Q --overlap -n 1 printf half
line long srun -Q --overlap -n 1 sh -c 'head -c 5000 /dev/zero | tr "\0" x'
line files srun -Q --overlap -n 2 -o files.%t.%s -e files.err.%t sh -c 'echo $SLURM_PROCID; echo e$SLURM_PROCID >&2'
line file srun -Q --overlap -n 2 -o one.%N -e one.%N sh -c 'echo x; echo y >&2'
line labels srun -Q --overlap -n 12 -l -o labels.%t sh -c 'echo out; echo err >&2; printf half'
line labels-apart srun -Q --overlap -n 2 -l -o labels.out.%t -e labels.err.%t sh -c 'echo out; seq 3 >&2'
line labels-shared srun -Q --overlap -n 11 -l -o labels-shared.%N -e labels-shared.%N echo shared
line nofile srun -Q --overlap -n 1 -o /nowhere/%t echo x
line null srun -Q --overlap -n 2 -i /dev/null -l cat
line words srun -Q --overlap -n 1 printf '%s|' 'a b' '' 'ü' '*'
line directory srun -Q --overlap -n 2 sh -c 'pwd; id; umask'
line limits srun -Q --overlap -n 1 sh -c 'ulimit -a; ulimit -Ha'
line nested srun -Q --overlap -n 1 sh -c 'echo $$ >/dev/null; (sleep 0.1; echo later) & wait'
line unbuffered srun -Q --overlap -n 1 -u echo unbuffered
line program srun -Q --overlap -n 2 --multi-prog ./programs
shell variables 'srun -Q --overlap -n 2 sh -c "env >variables.\$SLURM_PROCID"; cat variables.0 variables.1 | sed "/^SLURM_TASK_PID=/d; /PORT=/d; /^BENCH_/d; /^SLURM_WORKING_CLUSTER=/d; /^SLURM_JOB_*ID=/d; /^TMPDIR=/d; /^SLURM_CONF=/d; /^SLURM_STEP.*ID=/d" | sort'
shell latin1 'V=$(printf "\344") srun -Q --overlap -n 1 printenv V'
shell input 'echo line | srun -Q --overlap -n 3 -l cat'
shell input-one 'echo line | srun -Q --overlap -n 3 -l -i 1 cat'
shell input-much 'seq 60000 | srun -Q --overlap -n 2 sh -c md5sum'
shell input-closed 'seq 60000 | srun -Q --overlap -n 2 head -n 1'
shell output-much 'srun -Q --overlap -n 2 seq 40000 | sort | md5sum'
shell binary 'head -c 300000 "$(command -v slurmd)" | srun -Q --overlap -n 1 cat | md5sum; head -c 300000 "$(command -v slurmd)" | md5sum'

running cancel scancel
running cancel-kill scancel -s KILL
running cancel-usr2 scancel -s USR2
running pids sh -c 'scontrol listpids "$1" | awk "NR > 1 && \$4 != \"-\" { print \$4, \$5 }" | sort >pids.list; scancel $1' sh
wait
S

# Outside of an allocation: another user's step, a job that is cancelled, and an agent that is killed.
cat >"$tmpdir/inside" <<'S'
. "$1/functions"
mkdir "$1/$2"
cd "$1/$2"
printf '#!/no/interpreter\n' >bad-interpreter
printf 'nothing\n' >bad-format
chmod 755 bad-interpreter bad-format
printf '0 echo first\n1 echo second\n' >programs
salloc -Q -n 100 sh "$1/commands" "$1" >salloc 2>&1 &
setpriv --reuid=65534 --regid=65534 --clear-groups srun -Q -n 2 -D / sh -c 'id; pwd' \
	>user.out 2>user.err </dev/null
echo $? >user.rc
srun -Q -n 1 -J cancelled sh -c 'echo up; exec sleep 300' >job.out 2>job.err </dev/null &
step=$!
until_true test -s job.out
scancel -n cancelled
wait $step
echo $? >job.rc
if [ "$2" = served ]; then
	srun -v -n 2 sh -c 'echo $PPID; exec sleep 300' >agent.out 2>agent.err </dev/null &
	step=$!
	until_true has_lines agent.out 2
	until_true grep -q "tasks started" agent.err
	kill -9 "$(head -n 1 agent.out)"
	wait $step
	echo $? >agent.rc
	srun -Q -n 1 echo after >after.out 2>&1
fi
wait
until_true no_step
echo >over
S

BENCH_SLURM_LINES="CommunicationParameters=block_null_hash,block_zero_hash
FirstJobId=$first_job
$slurmd_log"
export BENCH_SLURM_LINES
in_both

# ---- the comparison --------------------------------------------------------------------------
# Tasks write and end in any order. slurmstepd says that it was cancelled for each signal, if srun is still there
# to show it.
seen() { # NAME: what users see of it
	for part in out err rc; do
		alike "$1.$part" | sed '/\*\*\* STEP ID ON NODE CANCELLED/d' | sort
	done
}
for rc in "$tmpdir"/real/*.rc; do
	name=$(basename "$rc" .rc)
	is "$(seen "$tmpdir/served/$name")" "$(seen "$tmpdir/real/$name")" "$name: users see the same of a served step"
done
for file in files.0.* files.1.* files.err.0 files.err.1 one.* labels.0 labels.11 labels.out.1 labels.err.0 labels-shared.* pids.list; do
	# Two tasks write to one file in any order.
	# shellcheck disable=SC2086 # a pattern
	is "$(sort "$tmpdir"/served/$file)" "$(sort "$tmpdir"/real/$file)" "the step's file $file is the same"
done

for name in cancel cancel-kill bad-exit job; do
	like "$(cat "$tmpdir/served/$name.err")" \
		"^slurmstepd-bench[0-9]+: error: \*\*\* STEP [0-9]+\.[0-9]+ ON bench[0-9]+ CANCELLED AT [-0-9]+T[0-9:]+ \*\*\*$" \
		"$name: a served step says when it was cancelled"
done

# ---- what only a served step has -------------------------------------------------------------
is "$(cat "$tmpdir/served/agent.rc")" 143 "srun ends with its tasks' signal after its agent was killed"
like "$(cat "$tmpdir/served/agent.err")" "tasks 0-1: Terminated" "srun says that the tasks of a killed agent were ended"
is "$(cat "$tmpdir/served/after.out")" after "the next step of the node starts after that"
log_lines >"$tmpdir/lines"
count() {
	grep -Ec "$1" "$tmpdir/lines"
}
is "$(count 'srun step served$')" 44 "the log has each step that was served"
is "$(count 'handed over to .*: .*UTF-8|handed over to .*: make the step.s spec')" 1 "the log has the step whose environment is no UTF-8"
is "$(count 'handed over')" 1 "no other step was handed over, nor the one whose input is one task's"
is "$(ls "$run")" "" "the served steps have left nothing in the runtime directory"
node=$(sed -nE 's/^slurmstepd-([^:]*):.*/\1/p' "$tmpdir/served/missing.err" | head -n 1)
isnt "$node" "" "messages name the node"
is "$(ls -d /run/stepd-slurmstepd/"$node"_* 2>/dev/null)" "" "the served steps have left no FIFO"
done_testing
