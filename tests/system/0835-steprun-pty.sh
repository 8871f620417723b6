#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Ranks with a pseudo-terminal in steps of steprun, on any node: keys, the size, job control and full
# screens as at "stepd run --pty" (0482), the user's terminal as it was whatever comes, and pipes in its
# place (0483).
# shellcheck disable=SC2016,SC2086,SC2317 # for the tasks; words; called by name
# shellcheck source=tests/lib/steprun.sh
. "${top_srcdir:?}/tests/lib/steprun.sh"
# shellcheck source=tests/lib/terminal.sh
. "$top_srcdir/tests/lib/terminal.sh"

in_step="$steprun -q --job $job --proctrack $tracker"

# ---- here and on another node --------------------------------------------------------------------
for where in '-n 1 --pty' '-N 2 -n 2 --pty=1'; do
	rank=${where#*=}
	[ "$rank" != "$where" ] || rank=0
	here="[ \$SLURM_PROCID = $rank ] || exit 0;"
	is "$(talk 'see /dev/pts/' 'see all three' 'see 24 80' 'see leads' 'see foreground' 'see shell: modes kept' \
		'see shell: status 0' -- $in_step $where -- sh -c "$here"'
		tty
		[ -t 0 ] && [ -t 1 ] && [ -t 2 ] && echo all three
		stty size
		[ "$(ps -o sid= -p $$ | tr -d " ")" = $$ ] && echo leads
		[ "$(ps -o tpgid= -p $$ | tr -d " ")" = $$ ] && echo foreground')" ok \
		"$where: the rank leads a session with a terminal of the size of steprun's"
	is "$(talk 'see up' is-raw 'type hello\n' 'see got hello' 'type \x04' 'see shell: modes kept' 'see shell: status 0' -- \
		$in_step $where -- sh -c "$here"'echo up; read x; echo "got $x"; cat')" ok \
		"$where: typed input reaches the program, and ^D ends it"
	is "$(talk 'see up' is-raw 'type \x03' 'see interrupted' 'see shell: modes kept' 'see shell: status 3' -- \
		$in_step $where -- sh -c "$here"'trap "echo interrupted; exit 3" INT; sh -c "echo up; exec sleep 300"')" ok \
		"$where: ^C interrupts the program, and not the step"
	is "$(talk 'see up' is-raw 'type \x1a' 'see ^Z' 'type \x1c' 'see shell: status 131' -- \
		$in_step $where -- sh -c "$here"'trap "" TSTP; echo up; exec sleep 300')" ok \
		"$where: ^Z and ^\\ are for the program"
done
cat >"$tmpdir/sizes.py" <<'P'
import os, signal, sys
if os.environ["SLURM_PROCID"] != "1":
    sys.exit()
signal.signal(signal.SIGWINCH, lambda *_: os.write(1, b"now %d %d\n" % os.get_terminal_size()))
os.write(1, b"up\n")
sys.stdin.readline()
P
is "$(talk 'see up' raw 'size 50 132' 'see now 132 50' 'size 10 20' 'see now 20 10' 'type \n' 'see shell: status 0' -- \
	$in_step -N 2 -n 2 --pty=1 -- python3 "$tmpdir/sizes.py")" ok \
	"the size follows that of steprun's terminal, and a program on another node is told"
# What two nodes write comes in any order.
is "$(talk "run until test -e '$tmpdir/up.0' -a -e '$tmpdir/up.2'; do sleep 0.02; done" raw 'type a line\n' 'see <a line>' \
	'see <a line>' 'see shell: modes kept' 'see shell: status 0' -- $in_step -N 3 -n 3 --pty=0,2 -- sh -c '
		[ $SLURM_PROCID != 1 ] || exit 0
		: >"$0.$SLURM_PROCID"; read x; echo "<$x>"' "$tmpdir/up")" ok \
	"ranks of several nodes read the same keys"
is "$(talk 'see up' raw 'type on\n' 'see got on' 'see shell: status 0' -- \
	$in_step -N 2 -n 2 --pty=0-1 --input 1 -- sh -c '[ $SLURM_PROCID = 1 ] || exec cat
		echo up; read x; echo "got $x"')" ok "the rank of --input alone reads what is typed"

# ---- lines of others -----------------------------------------------------------------------------
is "$(talk 'see up' raw 'type \n' 'see one\r\ntwo\r\n' "run touch '$tmpdir/go.2'" \
	'see three\r\n' 'type \n' 'see shell: status 0' -- \
	$in_step -N 2 -n 3 --pty=0 -- sh -c '
		case $SLURM_PROCID in
		0) echo up; read x; : >"$0/go.1"; read x ;;
		1) while [ ! -e "$0/go.1" ]; do sleep 0.02; done; printf "one\ntwo\n" ;;
		2) while [ ! -e "$0/go.2" ]; do sleep 0.02; done; printf "three\n" ;;
		esac' "$tmpdir")" ok "lines of other ranks of this and of other nodes begin at the left of a terminal that is raw"
