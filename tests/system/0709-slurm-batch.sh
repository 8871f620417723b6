#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# The batch scripts that stepd-slurmstepd serves, beside those of Slurm's own slurmstepd: two Slurms of three
# nodes at the same time, the same scripts in both; what users see must be the same, but for pids, ports and
# times. Then what happens to slurmd, slurmctld and the agents while a script runs.
# shellcheck source=tests/lib/local_slurm.sh
. "${top_srcdir:?}/tests/lib/local_slurm.sh"

needs_slurm python3 sbatch scancel scontrol setpriv srun
serve "srun, batch"

# ---- the scripts -----------------------------------------------------------------------------
# Each has a directory of its own, with its files.
cat >>"$tmpdir/functions" <<'S'
pause=0.2
is_pending() { # NAME
	scontrol -o show job "$(job "$1")" | grep -q 'JobState=PENDING'
}
S
cat >"$tmpdir/scripts" <<'S'
script limit 'trap "echo term; exit 3" TERM; touch up; sleep 300 & wait' -t 1
script limit-stubborn 'trap "" TERM; touch up; sleep 300 & wait; wait' -t 1
script limit-signal 'trap "echo usr1; exit 4" USR1; touch up; sleep 300 & wait' -t 1 --signal=B:USR1@50
script hello 'echo "$# $1 $2 $3"; echo "err" >&2; pwd; id; umask; basename "$0"; stat -c "%a %U" "$0"; stat -c "%a %U %G" "$(dirname "$0")"; cat'
script status 'exit 7'
script signal 'kill -9 $$'
script usr1 'kill -USR1 $$'
script error 'echo out; echo err >&2' -e err.%j
script input 'cat' -i ../text
script input-pattern 'cat' -i ../in%5n
script null 'echo nothing; echo nothing >&2' -o /dev/null
script patterns 'echo x' -J name -o 'o.%j.%J.%x.%u.%A.%t.%n.%s.%8j.%12t.%%.N' -e 'e.%a.%3n'
script slash 'echo x' -J a/b -o 'f.%x' -D "$PWD/slash"
script same 'echo out; echo err >&2' -o same -e ./same
mkdir append truncate mode
echo before | tee append/out truncate/out mode/out >/dev/null
script append 'echo after' -o out --open-mode=append
script truncate 'echo after' -o out --open-mode=truncate
script mode 'echo after' -o out
script nowhere 'pwd' -D /nowhere -o "$PWD/nowhere.out"
script nofile 'echo x' -o /nowhere/x
script noinput 'echo x' -i missing
script background 'echo first; (sleep 0.3; echo later) & :'
script limits 'ulimit -a; ulimit -Ha' --propagate=NOFILE,CORE
script memory 'ulimit -m; env | grep MEM' --mem=1
script memory-cpu 'env | grep MEM' --mem-per-cpu=1
script mask 'umask; touch made; stat -c %a made'
script backslash 'echo x' -o 'o\%j'
script words 'srun -Q -n 2 sh -c "echo \$SLURM_PROCID \$SLURM_STEP_ID" | sort; srun -Q -n1 sh -c "exit 5"; echo $?' -n 2
script stdin-step 'printf "srun -Q -n1 cat\n" | sh; echo end'
script binary "$(printf 'echo "\303\274|\344" | od -c; exit 2')"
printf '#!/no/interpreter\n' >interpreter.script
mkdir interpreter
(cd interpreter && sbatch --parsable ../interpreter.script) >interpreter.id 2>interpreter.err
# shellcheck disable=SC2094 # another user's
(cd / && setpriv --reuid=65534 --regid=65534 --clear-groups sbatch --parsable -o "$PUBLIC/out" "$PUBLIC/script" arg) >user.id 2>user.err
S

# What is done to those that run. Each begins by itself.
cat >"$tmpdir/actions" <<'S'
waiting='trap "echo usr1 >>said" USR1; trap "echo term >>said; exit 6" TERM; touch up; while :; do sleep 300 & wait; done'
act() { # NAME TEXT COMMAND...
	name=$1
	{
		submit "$1" "$2"
		shift 2
		until_true is_up "$name"
		for command in "$@"; do
			eval "$command" >>"$name.act" 2>&1
		done
	} &
}
act cancel "$waiting" 'scancel $(job cancel)'
act cancel-kill "$waiting" 'scancel -s KILL $(job cancel-kill)'
act cancel-stubborn 'trap "" TERM; touch up; while :; do sleep 300 & wait; done' 'scancel $(job cancel-stubborn)'
act cancel-batch "$waiting" 'scancel --batch -s USR1 $(job cancel-batch)' 'until_true grep -qs usr1 cancel-batch/said' \
	'scancel --batch -s TERM $(job cancel-batch)'
