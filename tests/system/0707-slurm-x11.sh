#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# X11 forwarding by extern steps that stepd-slurmstepd serves, beside those of Slurm's own slurmstepd: two Slurms of
# three nodes at the same time, with a real X server and real srun and salloc in between. Users must see the same.
# Then what only a served step has: strangers are refused, and nothing is left.
# shellcheck source=tests/lib/slurm_pair.sh
. "${top_srcdir:?}/tests/lib/slurm_pair.sh"

for program in Xvfb socat xauth; do
	command -v "$program" >/dev/null || skip_all "needs $program"
done
has_program xauth || skip_all "needs xauth"
echo 'slurm_serve = srun, batch, extern, interactive' >"$STEPD_CONFIG"
DIR=$tmpdir
PYTHONPATH=$(cd "$top_srcdir" && pwd)/tests/lib
PYTHONDONTWRITEBYTECODE=1
export DIR PYTHONPATH PYTHONDONTWRITEBYTECODE

# ---- the X server ------------------------------------------------------------------------------
# Nobody else finds it: programs of MPI look for the X servers of the machine (hwloc). One that is reset when its
# last client is gone loses those that come meanwhile.
cookie=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
mkdir "$tmpdir/tmp"
mkdir -m 1777 "$tmpdir/tmp/.X11-unix"
touch "$tmpdir/tmp/auth" "$tmpdir/user.auth"
xauth -q -f "$tmpdir/tmp/auth" add "$(hostname)/unix:0" MIT-MAGIC-COOKIE-1 "$cookie"
unshare --mount --net sh -c 'mount --bind "$1" /tmp && exec Xvfb :0 -noreset -nolisten tcp -auth /tmp/auth -screen 0 64x64x8' \
	sh "$tmpdir/tmp" >"$tmpdir/Xvfb.log" 2>&1 &
# shellcheck disable=SC2034 # at the end
server_pid=$!
at_exit 'end_child TERM $server_pid; wait $server_pid'
X_SOCKET=$tmpdir/tmp/.X11-unix/X0
comes test -S "$X_SOCKET" || bail "no X server came up: $(tail -n 1 "$tmpdir/Xvfb.log")"
xauth -q -f "$tmpdir/user.auth" add "$(hostname)/unix:0" MIT-MAGIC-COOKIE-1 "$cookie"
XAUTHORITY=$tmpdir/user.auth
cp "$tmpdir/user.auth" "$tmpdir/nobody.auth"
chown 65534 "$tmpdir/nobody.auth"
chmod 755 "$tmpdir" "$tmpdir/tmp"
export X_SOCKET XAUTHORITY

# How srun finds it: by its socket in a tree with a /tmp of its own, else by TCP, in the network of that Slurm.
cat >"$tmpdir/display" <<'S'
if [ -n "$(command -v socat)" ]; then
	socat TCP-LISTEN:6000,bind=127.0.0.1,fork,reuseaddr "UNIX-CONNECT:$X_SOCKET" &
	DISPLAY=localhost:0
else
	mkdir /tmp/.X11-unix
	ln -s "$X_SOCKET" /tmp/.X11-unix/X0
	DISPLAY=:0
fi
export DISPLAY
S

# ---- the command lines -------------------------------------------------------------------------
cat >"$tmpdir/lines" <<'S'
. "$1/functions"
limit='timeout -k 5 60'
. "$DIR/display"
x="python3 $PYTHONPATH/slurm_x11.py"
in_turn ask srun -Q --x11 -n 1 $x ask
in_turn screen env DISPLAY="$DISPLAY.0" srun -Q --x11 -n 1 $x ask
in_turn bulk srun -Q --x11 -n 2 -N 1 $x bulk 8
in_turn half srun -Q --x11 -n 1 $x half
in_turn wrong srun -Q --x11 -n 1 $x wrong
in_turn many srun -Q --x11 -n 1 $x many 60
in_turn all srun -Q --x11=all -N 3 -n 3 -l $x ask
has='case $DISPLAY in localhost:[2-9]?.0) echo $SLURM_NODEID has one ;; *:0) echo $SLURM_NODEID has none ;; *) echo $DISPLAY ;; esac'
in_turn first srun -Q --x11=first -N 3 -n 3 sh -c "$has"
in_turn last srun -Q --x11=last -N 3 -n 3 sh -c "$has"
in_turn without srun -Q -n 1 sh -c "$has"
in_turn allocation salloc -Q --x11 -N 2 -n 2 sh -c "srun -Q -l $x ask; srun -Q -N 1 -n 1 $x bulk 1; srun -Q sh -c 'exit 3'"
in_turn user setpriv --reuid=65534 --regid=65534 --clear-groups env XAUTHORITY="$DIR/nobody.auth" srun -Q -D / --x11 -n 1 $x ask
[ -z "$(command -v xdpyinfo)" ] ||
	in_turn xdpyinfo srun -Q --x11 -n 1 sh -c 'xdpyinfo | grep -E "vendor string|dimensions"'
