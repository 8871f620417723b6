#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Steps with terminals, unbuffered output and several programs that stepd-slurmstepd serves, beside those of
# Slurm's own slurmstepd: two Slurms at the same time, the same command lines in both; what users see must be the
# same, but for pids, ports and times.
# shellcheck source=tests/lib/local_slurm.sh
. "${top_srcdir:?}/tests/lib/local_slurm.sh"

needs_slurm python3 sattach scancel squeue srun stty
[ -n "$slurm_root" ] || needs_slurm tmux
serve "srun, interactive"

# Runs a command at a terminal of 30 lines and 90 columns; what it shows there goes to standard output.
cat >"$tmpdir/at-terminal" <<'P'
import fcntl, os, pty, struct, sys, termios
pid, fd = pty.fork()
if pid == 0:
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 90, 0, 0))
    os.execvp(sys.argv[1], sys.argv[1:])
while True:
    try:
        piece = os.read(fd, 65536)
    except OSError:
        break
    if not piece:
        break
    os.write(1, piece)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
P

cat >>"$tmpdir/functions" <<'S'
pty() { # NAME COMMAND...
	name=$1
	shift
	line "$name" python3 "$dir/at-terminal" "$@"
}
talk() { # NAME STEP... -- COMMAND...
	name=$1
	shift
	{ timeout 100 python3 "$top_srcdir/tests/lib/talk.py" "$@" >"$name.out" 2>"$name.err"; echo $? >"$name.rc"; } &
}
S

# ---- the command lines -----------------------------------------------------------------------
cat >"$tmpdir/commands" <<'S'
dir=$1
export dir
. "$dir/functions"
S='srun -Q --overlap'
# --pty
pty tty $S -n 1 --pty sh -c 'tty | sed "s/[0-9][0-9]*//"; test -t 0 && test -t 1 && test -t 2 && echo all; stty size; ps -o tpgid= -p $$ | tr -d " \n" | sed "s/^$$\$/foreground/"'
pty modes $S -n 1 --pty stty -a
pty owner $S -n 1 --pty sh -c 'stat -Lc "%U %G %a" /dev/stdin'
pty status $S -n 1 --pty sh -c 'echo out; echo err >&2; exit 7'
pty killed $S -n 1 --pty sh -c 'kill -9 $$'
pty nothing $S -n 1 --pty nonexistent
pty nowhere $S -n 1 --pty -D /nowhere pwd
pty others $S -n 3 --pty sh -c 'for fd in 0 1 2; do readlink /proc/$$/fd/$fd; done | sed "s,pts/.*,pts," >streams.$SLURM_PROCID; echo $SLURM_PROCID'
shell much 'python3 "$dir/at-terminal" srun -Q --overlap -n 1 --pty seq 30000 | tr -d "\r" | md5sum'
pty hangup $S -n 1 --pty sh -c 'trap "echo hup >hangup.file" HUP; (trap "" HUP; exec sleep 300) & echo left'
shell no-tty 'printf "echo hi\nexit 3\n" | srun -Q --overlap -n 1 --pty sh 2>&1 | grep -v "^\\$" | sort'
shell pty-file 'srun -Q --overlap -n 1 --pty -o never echo x; ls never'
# srun of 26.05 makes its terminal raw once the step is connected, beside what it shows: a ^D before that is the end
# of its own input, and its task waits for good.
first=''
[ "${STEPD_TEST_SLURM-}" != sid ] || first=raw
talk cat $first 'type hello\n' 'see hello' 'see hello' 'type \x04' 'see shell: modes kept' 'see shell: status 0' -- $S -n 1 --pty cat
# A task of slurmstepd's of 26.05.5 is not interrupted by ^C here.
if [ "${STEPD_TEST_SLURM-}" != sid ] || [ "$(basename "$PWD")" = served ]; then
	talk interrupt 'see up' raw 'type \x03' 'see int' 'see shell: status 130' -- $S -n 1 --pty sh -c 'trap "echo int; exit 130" INT; echo up; while :; do sleep 0.1; done'
