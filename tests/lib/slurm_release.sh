# shellcheck shell=sh
# SPDX-License-Identifier: BSD-3-Clause
#
# The test of a release of Slurm that stepd-slurmstepd serves: steps and scripts beside those of that Slurm's
# own slurmstepd, in a tree of the Debian that has it. Two Slurms at the same time, of two nodes each, the
# same command lines in both; what users see must be the same, but for pids, ports and times. 0708 to 0712
# have more of it for 22.05. A test sets STEPD_TEST_SLURM, as local_slurm.sh has it.
# shellcheck source=tests/lib/local_slurm.sh
. "${top_srcdir:?}/tests/lib/local_slurm.sh"

[ "$(id -u)" = 0 ] || skip_all "needs root"
command -v ip >/dev/null || skip_all "needs ip"
find_slurm_root "${STEPD_TEST_SLURM:?}" || skip_all "$slurm_root_reason"
program=$(cd "${top_builddir:?}" && pwd -P)/contrib/slurm/stepd-slurmstepd
STEPD_CONFIG=$tmpdir/stepd.conf
export STEPD_CONFIG
echo 'slurm_serve = srun, batch, interactive' >"$STEPD_CONFIG"

# ---- the command lines -----------------------------------------------------------------------
cp "$top_srcdir/tests/lib/in_slurm.sh" "$tmpdir/functions"
cp "$top_srcdir/tests/lib/slurm_waiting.py" "$tmpdir/waiting"

# All at once, in an allocation.
cat >"$tmpdir/commands" <<'S'
. "$1/functions"
dir=$1
line hello srun -Q --overlap -N 1 -n 2 -l echo hello
line nodes srun -Q --overlap -N 2 -n 4 -l sh -c 'echo $SLURM_PROCID $SLURM_NODEID $SLURM_LOCALID $SLURM_GTIDS'
line missing srun -Q --overlap -N 1 -n 2 nonexistent
line elsewhere srun -Q --overlap -N 1 -n 1 -D /nowhere pwd
line statuses srun -Q --overlap -N 1 -n 2 sh -c 'exit $((SLURM_PROCID + 3))'
line killed srun -Q --overlap -N 1 -n 2 sh -c 'kill -9 $$'
line aborted srun -Q --overlap -N 1 -n 1 sh -c 'kill -ABRT $$'
line bad-exit srun -Q --overlap -N 1 -n 3 -K sh -c '[ $SLURM_PROCID = 1 ] && exit 7; exec sleep 300'
line errors srun -Q --overlap -N 1 -n 2 -l sh -c 'echo out; echo err >&2'
line half srun -Q --overlap -N 1 -n 1 printf half
line long srun -Q --overlap -N 1 -n 1 sh -c 'head -c 5000 /dev/zero | tr "\0" x'
line files srun -Q --overlap -N 1 -n 2 -o files.%t.%n -e files.err.%t sh -c 'echo $SLURM_PROCID; echo e$SLURM_PROCID >&2'
line made srun -Q --overlap -N 1 -n 2 -o made/by/%t echo made
line made-odd srun -Q --overlap -N 1 -n 1 -o ./odd//a/../b/out -e odd/errors/err sh -c 'echo odd; echo err >&2'
line made-in srun -Q --overlap -N 1 -n 1 -i nowhere/in cat
line made-file srun -Q --overlap -N 1 -n 1 -o programs/out echo never
line made-link srun -Q --overlap -N 1 -n 1 -o dangling/link/out echo never
line made-mask sh -c 'umask 027; exec srun -Q --overlap -N 1 -n 1 -o masked/dir/out umask'
line null srun -Q --overlap -N 1 -n 2 -i /dev/null -l cat
line words srun -Q --overlap -N 1 -n 1 printf '%s|' 'a b' '' 'ü' '*'
line directory srun -Q --overlap -N 1 -n 2 sh -c 'pwd; id; umask'
line limits srun -Q --overlap -N 1 -n 1 sh -c 'ulimit -a; ulimit -Ha'
line unbuffered srun -Q --overlap -N 1 -n 1 -u echo unbuffered
line programs srun -Q --overlap -N 1 -n 2 --multi-prog ./programs
line launcher srun -Q --overlap -N 2 -n 2 --external-launcher sh -c 'echo $SLURM_PROCID'
shell variables 'srun -Q --overlap -N 1 -n 2 --oom-kill-step=1 sh -c "env >variables.\$SLURM_PROCID"; cat variables.0 variables.1 | "$1"' "$1/variables"
shell sluid 'srun -Q --overlap -N 1 -n 1 printenv SLURM_JOB_SLUID >sluid.task
	scontrol -d -o show job $SLURM_JOB_ID | grep -o "\bSLUID=s[^ ]*" | cut -d= -f2 | cmp - sluid.task'