in_turn step salloc -Q -n 1 srun -Q --x11 -n 1 sh -c "$has"




# A job that ends while a program is connected: the program is told so.
srun -Q -J held --x11 -n 1 $x hold "$PWD/held" >held.out 2>held.err </dev/null &
until_true test -e held
scancel -n held # the one before may be there still
wait $!
echo $? >held.rc
until_true idle
until_true no_step
ls -A "$DIR/$(basename "$PWD")-tmp" >left # slurmstepd may have left one
# What only a served step has.
if [ "${PWD##*/}" = lines-served ]; then
	srun -Q --x11 -n 1 sh -c 'echo "$DISPLAY" >stranger.display; until [ -e stranger.done ]; do sleep 0.1; done' &
	until_true test -s stranger.display
	port=$((6000 + $(sed 's/.*:\(.*\)\..*/\1/' stranger.display)))
	for uid in 65534 0; do
		setpriv --reuid=$uid --regid=$uid --clear-groups python3 - $port >stranger.$uid 2>&1 <<-'P'
			import socket, sys
			s = socket.create_connection(("127.0.0.1", int(sys.argv[1])), 20)
			try:
			    s.sendall(b"l\0\x0b\0\0\0\0\0\0\0\0\0")
			    print("answered" if s.recv(1) else "closed")
			except OSError:
			    print("closed")
		P
	done
	touch stranger.done
	wait $!
	until_true idle
	until_true no_step
fi
S

# A node whose TmpFS is not there: slurmstepd reports it.
cat >"$tmpdir/broken" <<'S'
. "$1/functions"
limit='timeout -k 5 60'
. "$DIR/display"
in_turn broken srun -Q --x11 -n 1 true
# slurmstepd has left it.
rm -f "$(dirname "$SLURM_CONF")"/spool/*/*_[0-9]*.[0-9]*
S

mkdir "$tmpdir/lines-served-tmp" "$tmpdir/lines-real-tmp"
chmod 1777 "$tmpdir"/lines-*-tmp
BENCH_SLURM_NODES=3
BENCH_SLURM_CPUS=4
BENCH_SLURM_LINES="$slurmd_log
FirstJobId=$first_job
PrologFlags=X11
TmpFS=$tmpdir/@NAME@-tmp
SchedulerParameters=bf_interval=1,batch_sched_delay=0,sched_min_interval=1"
export BENCH_SLURM_NODES BENCH_SLURM_CPUS BENCH_SLURM_LINES
both lines
BENCH_SLURM_NODES=1
both broken

# Which of the nodes it was depends on which are done with the job before, and whether srun reads from a connection or
# writes to it whose other side is just gone is chance. When a program's connection ends srun of 23.02 to 24.11 shuts
# down a descriptor that it has closed before: that of a message, if one has come between (half_duplex.c), which it
# can't answer then. That is rare.
unanswered='/msg_type=RESPONSE_SLURM_RC.*: Unexpected missing socket error$/'
if [ "$STEPD_TEST_PROTOCOL" -ge 9984 ] && [ "$STEPD_TEST_PROTOCOL" -le 10752 ]; then
	drop_unanswered=${unanswered}d
	ok "srun has answered all messages of served steps but one at most" \
		[ "$(cat "$tmpdir"/lines-served/*.err | sed -n "${unanswered}p" | wc -l)" -le 1 ]
fi
seen() { # SCRIPT KIND NAME
	for part in out err rc; do
		alike "$tmpdir/$1-$2/$3.$part" | sed -E 's/NODE-[0-9]/NODE/g; /_half_duplex: (wrote|read error) -1 o[fn]/d
			'"${drop_unanswered-}" | sort
	done
}
same lines
same broken
like "$(lines_of broken)" "extern step handed over to .*: make a file in '.*/broken-served-tmp': as uid 0: No such file" \
	"where the file can't be made the step is handed over"
for name in ask bulk many; do
	is "$(cat "$tmpdir/lines-real/$name.rc")" 0 "$name succeeds with Slurm's own slurmstepd"
done
is "$(grep -c ': The X.Org Foundation' "$tmpdir/lines-served/all.out")" 3 "tasks of each node talk to the X server"
like "$(cat "$tmpdir/lines-served/ask.out")" 'X.Org' "a task talks to the X server"
is "$(cat "$tmpdir/lines-served/left")" "" "no file with a cookie is left"
is "$(cat "$tmpdir/lines-served/stranger.65534")" closed "another user is refused at the display"
is "$(cat "$tmpdir/lines-served/stranger.0")" answered "root is served there"
lines=$(lines_of lines)
like "$lines" 'uid 65534 is refused at the X display of uid 0' "the log says that a stranger was refused"
unlike "$lines" 'handed over' "no step is handed over"
like "$lines" 'extern step served' "the extern steps are served"
is "$(ls "$run")" "" "the served steps have left nothing in the runtime directory"
done_testing
