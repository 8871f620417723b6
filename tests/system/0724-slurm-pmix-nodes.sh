#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# PMIx over the nodes of steps that stepd-slurmstepd serves, as Slurm's mpi/pmix has it: programs of Open MPI
# and clients of libpmix, with all nodes served and with Slurm's own slurmstepd on some of them; by connections
# between the nodes and by slurmd, fences by ring and by tree; aborts and deaths; mpi.conf. Two Slurms of four
# nodes each at the same time, and the same command lines in both; users must see the same.
# shellcheck source=tests/lib/local_slurm.sh
. "${top_srcdir:?}/tests/lib/local_slurm.sh"
# shellcheck source=tests/lib/mpi.sh
. "$top_srcdir/tests/lib/mpi.sh"

needs_slurm python3 setpriv srun
[ -x "${top_builddir:?}/tests/lib/pmixclient" ] || skip_all "built without mpi/pmix: configure found no libpmix"
[ -e "$(dirname "$(find "$slurm_root/usr/lib" "$slurm_root/usr/lib64" -name mpi_pmi2.so 2>/dev/null | head -n 1)")/mpi_pmix.so" ] ||
	skip_all "this Slurm has no mpi/pmix"
build_ompi "$top_srcdir/tests/lib/mpi_sum.c" "$tmpdir/mpi_sum"
[ -z "$slurm_root" ] || bring_ompi "$tmpdir/mpi_sum"
cp "$top_builddir/tests/lib/pmixclient" "$tmpdir/pmixclient"
serve srun
chmod 755 "$tmpdir" # another user's program is below it
DIR=$tmpdir
# Open MPI's way between ranks of one machine, which have several node names here.
OMPI_MCA_btl=self,tcp OMPI_MCA_pml=ob1 OMPI_MCA_btl_tcp_if_include=lo
export DIR OMPI_MCA_btl OMPI_MCA_pml OMPI_MCA_btl_tcp_if_include