shell input 'echo line | srun -Q --overlap -N 1 -n 3 -l cat'
shell input-much 'seq 60000 | srun -Q --overlap -N 2 -n 2 sh -c md5sum'
# The real one loses output now and then, so it is no control for much of it, and a task's errno.
srun -Q --overlap -N 2 -n 2 seq 40000 2>/dev/null </dev/null | sort | md5sum >much &
head -c 300000 /usr/sbin/slurmd | srun -Q --overlap -N 1 -n 1 cat 2>/dev/null | md5sum >binary &
shell denied 'srun -Q --overlap -N 1 -n 2 /etc/passwd 2>&1 | grep -v Exited'

running cancel scancel
running cancel-kill scancel -s KILL
running cancel-usr2 scancel -s USR2
running pids sh -c 'scontrol listpids "$1" | awk "NR > 1 && \$4 != \"-\" { print \$4, \$5 }" | sort >pids.list; scancel $1' sh
running usage sh -c 'sstat -n -P -o NTasks -j "$1" >usage.list 2>&1; scancel $1' sh
running attached sh -c 'sattach -Q "$1" >attached.raw 2>&1 & until test -s attached.raw; do sleep 0.02; done
	scancel -s USR2 "$1"; wait; grep -v "^[0-9]*$" attached.raw | sort -u >attached.list' sh
running requests sh -c 'python3 "$1/requests" "$2" >requests.list 2>&1; scancel -s USR2 "$2"' sh "$dir"
wait
# Of all that runs.
running reconfigured sh -c 'scontrol reconfigure; scancel -s USR2 $1' sh
wait
# slurmd has a thread for each request: a resumption that does not wait until the nodes stand may be done
# before the suspension, after which the job stands for good.
stands() {
	beats=$(wc -c beat.0 beat.1)
	sleep 1
	[ "$(wc -c beat.0 beat.1)" = "$beats" ]
}
suspend_and_resume() {
	scontrol suspend "$SLURM_JOB_ID"
	until_true stands
	scontrol resume "$SLURM_JOB_ID"
	until_true scancel -s USR2 "$1"
	echo >over.beats
}
srun -Q --overlap -N 2 -n 2 sh -c 'until test -e over.beats; do echo >>beat.$SLURM_PROCID; sleep 0.1; done' 2>/dev/null </dev/null &
until_true test -s beat.0 -a -s beat.1
running suspended suspend_and_resume
wait
S

# Requests of slurmd and pam_slurm_adopt, by number, and the size of each answer: those that came after
# 24.11. A job's number in the cluster, which scontrol shows from then on, is another one in each.
cat >"$tmpdir/requests" <<'S'
import glob, os, re, socket, struct, subprocess, sys
SLUID, MEM_LIMITS, NAMESPACES, MEM_UPDATE = 1, 19, 28, 30
digits = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
job = subprocess.check_output(["scontrol", "-d", "show", "job", os.environ["SLURM_JOB_ID"]], text=True)
wanted = re.search(r"\bSLUID=(s\w+)", job)
version = int(os.environ["STEPD_TEST_PROTOCOL"])
client = socket.socket(socket.AF_UNIX)
client.connect(glob.glob(f"{os.path.dirname(os.environ['SLURM_CONF'])}/spool/*/*_{sys.argv[1]}")[0])
client.sendall(struct.pack("i", version))
print(struct.unpack("i", client.recv(4))[0] == version)
def ask(number, size, data=b""):
    client.sendall(struct.pack("i", number) + data)
    return client.recv(size, socket.MSG_WAITALL)