act cancel-full 'trap "echo usr1 >>said; exit 8" USR1; sh -c "trap \"echo child >>said\" USR1; touch up; while :; do sleep 300 & wait; done"' \
	'scancel --full -s USR1 $(job cancel-full)' 'until_true grep -qs child cancel-full/said' 'scancel $(job cancel-full)'
act cancel-steps "$waiting" 'scancel -s USR1 $(job cancel-steps)' 'scancel --batch -s TERM $(job cancel-steps)'
act pids "echo \$SLURMD_NODENAME >node; $waiting" 'scontrol listpids $(job pids) $(cat pids/node) | awk "NR > 1 { print \$3, \$4, \$5 }" | sort | head -n 1 >pids.list' 'scancel $(job pids)'
# The next run's credential has to be of another second than the end of this one.
act requeue 'echo "run ${SLURM_RESTART_COUNT:-none}" >>runs; touch up; [ -n "$SLURM_RESTART_COUNT" ] && exit 0; exec sleep 300' \
	'scontrol requeue $(job requeue)' 'until_true is_pending requeue' 'sleep 2' 'scontrol update JobId=$(job requeue) StartTime=now'
act attach "$waiting" 'sattach $(job attach).batch; echo "sattach $?"' 'scancel --batch -s TERM $(job attach)'
act suspend "$waiting" 'scontrol suspend $(job suspend)' 'sleep 4' 'scontrol resume $(job suspend)' 'sleep 2' 'scancel --batch -s TERM $(job suspend)'
S

cat >"$tmpdir/arrays" <<'S'
waited() { # NAME OPTION...: how sbatch --wait ends
	mkdir "$1"
	{
		cd "$1"
		shift
		sbatch -Q --wait "$@"
		echo $? >rc
	} >/dev/null 2>&1 &
}
waited wait -o out.%A.%a --array=1,3-4 --wrap 'env | grep "^SLURM_ARRAY_" | grep -v ARRAY_JOB_ID | sort; [ $SLURM_ARRAY_JOB_ID = $SLURM_JOB_ID ] || exit $SLURM_ARRAY_TASK_ID'
waited wait-signal --wrap 'kill -TERM $$'
waited array --array=7 --wrap 'echo array'
S

# The daemons die and come back: their jobs go on, and their ends arrive.
cat >"$tmpdir/daemons" <<'S'
go='touch up; until [ -e go ]; do sleep 0.1; done; echo went; exit 5'
submit slurmd "$go" -w "$NODE"
until_true is_up slurmd
end_slurmd KILL "$NODE"
begin_slurmd "$NODE"
touch slurmd/go
until_true is_over slurmd
submit ctld "$go"
until_true is_up ctld
kill_slurmctld
touch ctld/go
until_true grep -q went ctld/slurm-*.out
sleep 1 # the end is to be reported to nobody
begin_slurmctld
until_true is_over ctld
submit after 'echo after' -w "$NODE"
until_true is_over after
S

# One after the other, with all nodes for each: so it gets the same processors in both.
cat >"$tmpdir/environments" <<'S'
for options in "" "-n 5" "-N 3 -n 7" "-N 2 -n 5 -c 3" "-N 2 --ntasks-per-node=2" "-n 5 -c 40" "-N 3 -n 2 -O" \
	"-c 2 --export=NONE" "--export=A=b"; do
	# shellcheck disable=SC2086 # options
	script "env$(echo "$options" | tr -d ' ')" 'env | sort' -J env --dependency=singleton $options
done
wait
until_true idle
S

# Only a served script has these.
cat >"$tmpdir/agents" <<'S'
submit agent 'echo $PPID >agent; echo $$ >pid; touch up; exec sleep 300'
until_true is_up agent
kill -9 "$(cat agent/agent)"
until_true is_over agent
state agent >agent.state
until_true is_gone "$(cat agent/pid)"
is_gone "$(cat agent/pid)" && echo gone >agent.gone
submit stepd 'echo $PPID >agent; echo $$ >pid; touch up; exec sleep 300'
until_true is_up stepd
kill -9 "$(ps -o ppid= -p "$(cat stepd/agent)" | tr -d ' ')"
until_true is_gone "$(cat stepd/pid)"
is_gone "$(cat stepd/pid)" && echo gone >stepd.gone
scancel "$(job stepd)"
until_true is_over stepd
# slurmd removes what is left only when it is five minutes old.
rm -rf "$at"/spool/*/*_"$(job stepd)".* "$at"/spool/*/job"$(job stepd)"
S