# In slurmstepd's place: the program, but on the nodes that $DIR/handed names.
cat >"$tmpdir/stepd" <<'S'
#!/bin/sh
case $BENCH_SLURM_NODE in
*[13]) number=odd ;;
*) number=even ;;
esac
[ "$(cat "${SLURM_CONF%/*}/name")" = served ] || exec slurmstepd
[ "$(cat "$DIR/handed" 2>/dev/null)" != $number ] || exec slurmstepd
exec "$PROGRAM"
S
chmod 755 "$tmpdir/stepd"

# One command after the other, each within its time.
cat >>"$tmpdir/functions" <<'S'
limit='timeout -k 5 60'
after() { # NAME COMMAND...
	line "$@"
	wait $!
}
S

# Who connects to a step's sockets of PMIx, SLURM'S OURS PORT: another user, the step's own with what is no
# message, and at the port, which is whoever can reach it.
cat >"$tmpdir/strangers" <<'S'
import os, socket, struct, sys

def connect(name, s, where, data):
    s.settimeout(60)
    try:
        s.connect(where)
        s.sendall(data)
        s.shutdown(socket.SHUT_WR)
        print(name, "closed" if s.recv(1) == b"" else "answered", flush=True)
    except (ConnectionRefusedError, PermissionError, TimeoutError) as e:
        print(name, type(e).__name__, flush=True)
    except OSError: # whichever call finds first that it has been reset
        print(name, "closed", flush=True)

def local(name, path, data):
    connect(name, socket.socket(socket.AF_UNIX), path, data)

def remote(name, data):
    connect(name, socket.socket(), ("127.0.0.1", int(sys.argv[3])), data)

def head(type, body, node=1):
    return struct.pack(">IIIIIB", 0xcafeca11, type, 0, node, len(body), 0) + body

def relayed(data):
    return struct.pack(">II", 0, len(data)) + data

if os.fork() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
    local("stranger", sys.argv[1], relayed(head(3, b"")))
    local("stranger at the server's", sys.argv[2], b"x")
    os._exit(0)
os.wait()
local("garbage", sys.argv[1], b"x" * 100000)
local("too large", sys.argv[1], relayed(struct.pack(">IIIIIB", 0xcafeca11, 3, 0, 1, 1 << 31, 0)))
local("nothing", sys.argv[1], b"")
local("nobody's node", sys.argv[1], relayed(head(3, b"", 77)))
local("no request", sys.argv[1], relayed(head(3, b"\1")))
local("second server", sys.argv[2], b"x")
remote("garbage at the port", b"x" * 100000)
remote("without a credential", head(4, struct.pack(">IH", 2, 1)))
remote("with a bad credential",
    struct.pack(">IIIIIB", 0xcafeca11, 4, 0, 1, 21, 1) + struct.pack(">I", 2) + b"\1\1" +
    struct.pack(">II", 101, 7) + b"MUNGE:\0")
S

# ---- the command lines -----------------------------------------------------------------------
# With a prefix of their names.
cat >"$tmpdir/mpi_lines" <<'S'
nodes=${SLURM_JOB_NODELIST%%[*}
four="-N4 -w $nodes[1-4]"
srun='srun -Q --overlap --mpi=pmix'
after "$1four" $srun $four -n4 "$DIR/mpi_sum"
after "$1cyclic" $srun $four -n8 -m cyclic "$DIR/mpi_sum"
after "$1collect" $srun $four -n8 -K "$DIR/pmixclient" modex collect
after "$1direct" $srun $four -n8 -K "$DIR/pmixclient" modex direct
after "$1none" $srun $four -n4 -K "$DIR/pmixclient" modex none
after "$1fences" $srun $four -n8 -K "$DIR/pmixclient" fences 40
after "$1tree" env SLURM_PMIX_FENCE=tree $srun $four -n4 -K "$DIR/pmixclient" modex collect
after "$1slurmd" env SLURM_PMIX_DIRECT_CONN=false $srun $four -n4 -K "$DIR/pmixclient" modex collect
after "$1same-arch" env SLURM_PMIX_SAMEARCH=true $srun $four -n4 "$DIR/mpi_sum"
after "$1abort" $srun $four -n8 "$DIR/pmixclient" abort 9
after "$1abort-0" $srun $four -n8 "$DIR/pmixclient" abort 0
S

# While a served step runs whose ranks have not come to their first fence.
cat >"$tmpdir/attacked" <<'S'
. "$1/functions"
srun -Q --overlap --mpi=pmix -N2 -n2 -w "${SLURM_JOB_NODELIST%%[*}[1-2]" sh -c 'echo $SLURM_STEP_ID $SLURM_NODEID; until [ -e attacked.go ]; do sleep 0.1; done; exec "$DIR/mpi_sum"' \
	>attacked.out 2>attacked.err </dev/null &
until_true has_lines attacked.out 2
step=$(head -n 1 attacked.out | cut -d ' ' -f 1)
fifos=/run/stepd-slurmstepd/${SLURM_JOB_NODELIST%%[*}1_$SLURM_JOB_ID.$step
# The program's only port.
for pid in $(pgrep -x stepd-slurmstep); do
	tr '\0' '\n' <"/proc/$pid/environ" | grep -qx "BENCH_SLURM_NODE=${SLURM_JOB_NODELIST%%[*}1" || continue
	port=$(python3 - "$pid" <<'P'
import os, sys
pid = sys.argv[1]
inodes = set()
for fd in os.listdir("/proc/%s/fd" % pid):
    try:
        link = os.readlink("/proc/%s/fd/%s" % (pid, fd))
    except OSError:
        continue
    if link.startswith("socket:["):
        inodes.add(link[8:-1])
for line in open("/proc/net/tcp").readlines()[1:]:
    f = line.split()
    if f[3] == "0A" and f[9] in inodes and f[1].startswith("00000000:"):
        print(int(f[1].split(":")[1], 16))
P
)
	[ -z "$port" ] || break
done
echo "$port" >attacked.port
python3 "$DIR/strangers" "$(dirname "$SLURM_CONF")"/spool/*-1/stepd.slurm.pmix."$SLURM_JOB_ID.$step" \
	"$fifos/pmix" "$port" >attacked.heard 2>&1
: >attacked.go
wait $!
echo $? >attacked.status
S

cat >"$tmpdir/inside" <<'S'
mkdir "$1/$2"
cd "$1/$2"
echo "$2" >"${SLURM_CONF%/*}/name"
for node in $(scontrol show hostnames "$(sinfo -h -o %N)"); do
	mkdir -m 1777 "$1/$2.tmp.$node"
done
salloc -Q -N 4 -n 32 sh -c '. "$1/functions"; dir=$1 which=$2
	set -- ""; . "$dir/mpi_lines"
	after no-mpi $srun $four -n4 sh -c "echo \$SLURM_PROCID \$PMIX_RANK \$OMPI_MCA_orte_precondition_transports"
	after own-key env OMPI_MCA_orte_precondition_transports=mine $srun $four -n4 printenv OMPI_MCA_orte_precondition_transports
	after one-node $srun -N1 -n2 sh -c "echo \$OMPI_MCA_orte_precondition_transports"
	if [ "$which" = served ]; then
		after killed env SLURM_PMIX_TIMEOUT=20 $srun $four -n4 "$DIR/pmixclient" deathfence
		after mpi-abort $srun $four -n8 "$DIR/mpi_sum" 9
		after apart $srun -N2 -n4 -w "$nodes[3-4]" "$DIR/mpi_sum"
		for handed in odd even; do
			echo $handed >"$dir/handed"
			set -- "mixed-$handed-"; . "$dir/mpi_lines"
		done
		rm "$dir/handed"
		sh "$dir/attacked" "$dir"
		printf "PMIxEnv=SITE_HAS=this;UCX_TLS=self\nPMIxCliTmpDirBase=%s/scratch\n" "$DIR" >"${SLURM_CONF%/*}/mpi.conf"
		mkdir "$DIR/scratch"
		after settings env SITE_HAS=that $srun $four -n4 sh -c "echo \$SITE_HAS \$UCX_TLS; exec $DIR/pmixclient get pmix.tmpdir"
		printf "PMIxDirectConnUCX=yes\n" >"${SLURM_CONF%/*}/mpi.conf"
		after ucx $srun $four -n4 true
		rm "${SLURM_CONF%/*}/mpi.conf"
	fi' sh "$1" "$2" >salloc 2>&1
# slurmd connects to the nodes' sockets as root, whoever the user is.
. "$1/functions"
after user setpriv --reuid=65534 --regid=65534 --clear-groups salloc -Q -N 4 -n 4 \
	srun -Q --mpi=pmix -n4 sh -c 'id -u; exec "$DIR/mpi_sum"'
until_true no_step # it reports its end there
echo >over
S

BENCH_SLURM_NODES=4
BENCH_SLURM_CPUS=8
BENCH_SLURM_STEPD=$tmpdir/stepd
# Step daemons from 24.05 on listen in it.
range=
[ "$STEPD_TEST_PROTOCOL" -lt 10496 ] || range=SrunPortRange=31000-32700
# Trees have levels. Slurm's nodes on one machine need a directory each.
BENCH_SLURM_LINES="$slurmd_log
$range
SlurmctldLogFile=$tmpdir/@NAME@.ctld
TreeWidth=2
TmpFS=$tmpdir/@NAME@.tmp.%n
FirstJobId=$first_job
KillWait=2"
export BENCH_SLURM_NODES BENCH_SLURM_CPUS BENCH_SLURM_STEPD BENCH_SLURM_LINES
port=$(slurm_port 10)
in_slurm served "$port" &
in_slurm real $((port + 5))
wait
for name in served real; do
	[ -s "$tmpdir/$name/over" ] || skip_all "no Slurm came up: $(tail -n 1 "$tmpdir/$name.slurm")"
done

# ---- the comparison --------------------------------------------------------------------------
seen() { # CLUSTER NAME: what users see of it; lines of tasks have no order
	for part in out err rc; do
		alike "$tmpdir/$1/$2.$part" | sed -E 's/\r+$//; /\*\*\* STEP ID ON NODE-[0-9] CANCELLED/d
			/[Aa]bort/d; /^-*$/d; /slurmstepd: error:/d; s/task [0-9]: (Killed|Exited)/task N: ended/' | sort
	done
}
for rc in "$tmpdir"/real/*.rc; do
	name=$(basename "$rc" .rc)
	is "$(seen served "$name")" "$(seen real "$name")" "$name: users see the same of a served step"
done
for name in four cyclic collect direct none fences tree slurmd same-arch abort abort-0; do
	for handed in odd even; do
		is "$(seen served "mixed-$handed-$name")" "$(seen real "$name")" \
			"$name: users see the same where slurmstepd serves the $handed nodes"
	done
done
is "$(grep -c ', 2 here: right' "$tmpdir/served/cyclic.out")" 8 "8 ranks of Open MPI on 4 served nodes add up"
is "$(grep -c ', 2 here: right' "$tmpdir/served/mixed-odd-cyclic.out")" 8 "ranks of Open MPI add up where two nodes are served"
is "$(cat "$tmpdir/served/mpi-abort.rc") $(cat "$tmpdir/served/mixed-even-abort.rc")" "9 9" "srun has the status of an abort"
is "$(grep -c ', 2 here: right' "$tmpdir/served/apart.out")" 4 "the last nodes of a job have a step of their own"
is "$(cat "$tmpdir/served/killed.rc") $(grep -c failed "$tmpdir/served/killed.out")" "137 3" \
	"a fence with a rank that has died fails in the time of PMIxTimeout"
diag "$(cat "$tmpdir"/served/*.err | sort | uniq -c | sort -rn | head -n 20)"

# ---- mpi.conf --------------------------------------------------------------------------------
is "$(sort "$tmpdir/served/settings.out" | sed "s,$DIR/scratch/.*,SCRATCH," | uniq -c | tr -s ' ')" " 4 this self
 1 value 0: pmix.tmpdir=SCRATCH
 1 value 1: pmix.tmpdir=SCRATCH
 1 value 2: pmix.tmpdir=SCRATCH
 1 value 3: pmix.tmpdir=SCRATCH" "tasks have the variables and the directory of mpi.conf"

# ---- access ----------------------------------------------------------------------------------
is "$(cat "$tmpdir/served/attacked.heard")" "stranger closed
stranger at the server's PermissionError
garbage closed
too large closed
nothing closed
nobody's node closed
no request closed
second server ConnectionRefusedError
garbage at the port closed
without a credential closed
with a bad credential closed" "nobody gets an answer at a step's sockets of PMIx"
if [ -n "$range" ]; then
	like "$(cat "$tmpdir/served/attacked.port")" "^3(1[0-9]{3}|2[0-6][0-9]{2}|2700)$" "a step listens at a port of SrunPortRange"
fi
is "$(cat "$tmpdir/served/attacked.status") $(grep -c ': right' "$tmpdir/served/attacked.out")" "0 2" \
	"a step goes on whatever came to its sockets of PMIx"

# ---- the logs --------------------------------------------------------------------------------
log_lines >"$tmpdir/lines"
is "$(grep 'handed over' "$tmpdir/lines" | sed -E 's/.*handed over to [^:]*: //' | sort | uniq -c | tr -s ' ')" \
	" 4 its nodes connect to each other by UCX (PMIxDirectConnUCX)" "only the step with UCX is handed over"
diag "$(grep -v 'step served$\|handed over' "$tmpdir/lines")"

# ---- what is left ----------------------------------------------------------------------------
node=$(basename "$tmpdir"/served.*-2.log -2.log)
node=${node#served.}
is "$(ls "$run")" "" "the served steps have left nothing in the runtime directory"
is "$(ls -d "/run/stepd-slurmstepd/$node"-* 2>/dev/null)" "" "the served steps have left no socket"
is "$(ls "$DIR/scratch")" "" "the served steps have left nothing in the site's directory"
done_testing