fi
talk size 'see up' 'size 41 101' 'see now 101 41' 'size 20 60' 'see now 60 20' 'type end\n' 'see got end' 'see shell: modes kept' 'see shell: status 0' -- $S -n 1 --pty python3 "$dir/sizes"
talk jobs 'see \x24 ' raw 'type sh -c "echo u""p; exec sleep 300"\n' 'see up' 'type \x1a' 'see topped' 'type kill %1; fg\n' 'see erminated' 'type exit 4\n' 'see shell: modes kept' 'see shell: status 4' -- env PS1='$ ' $S -n 1 --pty bash --norc --noediting
# -u
line u $S -n 2 -u -l sh -c 'test -t 1 && echo "out tty"; test -t 2 || echo "err none" >&2; test -t 0 || echo "in none"'
line u-half $S -n 1 -u printf half
line u-lines $S -n 1 -u sh -c 'printf "a\nb\n\tc\r\n"; head -c 5000 /dev/zero | tr "\0" x'
shell u-much 'srun -Q --overlap -n 1 -u seq 40000 | md5sum; seq 40000 | md5sum'
shell u-binary 'head -c 300000 "$(command -v slurmd)" | srun -Q --overlap -n 1 -u cat | md5sum; head -c 300000 "$(command -v slurmd)" | md5sum'
shell u-input 'echo line | srun -Q --overlap -n 3 -u -l cat'
line u-file $S -n 1 -u -o u.file sh -c 'test -t 1 || echo "a file"'
line u-missing $S -n 2 -u nonexistent
talk u-prompt 'see half' 'type on\n' 'see got on' 'see shell: status 0' -- $S -n 1 -u sh -c 'printf half; read x; echo "got $x"'
# --multi-prog
cat >list <<'E'
# a comment
0 echo first
1,3-4 echo task:%t offset:%o 'a  b' '%t' %t%o

2 sh -c 'echo two $0 $1' %t
*	echo rest %t:%o
E
printf '0 echo a\n2 echo b\n' >list-hole
printf '0-1 echo a\n2 nonexistent\n' >list-missing
printf "0 sh -c 'exit 3'\n1 sh -c 'exit 5'\n" >list-status
printf "0 sh -c 'kill -9 \$\$'\n1 true\n" >list-killed
printf '0-1 echo\n' >list-more
printf '0 echo "a b"\n1 printf %%s|\n' >list-quotes
printf '0 echo one \\\n  two\n1 echo three\n' >list-joined
printf '0-5 echo x\n' >list-wide
printf 'x echo x\n' >list-bad
printf '0\n' >list-none
line mp $S -n 7 -l --multi-prog list
line mp-hole $S -n 3 -l --multi-prog list-hole
line mp-missing $S -n 3 -l --multi-prog list-missing
line mp-status $S -n 2 -l --multi-prog list-status
line mp-killed $S -n 2 -l --multi-prog list-killed
line mp-more $S -n 2 -l --multi-prog list-more 'a b' c
line mp-quotes $S -n 2 -l --multi-prog list-quotes x y
line mp-joined $S -n 2 -l --multi-prog list-joined
line mp-wide $S -n 2 -l --multi-prog list-wide
line mp-bad $S -n 1 -l --multi-prog list-bad
line mp-none $S -n 1 -l --multi-prog list-none
line mp-file $S -n 7 -o mp.%t --multi-prog list
# sattach: to a step that has written something, and that ends by what is typed there
attach() { # NAME TASK SATTACH-OPTION...
	name=$1
	task=$2
	shift 2
	mkfifo "$name.srun-in" "$name.in"
	exec 3<>"$name.srun-in" 4<>"$name.in"
	$S -n 2 python3 "$dir/$task" <"$name.srun-in" >"$name.step" 2>>"$name.err" 3>&- 4>&- &
	step=$!
	until_true has_lines "$name.step" 4
	sattach "$@" "$SLURM_JOB_ID.$(sed -n 's/step //p' "$name.step" | head -n 1)" <"$name.in" >"$name.out" 2>>"$name.err" 3>&- 4>&- &
	attached=$!
}
end_attach() {
	wait $attached
	echo "sattach $?" >"$name.rc"
	wait $step
	echo "srun $?" >>"$name.rc"
	sed -E 's/^step [0-9]+/step/' "$name.step" >"$name.srun"
	sed -Ei 's/step [0-9]+/step/' "$name.out"
}
(
	attach sattach waiting -Q
	until_true has_lines sattach.out 4
	echo word >&4
	end_attach
) &
(
	attach sattach-label waiting -Q -l
	until_true has_lines sattach-label.out 4
	echo word >&3
	end_attach
) &
(
	attach sattach-filter waiting -Q --output-filter=1 --input-filter=0
	until_true has_lines sattach-filter.out 2
	echo one >&4
	until_true has_lines sattach-filter.step 5
	echo two >&3
	end_attach
) &
(
	attach sattach-killed waiting -Q
	until_true has_lines sattach-killed.out 4
	kill -9 $attached
	echo word >&3
	end_attach
) &
(
	attach sattach-user waiting -Q
	until_true has_lines sattach-user.out 4
	setpriv --reuid=65534 --regid=65534 --clear-groups sattach -Q "$SLURM_JOB_ID.$(sed -n 's/step //p' sattach-user.step | head -n 1)" </dev/null 3>&- 4>&- 2>&1 |
		sed -E 's/[0-9]+\.[0-9]+/ID/' >sattach-stranger.out
	: >sattach-stranger.err
	echo >sattach-stranger.rc
	echo word >&3
	end_attach
) &
if [ "$(basename "$PWD")" = served ]; then
	(
		attach sattach-stopped writing -Q
		until_true has_lines sattach-stopped.out 4
		kill -STOP $attached
		echo word >&3
		wait $step
		echo $? >sattach-stopped
		kill -KILL $attached
	) &
