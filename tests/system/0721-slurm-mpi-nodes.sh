#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# MPI over the nodes of steps that stepd-slurmstepd serves: PMI-2 by srun's tree of Slurm, beside Slurm's own
# slurmstepd, all nodes served and only some of them; and what else steps of several nodes need: programs of
# "srun --multi-prog", the terminal of "--pty", input for one rank, the accounting of the whole tree. Two
# Slurms of nine nodes each at the same time, and the same command lines in both; users must see the same.
# shellcheck source=tests/lib/local_slurm.sh
. "${top_srcdir:?}/tests/lib/local_slurm.sh"
# shellcheck source=tests/lib/mpi.sh
. "$top_srcdir/tests/lib/mpi.sh"

needs_slurm python3 setpriv srun
build_mpi "$top_srcdir/tests/lib/mpi_sum.c" "$tmpdir/mpi_sum"
[ -z "$slurm_root" ] || bring_libraries "$tmpdir/mpi_sum"
serve srun
chmod 755 "$tmpdir" # another user's program is below it
DIR=$tmpdir
PYTHONPATH=$(cd "$top_srcdir" && pwd)/tests/lib
PYTHONDONTWRITEBYTECODE=1
export DIR PYTHONPATH PYTHONDONTWRITEBYTECODE

# In slurmstepd's place: the program, but on the nodes that $DIR/handed names. Step daemons find slurmctld
# where records.py listens.
cat >"$tmpdir/stepd" <<'S'
#!/bin/sh
case $BENCH_SLURM_NODE in
*[13579]) number=odd ;;
*) number=even ;;
esac
name=$(cat "${SLURM_CONF%/*}/name")
SLURM_CONF=$DIR/$name.conf
export SLURM_CONF
[ "$name" = served ] || exec slurmstepd
[ "$(cat "$DIR/handed" 2>/dev/null)" != $number ] || exec slurmstepd
exec "$PROGRAM"
S
chmod 755 "$tmpdir/stepd"

# One command after the other, each within its time.
cat >>"$tmpdir/functions" <<'S'
limit='timeout -k 5 100'
after() { # NAME COMMAND...
	line "$@"
	wait $!
}
S

# A conversation of PMI-2: what a rank gets of the others, and of the step.
cat >"$tmpdir/talk" <<'S'
import os, sys
from pmi_talk import Talk, RANK, SIZE

def fields(answer):
    return dict(f.split("=", 1) for f in answer.split(";") if "=" in f)

t = Talk()
t.init(2)
full = fields(t.call("cmd=fullinit;pmijobid=1;pmirank=%d;threaded=FALSE;" % RANK))
print(RANK, "is", full["rank"], "of", full["size"])
for turn in range(3):
    t.call("cmd=kvs-put;key=%d.%d;value=v%d.%d=a b;" % (turn, RANK, turn, RANK))
    if RANK % 3 == 0:
        t.call("cmd=kvs-put;key=same%d;value=x%d;" % (RANK, turn))
    t.call("cmd=kvs-fence;")
    got = [fields(t.call("cmd=kvs-get;jobid=;srcid=-1;key=%d.%d;" % (turn, r))).get("value") for r in range(SIZE)]
    got.append(fields(t.call("cmd=kvs-get;jobid=;srcid=-1;key=same0;")).get("value"))
    print(RANK, turn, got)
t.call("cmd=kvs-fence;") # with nothing
print(RANK, fields(t.call("cmd=kvs-get;jobid=;srcid=-1;key=none;"))["found"])
if RANK == 0:
    print("published", fields(t.call("cmd=name-publish;name=svc;port=tag#0$host;"))["rc"])
t.call("cmd=kvs-fence;")
found = fields(t.call("cmd=name-lookup;name=svc;"))
print(RANK, "looked up", found.get("value", found.get("port")))
t.call("cmd=kvs-fence;")
if RANK == 0:
    print("unpublished", fields(t.call("cmd=name-unpublish;name=svc;"))["rc"])
t.call("cmd=kvs-fence;")
found = fields(t.call("cmd=name-lookup;name=svc;"))
print(RANK, "finds", found.get("value", found.get("port")))
if sys.argv[1:] == ["large"]: # some megabytes in all
    for i in range(400):
        t.call("cmd=kvs-put;key=l%d.%d;value=%s;" % (RANK, i, "y" * 1000 + str(RANK)))
    t.call("cmd=kvs-fence;")
    print(RANK, fields(t.call("cmd=kvs-get;jobid=;srcid=-1;key=l%d.399;" % (SIZE - 1)))["value"][-4:])