is "$(talk raw 'run touch '"$tmpdir/leave" cooked 'type \x03' 'see running: tasks' 'type \x1c' 'see shell: modes kept' \
	'see shell: status 131' -- $in_step -N 2 -n 2 --pty=1 -- sh -c '[ $SLURM_PROCID = 1 ] || exec sleep 300
		while [ ! -e "$0" ]; do sleep 0.02; done' "$tmpdir/leave")" ok \
	"the terminal is as before once no program reads it, and ^C is steprun's again"

# ---- ends ----------------------------------------------------------------------------------------
waits='echo up; exec sleep 300'
is "$(talk 'see up' raw 'run kill -TERM $job_pid' 'see shell: modes kept' 'see shell: status 143' -- \
	$in_step -N 2 -n 2 --pty=1 -- sh -c "$waits")" ok "SIGTERM leaves the terminal as it was"
is "$(talk 'see up' raw 'run kill -HUP $job_pid' 'see shell: modes kept' 'see shell: status 129' -- \
	$in_step -N 2 -n 2 --pty=1 -- sh -c "$waits")" ok "SIGHUP leaves the terminal as it was"
is "$(talk 'see execute' 'see shell: modes kept' 'see shell: status 127' -- $in_step -N 2 -n 2 --pty=1 -- "$tmpdir/none")" ok \
	"a step that can't be started leaves the terminal as it was"
is "$(talk 'see time limit' 'see shell: modes kept' 'see shell: status 124' -- \
	$in_step -N 2 -n 2 --pty=1 --time-limit 1s -- sleep 300)" ok "a time limit leaves the terminal as it was"
is "$(talk 'see up' raw 'run kill -KILL $(cat /proc/$job_pid/task/$job_pid/children | cut -d" " -f2)' 'see is lost' \
	'see shell: modes kept' 'see shell: status 125' -- $in_step -N 2 -n 2 --pty=1 -- sh -c '[ $SLURM_PROCID = 0 ] || echo up
		exec sleep 300')" ok "a relay that is killed leaves the terminal as it was"
is "$(talk 'see up' raw 'run kill -KILL $(pgrep -P $(cat /proc/$job_pid/task/$job_pid/children | cut -d" " -f2))' \
	'see shell: modes kept' 'see shell: status 125' -- $in_step -N 2 -n 2 --pty=1 -- sh -c '[ $SLURM_PROCID = 0 ] || echo up
		exec sleep 300')" ok "an agent that is killed leaves the terminal as it was"

# ---- stops ---------------------------------------------------------------------------------------
reads='[ $SLURM_PROCID = 1 ] || exit 0; echo up; read x; echo "got $x"'
is "$(talk 'see up' raw "run '$stepctl' suspend $job.0" cooked "run '$stepctl' resume $job.0" raw \
	'type on\n' 'see got on' 'see shell: modes kept' 'see shell: status 0' -- $in_step -n 1 --pty -- sh -c \
	'echo up; read x; echo "got $x"')" ok "a suspended step leaves the terminal, and takes it again when it is resumed"