if wanted:
    sluid = struct.unpack("Q", ask(SLUID, 8))[0]
    print("s" + "".join(digits[sluid >> 5 * i & 31] for i in range(12, -1, -1)) == wanted.group(1))
    print(ask(NAMESPACES, 4), ask(MEM_LIMITS, 8))
if version >= 45 << 8:
    print(ask(MEM_UPDATE, 4, struct.pack("Q", 77)), ask(MEM_LIMITS, 8))
if not wanted:
    print(ask(MEM_LIMITS, 16))
S

# Without what differs between any two steps.
cat >"$tmpdir/variables" <<'S'
#!/bin/sh
sed -E '/^SLURM_TASK_PID=/d; /PORT=/d; /^BENCH_/d; /^SLURM_(WORKING_CLUSTER|JOB_.*ID|JOBID|CONF|STEP.*ID|NODELIST|JOB_NODELIST|STEP_NODELIST|TOPOLOGY_ADDR|ARRAY_.*|SUBMIT_DIR)=/d
	/^(TMPDIR|HOSTNAME|SLURMD_NODENAME|PWD|OLDPWD|SLURM_JOB_(START|END)_TIME)=/d' | sort
S
chmod 755 "$tmpdir/variables"

# Scripts, another user's step, a job that is cancelled, and a shell of salloc.
cat >"$tmpdir/inside" <<'S'
. "$1/functions"
mkdir "$1/$2"
cd "$1/$2"
printf '0 echo first\n1 echo second\n' >programs
ln -s target dangling
printf '#!/bin/sh\nenv | %s; printenv SLURM_JOB_END_TIME | wc -l\n' "$1/variables" >environment
printf '#!/bin/sh\necho $0 "$@" | sed "s,.*/,,"; srun -Q -n 1 echo in its step; echo err >&2; exit 7\n' >script
printf '#!/bin/sh\ntrap "echo term; exit 3" TERM\necho up; sleep 300 & wait\n' >stubborn
salloc -Q -N 2 -n 100 sh "$1/commands" "$1" >salloc 2>&1 &
line batch sbatch -Q --wait -o batch.file script some words
line batch-environment sbatch -Q --wait -N 2 -n 3 -o environment.file environment
line batch-tasks sbatch -Q --wait -N 2 --ntasks-per-node=2 -c 2 -o tasks.file environment
line batch-array sbatch -Q --wait -a 3-4 -o array.%a --wrap 'exit $SLURM_ARRAY_TASK_ID'
line batch-made sbatch -Q --wait -o new/directory/%x --wrap 'echo made'
line batch-missing sbatch -Q --wait -D /nowhere -o "$PWD/missing.file" --wrap pwd
mkdir -m 777 open
line user-made setpriv --reuid=65534 --regid=65534 --clear-groups srun -Q -N 1 -n 1 -D / -o "$PWD/open/by/user/out" echo made
line user-denied setpriv --reuid=65534 --regid=65534 --clear-groups srun -Q -N 1 -n 1 -D / -o "$PWD/closed/by/root/out" echo never
line user setpriv --reuid=65534 --regid=65534 --clear-groups srun -Q -N 1 -n 2 -D / sh -c 'id; pwd'
# 26.05 prints the number as a negative one.
shell interactive 'echo "echo in \$((SLURM_STEP_ID & 0xffffffff)); exit 4" | salloc -Q -N 1 srun -Q --interactive sh'
srun -Q -N 1 -n 1 -J cancelled sh -c 'echo up; exec sleep 300' >job.out 2>job.err </dev/null &
step=$!
until_true test -s job.out
scancel -n cancelled
wait $step
echo $? >job.rc
sbatch -Q -J stubborn -o stubborn.file stubborn
until_true grep -qs up stubborn.file
scancel -n stubborn
wait
until_true no_step
find made odd masked open new closed nowhere dangling target -printf '%p %U:%G %M\n' >directories.list 2>/dev/null
echo >over
S