print(RANK, sorted(v for v in os.environ if "PMI" in v))
t.call("cmd=finalize;")
S

# A barrier and a get of PMI-1.
cat >"$tmpdir/talk1" <<'S'
from pmi_talk import Talk, RANK, SIZE
t = Talk()
t.init(1)
def call(text):
    return dict(f.split("=", 1) for f in t.call(text).split(" ") if "=" in f)
name = call("cmd=get_my_kvsname")["kvsname"]
call("cmd=put kvsname=%s key=k%d value=v%d" % (name, RANK, RANK))
call("cmd=barrier_in")
print(RANK, [call("cmd=get kvsname=%s key=k%d" % (name, r))["value"] for r in range(SIZE)])
call("cmd=finalize")
S

# A terminal for a command: what it shows.
cat >"$tmpdir/terminal" <<'S'
import os, pty, sys
status = pty.spawn(sys.argv[1:])
sys.exit(os.waitstatus_to_exitcode(status))
S

# What the tasks of one node write and read more than those of the others.
cat >"$tmpdir/uses" <<'S'
import os, sys, time
node = int(os.environ["SLURM_NODEID"])
with open("/dev/null", "wb") as f:
    f.write(bytes((node + 1) << 20))
with open("/dev/zero", "rb") as f:
    f.read((9 - node) << 20)
while time.process_time() < 0.1:
    pass
# For some readings, a second apart.
time.sleep(4)
S

# Who connects to a step's sockets of PMI-2, SLURM'S OURS: another user, the step's own with what is no message,
# and with a fence's end that no rank waits for.
cat >"$tmpdir/strangers" <<'S'
import os, socket, struct, sys

def connect(name, path, data):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(60)
    try:
        s.connect(path)
        s.sendall(data)
        s.shutdown(socket.SHUT_WR)
        print(name, "closed" if s.recv(1) == b"" else "answered", flush=True)
    except (BrokenPipeError, ConnectionResetError):
        print(name, "closed", flush=True)
    except (ConnectionRefusedError, PermissionError) as e:
        print(name, type(e).__name__, flush=True)

ends = struct.pack(">IIHI", 0, 6, 1, 1)
if os.fork() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
    connect("stranger", sys.argv[1], ends)
    connect("stranger at the server's", sys.argv[2], b"x")
    os._exit(0)
os.wait()
connect("garbage", sys.argv[1], struct.pack(">II", 0, 1 << 31) + b"x" * 100000)
connect("nothing", sys.argv[1], b"")
connect("unknown", sys.argv[1], struct.pack(">IIH", 0, 2, 77))
connect("early end", sys.argv[1], ends)
connect("foreign part", sys.argv[1], struct.pack(">IIHIIIII", 0, 22, 0, 1, 0, 1, 1, 0))
connect("second server", sys.argv[2], b"x")
S

# Between step daemons and slurmctld: the accounting of each end of a step, and the range of nodes.
cat >"$tmpdir/records.py" <<'S'
import socket, struct, sys, threading
from slurm_usage_record import show

def read(s, size):
    data = b""
    while len(data) < size:
        piece = s.recv(size - len(data))
        if not piece:
            raise EOFError
        data += piece
    return data

def pass_on(client):
    try:
        size = read(client, 4)
        body = read(client, struct.unpack(">I", size)[0])
        if struct.unpack_from(">H", body, 4)[0] == 5016:
            show(body, out)
        with socket.create_connection(("127.0.0.1", controller)) as s:
            s.sendall(size + body)
            answer = read(s, 4)
            client.sendall(answer + read(s, struct.unpack(">I", answer)[0]))
    except (EOFError, OSError):
        pass
    client.close()

listener = socket.create_server(("127.0.0.1", int(sys.argv[1])), backlog=128)
controller = int(sys.argv[2])
out = open(sys.argv[3], "a", buffering=1)
while True:
    threading.Thread(target=pass_on, args=(listener.accept()[0],), daemon=True).start()
S
# Of a REQUEST_STEP_COMPLETE: a line with the range, the largest use of a task and its place, and the sum.
cat >"$tmpdir/slurm_usage_record.py" <<'S'
import struct