fi
wait
S

cat >"$tmpdir/waiting" <<'P'
import os, sys
print("step " + os.environ["SLURM_STEP_ID"], "early " + os.environ["SLURM_PROCID"], sep="\n", flush=True)
print("got " + sys.stdin.readline().strip(), flush=True)
sys.exit(3)
P
cat >"$tmpdir/writing" <<'P'
import os, sys
print("step " + os.environ["SLURM_STEP_ID"], "early " + os.environ["SLURM_PROCID"], sep="\n", flush=True)
sys.stdin.readline()
for i in range(50000):
    print("line %d of what nobody reads at the other end" % i)
P

cat >"$tmpdir/sizes" <<'P'
import os, signal, sys
signal.signal(signal.SIGWINCH, lambda *_: os.write(1, b"now %d %d\r\n" % os.get_terminal_size()))
os.write(1, b"up\n")
for line in sys.stdin:
    os.write(1, b"got " + line.encode())
    if line == "end\n":
        break
P

# salloc's shell on the node, a shell in tmux, and another user's terminal.
cat >"$tmpdir/inside" <<'S'
. "$1/functions"
dir=$1
mkdir "$dir/$2"
cd "$dir/$2"
salloc -Q -n 100 sh "$dir/commands" "$dir" >salloc 2>&1 &
SHELL=/bin/sh
export SHELL
talk interactive 'see # ' raw 'type env | sort >interactive.env; stty size; tty | sed s/[0-9]*$//\n' 'see 24 80' 'see /dev/pts/' \
	'size 33 77' 'type while [ "$(stty size)" != "33 77" ]; do sleep 0.1; done; echo u""p\n' 'see up' 'type srun -Q --overlap -n 2 -l echo step; exit 6\n' 'see 0: step' \
	'see shell: modes kept' 'see shell: status 6' -- salloc -Q -n 2
line user python3 "$dir/at-terminal" setpriv --reuid=65534 --regid=65534 --clear-groups srun -Q -n 1 -D / --pty \
	sh -c 'id; pwd; stat -Lc "%U %a" /dev/stdin'