slurm() { # NAME
	own_network="sh $top_srcdir/tests/testbed/own-network" BENCH_SLURM_ALLOCATION=no in_slurm_root timeout -k 90 300 sh "$top_srcdir/tests/bench/with-slurm" \
		sh "$tmpdir/inside" "$tmpdir" "$1" >"$tmpdir/$1.slurm" 2>&1
}
port=$(slurm_port 8)
BENCH_SLURM_LINES="CommunicationParameters=block_null_hash,block_zero_hash
FirstJobId=$first_job
JobAcctGatherType=jobacct_gather/linux
LaunchParameters=use_interactive_step
SlurmdLogFile=$tmpdir/%n.log"
BENCH_SLURM_NODES=2
export BENCH_SLURM_LINES BENCH_SLURM_NODES
BENCH_SLURM_PORT=$port BENCH_SLURM_STEPD=$program slurm served &
BENCH_SLURM_PORT=$((port + 4)) slurm real
wait
for name in served real; do
	[ -s "$tmpdir/$name/over" ] || bail "no Slurm came up: $(tail -n 1 "$tmpdir/$name.slurm")"
done

# ---- the comparison --------------------------------------------------------------------------
seen() { # FILE...: what users see in it
	sed -E 's/bench[0-9]+(-[12])?/NODE/g; s/^\[[-0-9]+T[0-9:.]+\] error: /[TIME] error: /; s,/(real|served)\>,/DIR,g; s/[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}/TIME/
		s/(STEP|JOB|StepId=)[ ]?[0-9]+(\.[0-9]+)?/\1 ID/; /\*\*\* (STEP|JOB) ID ON NODE CANCELLED/d
		s/^(.*): tasks 0(-1|,2): (.*)$/\1: task 0: \3\n\1: task\2: \3/; s/: task[-,]([12]): /: task \1: /' "$@" | sort
}
for rc in "$tmpdir"/real/*.rc; do
	name=$(basename "$rc" .rc)
	for part in out err rc; do
		echo "$part: $(seen "$tmpdir/served/$name.$part" 2>&1)" >>"$tmpdir/served.$name"
		echo "$part: $(seen "$tmpdir/real/$name.$part" 2>&1)" >>"$tmpdir/real.$name"
	done
	is "$(cat "$tmpdir/served.$name")" "$(cat "$tmpdir/real.$name")" "$name: users see the same of a served step"
done
cd "$tmpdir/real" || bail "no directory of the real one"
for file in files.[01].* files.err.[01] made/by/[01] new/directory/* odd/b/out odd/errors/err open/by/user/out *.file array.[34] *.list; do
	is "$(seen "$tmpdir/served/$file")" "$(seen "$tmpdir/real/$file")" "the file $file is the same"
done
cd "$tmpdir" || bail "no directory '$tmpdir'"
# What a line of slurmstepd begins with, and what that on a cancelled step ends with.
origin='slurmstepd-bench[-0-9]+:' cancelled=
if [ "$STEPD_TEST_PROTOCOL" -ge 11008 ]; then
	origin='\[[-0-9]+T[0-9:]+\.[0-9]{3}\]'
	cancelled=' DUE (to SIGNAL (Terminated|Killed)|TO TASK FAILURE)'
fi
for name in cancel bad-exit job; do
	like "$(cat "$tmpdir/served/$name.err")" \
		"^$origin error: \*\*\* STEP [0-9]+\.[0-9]+ ON bench[-0-9]+ CANCELLED AT [-0-9]+T[0-9:]+$cancelled \*\*\*$" \
		"$name: a served step says when it was cancelled"
done

is "$(cat "$tmpdir/served/much")" "$({ seq 40000; seq 40000; } | sort | md5sum)" \
	"much output of a served step arrives whole, from two nodes"
is "$(cat "$tmpdir/served/binary")" "$(head -c 300000 "$slurm_root/usr/sbin/slurmd" | md5sum)" \
	"bytes pass through a served step unchanged"

# ---- which were served -----------------------------------------------------------------------
cat "$tmpdir"/bench*.log | grep ' stepd-slurmstepd: ' >"$tmpdir/lines"
count() {
	grep -Ec "$1" "$tmpdir/lines"
}
is "$(grep 'handed over to' "$tmpdir/lines")" "" "all steps are served"
like "$(cat "$tmpdir/served/open/by/user/out")" "^made$" "a file's directories are made as the step's user"
is "$(count 'batch step served$')" 8 "the log has each script that was served"
is "$(ls "$run")" "" "the served steps have left nothing in the runtime directory"
done_testing