def show(body, out):
    size = struct.unpack_from(">I", body, 6)[0]
    record = body[len(body) - size:]
    if struct.unpack_from(">H", body)[0] >= 10752: # 24.11: the step's number in the cluster
        record = record[8:]
    job, step, het, first, last, status, known = struct.unpack_from(">IIIIIIB", record)
    line = "step %d nodes %d-%d" % (step, first, last)
    if known:
        at = 25
        user, user_us, system, system_us, freq, energy, n = struct.unpack_from(">QIQIIQI", record, at)
        at += 40
        ids = struct.unpack_from(">%dI" % n, record, at)
        at += 4 * n
        names = struct.unpack_from(">I", record, at)[0]
        assert names == 0xfffffffe, names
        at += 4
        columns = []
        for _ in range(14):
            columns.append(struct.unpack_from(">%dQ" % n, record, at + 4))
            at += 4 + 8 * n
        disk = ids.index(6)
        mb = lambda v: "-" if v >= 2**64 - 2 else str(v >> 20)
        for way, c in (("read", 0), ("written", 7)):
            line += " %s most %s of node %d task %d, least %s of node %d task %d, sum %s;" % (
                way, mb(columns[c][disk]), columns[c + 1][disk], columns[c + 2][disk],
                mb(columns[c + 3][disk]), columns[c + 4][disk], columns[c + 5][disk], mb(columns[c + 6][disk]))
        cpu = user + system + (user_us + system_us) / 1e6
        line += " cpu %s" % ("of nine" if cpu >= 0.9 else cpu)
    out.write(line + "\n")
S