screen() {
	tmux -S "$dir/$2.tmux" "$@"
}
shows() {
	tmux -S "$PWD.tmux" capture-pane -p | grep -q -e "$1"
}
command -v tmux >/dev/null && (
	tmux -S "$PWD.tmux" -f /dev/null new-session -d -x 80 -y 24 "srun -Q -n 1 --pty sh; echo status \$?; exec sleep 300"
	until_true shows '^#'
	tmux -S "$PWD.tmux" send-keys 'stty size' Enter
	until_true shows '^24 80'
	tmux -S "$PWD.tmux" resize-window -x 100 -y 30
	until_true sh -c "tmux -S '$PWD.tmux' send-keys 'stty size' Enter; sleep 0.1; tmux -S '$PWD.tmux' capture-pane -p | grep -q '^30 100'"
	tmux -S "$PWD.tmux" send-keys 'sleep 300' Enter C-c
	until_true shows '\^C'
	tmux -S "$PWD.tmux" send-keys 'exit 9' Enter
	until_true shows 'status 9'
	tmux -S "$PWD.tmux" capture-pane -p | grep -c '^status 9' >tmux.out
	: >tmux.err
	tmux -S "$PWD.tmux" kill-server
	echo $? >tmux.rc
) &
wait
until_true no_step
echo >over
S

BENCH_SLURM_LINES="CommunicationParameters=block_null_hash,block_zero_hash
FirstJobId=$first_job
LaunchParameters=use_interactive_step
SelectTypeParameters=CR_CPU
$slurmd_log"
export BENCH_SLURM_LINES
in_both

# ---- the comparison --------------------------------------------------------------------------
# An sattach shows the end of a task for as many times as slurmstepd tries to report it to it.
# How many carriage returns there are is srun's concern, who sets its terminal back at some moment.
seen() { # NAME: what users see of it
	for part in out err rc; do
		sed -E 's/\r//g; /^sattach: error: task [0-9]+ exited/d; / error: Failed to send MESSAGE_TASK_EXIT/d' "$1.$part" | alike | sort
	done
}
for rc in "$tmpdir"/real/*.rc; do
	name=$(basename "$rc" .rc)
	case $name in
	u-much | u-binary) # slurmstepd loses the end of it at times, and srun then reports an error
		is "$(sort -u "$tmpdir/served/$name.out" | wc -l) $(cat "$tmpdir/served/$name.err")" "1 " \
			"$name: all bytes of a served step arrive"
		;;
	*) is "$(seen "$tmpdir/served/$name")" "$(seen "$tmpdir/real/$name")" "$name: users see the same of a served step" ;;
	esac
done
for file in sattach.srun sattach-label.srun sattach-filter.srun sattach-killed.srun; do
	is "$(sort "$tmpdir/served/$file" 2>&1)" "$(sort "$tmpdir/real/$file" 2>&1)" "what srun shows is the same: $file"
done
for file in streams.0 streams.1 streams.2 u.file mp.0 mp.1 mp.5 hangup.file; do
	is "$(cat "$tmpdir/served/$file" 2>&1 | sed 's,/served/,/DIR/,')" \
		"$(cat "$tmpdir/real/$file" 2>&1 | sed 's,/real/,/DIR/,')" "the step's file $file is the same"
done
# slurmstepd of 26.05 has the numbers of the shell's step as negative ones.
variables() {
	sed -E '/^SLURM_TASK_PID=/d; /PORT=/d; /^BENCH_/d; /^SLURM_CONF=/d; /^SLURM_WORKING_CLUSTER=/d; /^OLDPWD=/d; /^TMPDIR=/d; /^SLURM_JOB_*ID=/d; /^SLURM_JOB_SLUID=/d; /^SLURM_STEP_?ID=/d; /^SLURM_JOB_[A-Z]*_TIME=/d' \
		"$tmpdir/$1/interactive.env" | alike
}
is "$(variables served)" "$(variables real)" "the shell of an salloc has the same environment"
for name in cat interrupt size jobs u-prompt interactive; do
	is "$(cat "$tmpdir/served/$name.out")" ok "$name: a served step does what its user types"
done

# ---- what only a served step has -------------------------------------------------------------
log_lines >"$tmpdir/lines"
count() {
	grep -Ec "$1" "$tmpdir/lines"
}
is "$(count 'interactive step served$')" 1 "the log has the shell of the salloc, which was served"
is "$(count 'handed over')" 3 "the log has the lists of programs that were handed over, and no other step"
is "$(cat "$tmpdir/served/sattach-stopped")" 0 "a step goes on and ends beside an sattach that was stopped"
is "$(ls "$run")" "" "the served steps have left nothing in the runtime directory"
done_testing
