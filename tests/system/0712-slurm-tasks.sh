#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# What stepd-slurmstepd does for the tasks of the steps that it serves: accounting, binding, prologs and
# epilogs, MPI, priority. Two Slurms at the same time, one of them with Slurm's own slurmstepd, and the same
# command lines in both; what users, slurmd and slurmctld see must be the same.
# shellcheck source=tests/lib/local_slurm.sh
. "${top_srcdir:?}/tests/lib/local_slurm.sh"
# shellcheck source=tests/lib/mpi.sh
. "$top_srcdir/tests/lib/mpi.sh"

needs_slurm python3 scontrol setpriv srun sstat
[ "$(nproc)" -ge 2 ] || skip_all "needs two processors to bind tasks to"
serve 'srun, batch'
builddir=$(cd "$top_builddir" && pwd)
TASK=$builddir/contrib/slurm/stepd-slurm-task
PYTHONPATH=$top_srcdir/tests/lib
PYTHONDONTWRITEBYTECODE=1
export PYTHONPATH PYTHONDONTWRITEBYTECODE
chmod 755 "$tmpdir" # another user's prolog is below it

# A task that has used something of each kind, and then waits: its step's number, once it has.
cat >"$tmpdir/user" <<'S'
import os, signal, time
memory = bytearray(64 << 20)
for i in range(0, len(memory), 4096):
    memory[i] = 1
with open("/proc/self/exe", "rb") as f:
    data = f.read(1 << 20) * 3
with open(f"written.{os.environ['SLURM_PROCID']}", "wb") as f:
    f.write(data)
while time.process_time() < 0.3:
    pass
print(os.environ["SLURM_STEP_ID"], flush=True)
signal.pause()
S