# ---- the command lines -----------------------------------------------------------------------
# Of MPI, with a prefix of their names.
cat >"$tmpdir/mpi_lines" <<'S'
nodes=${SLURM_JOB_NODELIST%%[*}
four="-N4 -w $nodes[1-4]"
srun='srun -Q --overlap --mpi=pmi2'
after "$1four" $srun $four -n4 "$DIR/mpi_sum"
after "$1block" $srun $four -n8 -m block "$DIR/mpi_sum"
after "$1cyclic" $srun $four -n10 -m cyclic "$DIR/mpi_sum"
after "$1talk" $srun $four -n8 -K python3 "$DIR/talk"
after "$1talk1" $srun $four -n6 -K -m cyclic python3 "$DIR/talk1"
after "$1abort" $srun $four -n8 "$DIR/mpi_sum" 9
# Where the tree has levels: nodes 1, 2 and 5 have others below them, and all but one.
SLURM_PMI2_TREE_WIDTH=2
export SLURM_PMI2_TREE_WIDTH
after "$1deep" $srun -N9 -n18 -K python3 "$DIR/talk"
after "$1deep-sum" $srun -N9 -n9 "$DIR/mpi_sum"
SLURM_PMI2_TREE_WIDTH=3
after "$1wide" $srun -N9 -n9 -K python3 "$DIR/talk1"
unset SLURM_PMI2_TREE_WIDTH
S
cat >"$tmpdir/rest" <<'S'
. "$1/functions"
three="-N3 -w ${SLURM_JOB_NODELIST%%[*}[1-3]"
two="-N2 -w ${SLURM_JOB_NODELIST%%[*}[1-2]"
four="-N4 -w ${SLURM_JOB_NODELIST%%[*}[1-4]"
step='srun -Q --overlap'
after plane $step --mpi=pmi2 $three -n7 -m plane=2 "$DIR/mpi_sum"
after large $step --mpi=pmi2 $three -n6 -K python3 "$DIR/talk" large
after nine $step --mpi=pmi2 -N9 -n18 -K python3 "$DIR/talk1"
# Once all run: srun's signal for the others is lost where it comes before a node has the step.
after killed $step --mpi=pmi2 $three -n3 -K sh -c '>killed.begun.$SLURM_PROCID
	[ $SLURM_PROCID != 2 ] || { until [ -e killed.begun.0 ] && [ -e killed.begun.1 ]; do sleep 0.05; done; kill -9 $$; }
	exec "$DIR/mpi_sum"'
after no-mpi $step --mpi=pmi2 $three -n3 sh -c 'echo $SLURM_PROCID $PMI_RANK $PMI_SIZE'
after narrow env SLURM_PMI2_TREE_WIDTH=2 $step --mpi=pmi2 $three -n3 "$DIR/mpi_sum"
after narrow-large env SLURM_PMI2_TREE_WIDTH=2 $step --mpi=pmi2 $four -n4 -K python3 "$DIR/talk" large
after narrow-abort env SLURM_PMI2_TREE_WIDTH=2 $step --mpi=pmi2 $four -n8 "$DIR/mpi_sum" 9

# Several programs, a terminal, input for one rank.
printf '0 echo first %%t %%o\n1-3 echo middle %%t %%o\n* echo last %%t %%o\n' >programs
after programs $step $three -n6 -l --multi-prog programs
printf '0-1 sh -c exit\n2 false\n* true\n' >statuses
after program-statuses $step $three -n5 --multi-prog statuses
printf '0 %s\n1-7 %s\n' "$DIR/mpi_sum" "$DIR/mpi_sum" >mpi_programs
after programs-mpi $step --mpi=pmi2 $three -n8 --multi-prog mpi_programs
after terminal python3 "$DIR/terminal" $step $two -n3 --pty sh -c 'test -t 0 && test -t 1 && echo a terminal $SLURM_PROCID; ls -l /proc/$$/fd/0 | grep -c /dev/null; exit $SLURM_PROCID'
after terminal-mpi python3 "$DIR/terminal" $step --mpi=pmi2 $two -n4 --pty "$DIR/mpi_sum"
for which in 0 2 none all; do
	after "input-$which" sh -c "echo line | $step $three -n3 -l -i $which cat"
done
after input-nobody sh -c "echo line | $step $three -n3 -l -i 7 cat"

# The accounting of a tree.
$step -N9 -n9 --acctg-freq=task=1 python3 "$DIR/uses" >uses.out 2>uses.err </dev/null
echo $? >uses.rc
S

# While a served step runs that has not come to its first fence.
cat >"$tmpdir/attacked" <<'S'
. "$1/functions"
srun -Q --overlap --mpi=pmi2 -N2 -n2 -w "${SLURM_JOB_NODELIST%%[*}[1-2]" sh -c 'echo $SLURM_STEP_ID $SLURM_NODEID; until [ -e attacked.go ]; do sleep 0.1; done; exec "$DIR/mpi_sum"' \
	>attacked.out 2>attacked.err </dev/null &
until_true has_lines attacked.out 2
step=$(head -n 1 attacked.out | cut -d ' ' -f 1)
python3 "$DIR/strangers" "$(dirname "$SLURM_CONF")"/spool/*-1/sock.pmi2."$SLURM_JOB_ID.$step" \
	"/run/stepd-slurmstepd/${SLURM_JOB_NODELIST%%[*}1_$SLURM_JOB_ID.$step/pmi" >attacked.heard 2>&1
: >attacked.go
wait $!
echo $? >attacked.status
S

cat >"$tmpdir/inside" <<'S'
mkdir "$1/$2"
cd "$1/$2"
real=$(sed -n 's/^SlurmctldPort=//p' "$SLURM_CONF")
sed "s/^SlurmctldPort=.*/SlurmctldPort=$3/" "$SLURM_CONF" >"$1/$2.conf"
echo "$2" >"${SLURM_CONF%/*}/name"
PYTHONPATH=$PYTHONPATH:$1 python3 "$1/records.py" "$3" "$real" records &
records=$!
salloc -Q -N 9 -n 72 sh -c '. "$1/functions"; set -- "$1" "$2"; dir=$1 which=$2
	set -- ""; . "$dir/mpi_lines"
	sh "$dir/rest" "$dir"
	if [ "$which" = served ]; then
		for handed in odd even; do
			echo $handed >"$dir/handed"
			set -- "mixed-$handed-"; . "$dir/mpi_lines"
			srun -Q --overlap -N9 -n9 --acctg-freq=task=1 python3 "$DIR/uses" >"uses-$handed.out" 2>"uses-$handed.err" </dev/null
		done
		rm "$dir/handed"
		sh "$dir/attacked" "$dir"
	fi' sh "$1" "$2" >salloc 2>&1
# slurmd connects to the nodes' sockets as the user.
. "$1/functions"
after user setpriv --reuid=65534 --regid=65534 --clear-groups salloc -Q -N 3 -n 6 \
	srun -Q --mpi=pmi2 -n6 sh -c 'id -u; exec "$DIR/mpi_sum"'
until_true no_step # it reports its end there
kill $records
echo >over
S

# The last port of each Slurm's is that of records.py.
BENCH_SLURM_NODES=9
BENCH_SLURM_CPUS=8
BENCH_SLURM_STEPD=$tmpdir/stepd
BENCH_SLURM_LINES="$slurmd_log
SlurmctldLogFile=$tmpdir/@NAME@.ctld
JobAcctGatherType=jobacct_gather/linux
FirstJobId=$first_job
KillWait=2"
export BENCH_SLURM_NODES BENCH_SLURM_CPUS BENCH_SLURM_STEPD BENCH_SLURM_LINES
port=$(slurm_port 22)
in_slurm served "$port" $((port + 10)) &
in_slurm real $((port + 11)) $((port + 21))
wait
for name in served real; do
	[ -s "$tmpdir/$name/over" ] || skip_all "no Slurm came up: $(tail -n 1 "$tmpdir/$name.slurm")"
done

# ---- the comparison --------------------------------------------------------------------------
seen() { # CLUSTER NAME: what users see of it; lines of tasks have no order
	# In 24.11 a rank may see that another was killed before it is itself.
	ranks=
	case ${slurm_root:+$2} in *abort) ranks='/^(srun:|[0-9]+$)/!d' ;; esac
	for part in out err rc; do
		alike "$tmpdir/$1/$2.$part" | sed -E -e 's/\r+$//; /\*\*\* STEP ID ON NODE-[0-9] CANCELLED/d
			/Abort\(9\)/d; /task 7: Exited/d' -e "$ranks" | sort
	done
}
for rc in "$tmpdir"/real/*.rc; do
	name=$(basename "$rc" .rc)
	is "$(seen served "$name")" "$(seen real "$name")" "$name: users see the same of a served step"
done
for name in four block cyclic talk talk1 abort deep deep-sum wide; do
	for handed in odd even; do
		is "$(seen served "mixed-$handed-$name")" "$(seen real "$name")" \
			"$name: users see the same where slurmstepd serves the $handed nodes"
	done
done
is "$(grep -c ': right' "$tmpdir/served/block.out")" 8 "8 ranks of MPICH on 4 served nodes add up"
is "$(grep -c ', 2 here: right' "$tmpdir/served/mixed-odd-block.out")" 8 "ranks of MPICH add up where two nodes are served"

# ---- access ----------------------------------------------------------------------------------
is "$(cat "$tmpdir/served/attacked.heard")" "stranger closed
stranger at the server's PermissionError
garbage closed
nothing closed
unknown closed
early end closed
foreign part closed
second server ConnectionRefusedError" "nobody gets an answer at a step's sockets of PMI-2"
is "$(cat "$tmpdir/served/attacked.status") $(grep -c ': right' "$tmpdir/served/attacked.out")" "0 2" \
	"a step goes on whatever came to its sockets of PMI-2"

# ---- the accounting --------------------------------------------------------------------------
# Of nine nodes, the steps whose tasks have written 45 MB.
records() { # CLUSTER
	grep 'nodes 0-8.*sum 45; cpu of nine' "$tmpdir/$1/records" | sed 's/^step [0-9]* //'
}
# A slurmstepd from 23.02 on has slurmctld's address from slurmd, so its reports are not seen here.
if [ -n "$slurm_root" ]; then
	wanted="nodes 0-8 read most 9 of node 0 task 0, least 1 of node 8 task 8, sum 45; \
written most 9 of node 8 task 8, least 1 of node 0 task 0, sum 45; cpu of nine"
	trees=2
else
	wanted=$(records real)
	trees=3
fi
is "$(records served | head -n 1)" "$wanted" "slurmctld gets the same accounting of a tree of nine served nodes"
is "$(records served | sort -u)" "$wanted" "slurmctld gets the same accounting where slurmstepd serves some nodes"
is "$(records served | wc -l)" $trees "each of these trees has one record"

# ---- the logs --------------------------------------------------------------------------------
log_lines >"$tmpdir/lines"
is "$(grep 'handed over' "$tmpdir/lines")" "" "no step is handed over"
diag "$(grep -v 'step served$\|handed over' "$tmpdir/lines")"

# ---- what is left ----------------------------------------------------------------------------
node=$(basename "$tmpdir"/served.*-2.log -2.log)
node=${node#served.}
is "$(ls "$run")" "" "the served steps have left nothing in the runtime directory"
is "$(ls -d "/run/stepd-slurmstepd/$node"-* 2>/dev/null)" "" "the served steps have left no socket"
done_testing