cat >"$tmpdir/inside" <<'S'
. "$1/functions"
mkdir "$1/$2"
cd "$1/$2"
umask 027
unset $(env | sed -n 's/^\(BENCH_[A-Z_]*\)=.*/\1/p')
NODE=$(first_node)
PUBLIC=$(dirname "$SLURM_CONF")/public
mkdir -m 1777 "$PUBLIC"
chmod 1777 "$PUBLIC"
printf '#!/bin/sh\nid; pwd; echo "$@"; touch %s/made\n' "$PUBLIC" >"$PUBLIC/script"
chmod 755 "$PUBLIC/script"
echo text >text
echo numbered >in00000
. "$1/environments"
. "$1/scripts"
. "$1/actions"
. "$1/arrays"
wait
until_true idle
cp "$PUBLIC/out" user.out
ls -ln "$PUBLIC/out" | cut -d' ' -f1,3,4 >>user.out
. "$1/daemons"
until_true idle
until_true no_step
for id in *.id; do
	name=${id%.id}
	state "$name" >"$name.state"
done
ls "$(dirname "$SLURM_CONF")"/spool/* >spool
sinfo -h -o '%T %E' >nodes
[ "$2" = real ] || . "$1/agents"
end_daemons
echo >over
S

BENCH_SLURM_LINES="CommunicationParameters=block_null_hash,block_zero_hash
KillWait=2
MinJobAge=600
FirstJobId=$first_job
SchedulerParameters=batch_sched_delay=0,sched_min_interval=1
$slurmd_log"
BENCH_SLURM_NODES=3
BENCH_SLURM_CPUS=100
export BENCH_SLURM_LINES BENCH_SLURM_NODES BENCH_SLURM_CPUS
limit_s=280
in_both

# ---- the comparison --------------------------------------------------------------------------
# With the state of the job, and the files that it has made. slurmstepd says so where the script has ended
# between two signals.
seen() { # WHICH NAME
	(
		cd "$tmpdir/$1" || exit
		find "$2" -type f 2>/dev/null | sort | while read -r file; do
			echo "== $file"
			cat "$file"
		done
		cat "$2.id" "$2.err" "$2.state" "$2.act" "$2.out" "$2.list" 2>/dev/null
	) | alike | sed -E 's/NODE-([0-9]\>)?/NODE/g; s,/(dev/shm|tmp)/tmp\.[A-Za-z0-9]+,/SLURM,g; s/0*'"${first_job%???}"'[0-9]{3}/ID/g
		s/127\.0\.0\.1:[0-9]+/ADDRESS/; /^SLURM_TASK_PID=/d; /failed signal [0-9]+ pid [0-9]+ /d'
}
for id in "$tmpdir"/real/*.id; do
	name=$(basename "$id" .id)
	is "$(seen served "$name")" "$(seen real "$name")" "$name: users see the same of a served script"
done
for name in wait wait-signal array; do
	is "$(seen served $name)" "$(seen real $name)" "$name: sbatch --wait ends the same"
done
is "$(cat "$tmpdir/served/nodes")" "$(cat "$tmpdir/real/nodes")" "the nodes stay in use"
like "$(cat "$tmpdir"/served/cancel/slurm-*.out)" \
	"^slurmstepd-bench[0-9]+-[1-3]: error: \*\*\* JOB [0-9]+ ON bench[0-9]+-[1-3] CANCELLED AT [-0-9]+T[0-9:]+ \*\*\*$" \
	"a cancelled script's output says so"
like "$(cat "$tmpdir"/served/limit/slurm-*.out)" "CANCELLED AT .* DUE TO TIME LIMIT" "a script beyond its time limit has that in its output"
is "$(cat "$tmpdir/served/requeue/runs")" "run none
run 1" "a script that is requeued runs again, and knows it"
like "$(cat "$tmpdir/served/slurmd.state")" "^ExitCode=5:0$" "a script's status arrives after slurmd was killed and restarted"
like "$(cat "$tmpdir/served/ctld.state")" "^ExitCode=5:0$" "a script's status arrives after slurmctld was killed and restarted"
unlike "$(cat "$tmpdir/served/spool")" "^job" "the served scripts have left nothing in slurmd's directory"

# ---- what only a served script has -----------------------------------------------------------
like "$(cat "$tmpdir/served/agent.state")" "^JobState=FAILED$" "a job fails whose agent is killed"
is "$(cat "$tmpdir/served/agent.gone" 2>/dev/null)" gone "a script is ended when its agent was killed"
is "$(cat "$tmpdir/served/stepd.gone" 2>/dev/null)" gone "a script ends with a killed stepd-slurmstepd"
log_lines >"$tmpdir/lines"
is "$(grep -c 'batch step handed over' "$tmpdir/lines")" 1 "one script was handed over"
like "$(cat "$tmpdir/lines")" "batch step handed over to .*: .* its files have names with patterns" \
	"the log has the script whose file has a pattern of Slurm's own, which was handed over"
is "$(ls "$run")" "" "the served scripts have left nothing in the runtime directory"
done_testing