# ---- accounting ------------------------------------------------------------------------------
cat >"$tmpdir/accounting" <<'S'
. "$1/functions"
dir=$1
step=0
srun -Q --overlap -n 2 --mem=300M python3 "$dir/user" >used.out 2>used.err </dev/null &
step=$!
until_true has_lines used.out 2
id=$SLURM_JOB_ID.$(head -n 1 used.out)
fields=NTasks,AveCPU,MinCPUTask,MaxRSS,MaxRSSNode,AveRSS,MaxVMSize,AveVMSize,MaxPages,MaxDiskRead,MaxDiskWrite,MaxDiskReadTask
sstat -n -P -o $fields "$id" >sstat.fields 2>sstat.err
setpriv --reuid=65534 --regid=65534 --clear-groups sstat -n -P -o NTasks "$id" >stranger.fields 2>&1
python3 "$PYTHONPATH/slurm_usage.py" "$(dirname "$SLURM_CONF")"/spool/*/*_"$id" >socket.out 2>socket.err
scancel "$id"
wait $step
for n in 1 2 3; do
	line "short$n" srun -Q --overlap -n 2 sh -c 'exit $SLURM_PROCID'
done
line frequency srun -Q --overlap -n 1 --acctg-freq=task=1 sleep 1.5
wait
S

cat >"$tmpdir/inside" <<'S'
. "$1/functions"
mkdir "$1/$2"
cd "$1/$2"
if [ "$3" = tasks ] && [ -z "$6" ] && setpriv --reuid=65534 --regid=65534 --clear-groups test -x "$5"; then
	mkdir -m 777 user
	EPILOG=$PWD/user/list setpriv --reuid=65534 --regid=65534 --clear-groups srun -Q -n 2 -D "$PWD/user" \
		--task-prolog="$1/programs/prolog" --task-epilog="$1/programs/epilog" sh -c 'echo "$ADDED"' \
		>user.out 2>user.err </dev/null
	echo $? >user.rc
	sort user/list >>user.out
fi
salloc -Q -n "$4" --mem=600M sh "$1/$3" "$1" >salloc 2>&1
[ "$3" != tasks ] || sh "$1/scripts" "$1"
until_true no_step
cp "$(dirname "$SLURM_CONF")/slurmctld.log" slurmctld.log
echo >over
S

both() { # SCRIPT TASKS: in "SCRIPT-served" and "SCRIPT-real"
	# slurmstepd in a tree can't run a prolog for another user: its run_command fails.
	in_both -p "$1-" "$1" "$2" "$TASK" "$slurm_root"
}
limit_s=200
seen() { # FILE
	sed -E 's/(task +[0-9]+ +[0-9]+ \[)[0-9]+/\1PID/' "$1" | alike | sort
}
same() { # SCRIPT: each command line of it
	for rc in "$tmpdir/$1-real"/*.rc; do
		name=$(basename "$rc" .rc)
		for part in out err rc; do
			seen "$tmpdir/$1-served/$name.$part"
		done >"$tmpdir/served.seen"
		for part in out err rc; do
			seen "$tmpdir/$1-real/$name.$part"
		done >"$tmpdir/real.seen"
		is "$(cat "$tmpdir/served.seen")" "$(cat "$tmpdir/real.seen")" "$1: $name: users see the same of a served step"
	done
}

# Sizes of the same program are much the same, and that is all that can be known of them.
cat >"$tmpdir/compare" <<'S'
import sys
names = "NTasks,AveCPU,MinCPUTask,MaxRSS,MaxRSSNode,AveRSS,MaxVMSize,AveVMSize,MaxPages,MaxDiskRead,MaxDiskWrite,MaxDiskReadTask".split(",")
def read(path):
    return dict(zip(names, open(path).read().strip().split("|")))
def number(text):
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    return float(text[:-1]) * units[text[-1]] if text[-1] in units else float(text)
served, real = read(sys.argv[1]), read(sys.argv[2])
for name in ("MaxRSS", "AveRSS", "AveVMSize", "MaxDiskRead", "MaxDiskWrite"):
    if not 0.7 < number(served[name]) / number(real[name]) < 1.4:
        print(name, served[name], real[name])
if served["NTasks"] != real["NTasks"]:
    print("NTasks", served["NTasks"], real["NTasks"])
if not served["AveCPU"].startswith("00:00:") or not real["AveCPU"].startswith("00:00:"):
    print("AveCPU", served["AveCPU"], real["AveCPU"])
if number(served["MaxVMSize"]) < number(served["AveVMSize"]):
    print("MaxVMSize", served["MaxVMSize"])
if number(served["MaxRSS"]) < 64 << 20:
    print("MaxRSS", served["MaxRSS"])
if not served["MaxRSSNode"].startswith("bench") or served["MaxDiskReadTask"] not in "01":
    print("where", served["MaxRSSNode"], served["MaxDiskReadTask"])
S
# With a plugin of JobAcctGatherType, the script's directories have this name.
check_accounting() { # PLUGIN NAME
	of=$2
	BENCH_SLURM_LINES="JobAcctGatherType=jobacct_gather/$1
JobAcctGatherFrequency=task=30
SelectTypeParameters=CR_CPU_Memory
CommunicationParameters=block_null_hash,block_zero_hash
FirstJobId=$first_job
$slurmd_log"
	both "$of" 16
	same "$of"
	is "$(cat "$tmpdir/$of-served/socket.out")" "$(cat "$tmpdir/$of-real/socket.out")" \
		"$1: the socket of a served step has a record of usage of the same form, and the same limits of memory"
	isnt "$(cat "$tmpdir/$of-real/socket.out")" "" "$1: the socket of a step answers"
	# The real one may say twice that the step is cancelled.
	is "$(seen "$tmpdir/$of-served/used.err")" "$(seen "$tmpdir/$of-real/used.err" | uniq)" \
		"$1: users read a notice of the administrator's in the same form"
	is "$(seen "$tmpdir/$of-served/stranger.fields")" "$(seen "$tmpdir/$of-real/stranger.fields")" \
		"$1: another user's sstat has the same answer"
	is "$(python3 "$tmpdir/compare" "$tmpdir/$of-served/sstat.fields" "$tmpdir/$of-real/sstat.fields" 2>&1)" "" \
		"$1: sstat has numbers of a served step like those of slurmstepd"
	# Of a record that it can't read it has an error, and of a busy machine others.
	is "$(grep -iE 'error:.*(malformed|unpack|STEP_COMPLETE|jobacctinfo|protocol)' "$tmpdir/$of-served/slurmctld.log")" "" \
		"$1: slurmctld takes the record that comes with a step's end"
}
BENCH_SLURM_NODE_WORDS=RealMemory=4000
export BENCH_SLURM_LINES BENCH_SLURM_NODE_WORDS
check_accounting linux accounting
if [ -n "$slurm_root" ] && grep -q '^cgroup .*[ ,]memory' /proc/mounts; then
	cp "$tmpdir/accounting" "$tmpdir/accounting-cgroup"
	check_accounting cgroup accounting-cgroup
fi

# ---- what is done in a task's place, its binding, MPI, priority ----------------------------------
mkdir "$tmpdir/programs"
cat >"$tmpdir/programs/prolog" <<'S'
#!/bin/sh
echo "export ADDED=a value  of $SLURM_PROCID, $SLURM_SCRIPT_CONTEXT"
echo "unset REMOVED"
echo "print the prolog prints $(id -u) $(pwd)"
echo "neither of these"
echo "export"
echo "export =x"
echo "exporting NOTHING=1"
echo "print nothing of standard error" >&2
echo "no word of it" >&2
S
printf '#!/bin/sh\necho unset ADDED\nexit 3\n' >"$tmpdir/programs/prolog-fails"
printf '#!/bin/sh\nkill -TERM $$\n' >"$tmpdir/programs/prolog-killed"
printf '#!/bin/sh\necho "export PATH=%s:$PATH"\n' "$tmpdir/programs" >"$tmpdir/programs/prolog-path"
printf '#!/bin/sh\necho found by the path\n' >"$tmpdir/programs/only-here"
cat >"$tmpdir/programs/site-prolog" <<'S'
#!/bin/sh
echo "export SITE_PROLOG=$SLURM_PROCID"
[ -z "$SITE_PROLOG_FAILS" ] || exit 4
[ -z "$SITE_PROLOG_DIES" ] || kill -KILL $$
S
cat >"$tmpdir/programs/site-epilog" <<'S'
#!/bin/sh
[ -z "$SITE_EPILOG_FAILS" ] || exit 5
[ -z "$EPILOG" ] || echo "site $SLURM_SCRIPT_CONTEXT $SLURM_PROCID $SLURM_LOCALID $(id -u) $(pwd)" >>"$EPILOG"
S
cat >"$tmpdir/programs/epilog" <<'S'
#!/bin/sh
[ -z "$EPILOG" ] || echo "user $SLURM_SCRIPT_CONTEXT $SLURM_PROCID $SLURM_LOCALID $(id -u) $(pwd)" >>"$EPILOG"
S
printf '#!/bin/sh\nexit 6\n' >"$tmpdir/programs/epilog-fails"
printf '#!/bin/sh\nexec sleep 100\n' >"$tmpdir/programs/epilog-hangs"
chmod 755 "$tmpdir"/programs/*
build_sums "$tmpdir/programs"
PMIX_CLIENT=$builddir/tests/lib/pmixclient
[ -x "$PMIX_CLIENT" ] || PMIX_CLIENT=
export PMIX_CLIENT

cat >"$tmpdir/tasks" <<'S'
. "$1/functions"
dir=$1
programs=$1/programs
allowed='grep Cpus_allowed_list /proc/self/status'
step="srun -Q --overlap"
line bind $step -n 2 -l $allowed
line bind-one $step -n 1 $allowed
line bind-none $step -n 2 --cpu-bind=none -l $allowed
line bind-map $step -n 2 --cpu-bind=map_cpu:1,0 -l $allowed
line bind-mask $step -n 2 --cpu-bind=mask_cpu:0x3,0x1 -l $allowed
line bind-rank $step -n 2 --cpu-bind=rank -l $allowed
line bind-sockets $step -n 2 --cpu-bind=sockets -l $allowed
line bind-outside $step -n 1 --cpu-bind=map_cpu:1000 $allowed
line bind-many $step -n 4 -O -l $allowed
line bind-verbose $step -n 2 --cpu-bind=verbose,cores true
line bind-verbose-none $step -n 1 --cpu-bind=verbose,none true
line bind-verbose-map $step -n 1 --cpu-bind=verbose,map_cpu:1 true
line bind-verbose-rank $step -n 2 --cpu-bind=verbose,rank true
line mem $step -n 1 --mem-bind=local sh -c 'grep Mems_allowed_list /proc/self/status'
line mem-verbose $step -n 2 --mem-bind=verbose,local true
line mem-map $step -n 1 --mem-bind=verbose,map_mem:0 true
line bind-variables $step -n 2 sh -c 'env | grep _BIND'
line bind-variables-verbose $step -n 1 --cpu-bind=verbose,cores --mem-bind=local sh -c 'env | grep _BIND'
line bind-variables-map $step -n 1 --cpu-bind=map_cpu:1 sh -c 'env | grep _BIND'
line site $step -n 2 -l printenv SITE_PROLOG
line prolog env REMOVED=x $step -n 2 -l --task-prolog="$programs/prolog" sh -c 'echo "$ADDED|$REMOVED|$NOTHING|$SLURM_SCRIPT_CONTEXT"'
printf "0 sh -c 'echo \$ADDED %%t'\n1 sh -c 'echo other \$ADDED; exit 3'\n" >list
line prolog-programs $step -n 2 -l --task-prolog="$programs/prolog" --multi-prog list
printf '0 true\n1 nonexistent\n' >list-missing
line prolog-programs-missing $step -n 2 -l --task-prolog="$programs/prolog" --multi-prog list-missing
line bind-verbose-programs $step -n 2 --cpu-bind=verbose,cores --multi-prog list
# From 24.11 on srun has it ended by CONT, TERM and, KillWait later, KILL.
line kill-wait $step -n 2 -K sh -c '[ $SLURM_PROCID = 1 ] || exit 3
	trap "" TERM; for i in $(seq 250); do sleep 0.1; done; echo not killed'
line prolog-fails env ADDED=x $step -n 2 --task-prolog="$programs/prolog-fails" echo not reached
line prolog-killed $step -n 1 --task-prolog="$programs/prolog-killed" echo not reached
line prolog-missing $step -n 1 --task-prolog=/nowhere/prolog echo not reached
line prolog-path $step -n 1 --task-prolog="$programs/prolog-path" only-here
line prolog-no-program $step -n 2 --task-prolog="$programs/prolog" nonexistent
line prolog-verbose $step -n 1 --cpu-bind=verbose,map_cpu:1 --task-prolog="$programs/prolog" printenv ADDED
line epilog sh -c 'EPILOG=$PWD/epilog.list; export EPILOG; '"$step"' -n 2 --task-epilog='"$programs"'/epilog sh -c "exit \$SLURM_PROCID"; sort epilog.list'
line epilog-site sh -c 'EPILOG=$PWD/epilog-site.list; export EPILOG; '"$step"' -n 1 sh -c "cd /"; cat epilog-site.list'
line epilog-hangs $step -n 1 --task-epilog="$programs/epilog-hangs" echo done
line epilog-fails $step -n 2 --task-epilog="$programs/epilog-fails" echo done
line epilog-site-fails env SITE_EPILOG_FAILS=yes $step -n 1 echo done
line prolog-site-fails env SITE_PROLOG_FAILS=yes $step -n 1 echo not reached
line prolog-site-dies env SITE_PROLOG_DIES=yes $step -n 1 echo not reached
line epilog-of-missing $step -n 1 --task-epilog="$programs/epilog-fails" nonexistent
line epilog-missing $step -n 1 --task-epilog=/nowhere/epilog echo done
{ # its epilog runs after a task that is killed
	EPILOG=$PWD/killed.list $step -n 1 --task-epilog="$programs/epilog" sh -c 'echo $SLURM_STEP_ID; exec sleep 300' \
		>killed.step 2>/dev/null </dev/null &
	pid=$!
	until_true has_lines killed.step 1
	scancel -s KILL "$SLURM_JOB_ID.$(cat killed.step)"
	wait $pid
	echo $? >killed.rc
	cp killed.list killed.out
	: >killed.err
} &
# A program is called by the path at which it is found.
mkdir names
printf '#!/bin/sh\necho "$0"\n' >names/program
chmod 755 names/program
echo >names/data
line name $step -n 2 -l sh -c 'echo "$0"'
line name-prolog $step -n 1 --task-prolog=/bin/true sh -c 'echo "$0"'
shell name-directory "cd names; $step -n 1 ./program; $step -n 1 --task-prolog=/bin/true ./program"
line name-relative $step -n 1 names/program
shell name-no-access "PATH=\$PATH:\$PWD/names; export PATH; $step -n 1 data; $step -n 1 --task-prolog=/bin/true data"
line nice nice -n 5 $step -n 1 nice
line nice-variable sh -c 'nice -n 3 '"$step"' -n 1 printenv SLURM_PRIO_PROCESS'
line virtual $step -n 1 --mem=200M sh -c 'ulimit -v; ulimit -Hv; ulimit -m'
shell variables "$step"' -n 2 sh -c "env >variables.\$SLURM_PROCID"; cat variables.0 variables.1 | sed "/^SLURM_TASK_PID=/d; /PORT=/d; /^BENCH_/d; /^SLURM_WORKING_CLUSTER=/d; /^SLURM_JOB_*ID=/d; /^SLURM_JOB_SLUID=/d; /^TMPDIR=/d; /^SLURM_CONF=/d; /^SLURM_STEP.*ID=/d; /^SLURM_JOB_[A-Z]*_TIME=/d" | sort'
for library in $(cat "$dir/libraries"); do
	case $library in
	mpich) line mpich $step --mpi=pmi2 -n 2 "$programs/mpich" ;;
	openmpi) line openmpi $step --mpi=pmix -n 2 "$programs/openmpi" ;;
	esac
done
[ -z "$PMIX_CLIENT" ] || line pmix $step --mpi=pmix -n 2 "$PMIX_CLIENT" modex
wait
S
# The site's prolog and epilog run for scripts, too.
cat >"$tmpdir/scripts" <<'S'
printf '#!/bin/sh\necho "$SITE_PROLOG|$SLURM_SCRIPT_CONTEXT|${0##*/}|$2"\nexit 3\n' >text
printf '#!/no/interpreter\n' >text-bad
script() { # NAME TEXT VARIABLE=VALUE
	env "$3" sbatch -Q --wait -n 1 -o "$1.log" "$2" one 'two  words' >"$1.out" 2>"$1.err"
	echo $? >"$1.rc"
	cat "$1.log" >>"$1.out"
}
script script text A=b
script script-bad text-bad A=b
script script-prolog-fails text SITE_PROLOG_FAILS=1
script script-prolog-dies text SITE_PROLOG_DIES=1
script script-epilog-fails text SITE_EPILOG_FAILS=1
script script-epilog text "EPILOG=$PWD/script.list"
cat script.list >>script-epilog.out
S
echo "$sums" >"$tmpdir/libraries"
BENCH_SLURM_LINES="TaskPlugin=task/affinity
TaskProlog=$tmpdir/programs/site-prolog
TaskEpilog=$tmpdir/programs/site-epilog
PropagatePrioProcess=1
KillWait=2
VSizeFactor=150
SelectTypeParameters=CR_CPU_Memory
CommunicationParameters=block_null_hash,block_zero_hash
FirstJobId=$first_job
$slurmd_log"
BENCH_SLURM_CPUS=2
OMPI_ALLOW_RUN_AS_ROOT=1
OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export BENCH_SLURM_CPUS OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM
both tasks 2
same tasks
for library in $sums; do
	like "$(cat "$tmpdir/tasks-served/$library.out")" "rank 1 of 2, 2 here: right" "an MPI program of $library runs"
done
log_lines >"$tmpdir/lines"
is "$(grep 'handed over' "$tmpdir/lines")" "" "no step of these was handed over"
is "$(ls "$run")" "" "the served steps have left nothing in the runtime directory"
done_testing