is "$(talk 'see up' raw 'run kill -TSTP $job_pid' 'see shell: stopped' fg raw 'type on\n' 'see got on' \
	'see shell: modes kept' 'see shell: status 0' -- $in_step -N 2 -n 2 --pty=1 -- sh -c "$reads")" ok \
	"steprun that is stopped leaves the terminal, and fg takes it again"
is "$(talk 'see up' raw 'run kill -STOP $job_pid' 'see shell: stopped' fg raw 'type on\n' 'see got on' \
	'see shell: modes kept' 'see shell: status 0' -- $in_step -N 2 -n 2 --pty=1 -- sh -c "$reads")" ok \
	"steprun that SIGSTOP has stopped takes the terminal again"

# ---- an upgrade ----------------------------------------------------------------------------------
agent_pid='$(pgrep -P $(awk "{ print \$NF }" /proc/$job_pid/task/$job_pid/children))'
is "$(talk 'see up' raw 'type one\n' 'see got one' "run kill -USR2 $agent_pid" 'see continues as version' 'type two\n' \
	'see got two' 'size 30 90' 'type three\n' 'see got three' 'see 30 90' 'type \x04' 'see end' 'see shell: modes kept' \
	'see shell: status 0' -- $steprun --job $job --proctrack $tracker -N 2 -n 2 --pty=1 -- sh -c \
	'[ $SLURM_PROCID = 1 ] || exit 0; echo up; while read x; do echo "got $x"
		[ "$x" != three ] || until [ "$(stty size)" = "30 90" ]; do sleep 0.02; done
		stty size; done; echo end')" ok "a session on another node goes on over an upgrade of its agent"

# ---- without a terminal --------------------------------------------------------------------------
plain() {
	tr -d '\r'
}
for n in 1 2; do
	last=$((n - 1))
	only="[ \$SLURM_PROCID = $last ] || exit 0;"
	pty() {
		srun_here -q -N $n -n $n --pty=$last "$@" 2>&1
	}
	is "$(printf 'one\ntwo' | pty -- sh -c "$only wc -c" | plain)" 7 "$n: the end of steprun's input is the program's"
	is "$(pty -- sh -c "$only cat" </dev/null)" "" "$n: a program at a pseudo-terminal without input reads its end"
	is "$(pty -- sh -c "$only exec head -c 40000 /dev/zero" | tr '\0' x | wc -c)" 40000 "$n: a program's last bytes are not lost"
done
head -c 16000000 /dev/urandom >"$tmpdir/bytes"
is "$(pty -- sh -c "$only"'stty raw; exec cat "$0"' "$tmpdir/bytes" | sha256sum)" "$(sha256sum <"$tmpdir/bytes")" \
	"16 MB through a pseudo-terminal of another node that is raw are exact"
like "$(srun_here -N 2 -n 2 --pty=2 -- true 2>&1)" '^steprun: --pty: .* above 1' "a pseudo-terminal of a rank that does not exist is refused"

# ---- a full-screen program -----------------------------------------------------------------------
if screen_here; then
	printf '%s\n' '[ $SLURM_PROCID = 1 ] || exit 0' "exec $vim_plain \"\$1\"" >"$tmpdir/edit"
	screen_begin "TERM=screen $in_step -N 2 -n 2 --pty=1 -- sh '$tmpdir/edit' '$tmpdir/text'; echo \"status \$?\"; sleep 300"
	vim_types hello
	vim_follows "vim on the second node follows the size of its window"
	screen_type ':wq' Enter
	ok "vim on the second node ends" eventually screen_shows 'status 0'
	is "$(cat "$tmpdir/text" 2>&1)" hello "vim on the second node writes what is typed"
	screen_end
else
	skip 3 "needs tmux and vim"
fi

nothing_left_soon "the job leaves no cgroup, process or file behind"
done_testing
