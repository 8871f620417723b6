#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# A rank with a pseudo-terminal, and the agent at a terminal: what a program finds there, job control
# inside, the size, other ranks' lines, and that the terminal is as before whatever comes.
# shellcheck disable=SC2016,SC2086,SC2317 # for the tasks; words; called by name
. "${top_srcdir:?}/tests/lib/reexec.sh"
# shellcheck source=tests/lib/terminal.sh
. "$top_srcdir/tests/lib/terminal.sh"

in_step="$stepd run -q --job $job --proctrack $tracker --pty"

# ---- what a program finds there ------------------------------------------------------------------
is "$(talk 'see /dev/pts/' 'see all three' 'see 24 80' 'see leads' 'see foreground' 'see controls' \
	'see shell: modes kept' 'see shell: status 0' -- $in_step -- sh -c '
	tty
	[ -t 0 ] && [ -t 1 ] && [ -t 2 ] && echo all three
	stty size
	[ "$(ps -o sid= -p $$ | tr -d " ")" = $$ ] && echo leads
	[ "$(ps -o tpgid= -p $$ | tr -d " ")" = $$ ] && echo foreground
	[ "/dev/$(ps -o tty= -p $$)" = "$(tty)" ] && : </dev/tty && echo controls')" ok \
	"a rank with a pseudo-terminal leads its session, and has the size of the agent's terminal"

# ---- what is typed -------------------------------------------------------------------------------
is "$(talk 'see up' is-raw 'type hello\n' 'see got hello' 'type \x04' 'see shell: modes kept' \
	'see shell: status 0' -- $in_step -- sh -c 'echo up; read x; echo "got $x"; cat')" ok \
	"typed input reaches the program, and ^D ends it"
is "$(talk 'see up' 'type \x03' 'see interrupted' 'see shell: modes kept' 'see shell: status 3' -- \
	$in_step -- sh -c 'trap "echo interrupted; exit 3" INT; sh -c "echo up; exec sleep 300"')" ok \
	"^C interrupts the program's foreground group, and not the step"
is "$(talk 'see up' 'type \x1c' 'see shell: status 131' -- $in_step -- sh -c 'echo up; exec sleep 300')" ok \
	"^\\ ends the program by SIGQUIT"

# ---- job control inside --------------------------------------------------------------------------
# It reports that it has the terminal: what is typed before could reach the shell. A shell in its place
# would start processes, and could not stop while one of these stands between vfork and exec.
cat >"$tmpdir/job" <<'END'
import signal
signal.signal(signal.SIGCONT, lambda *_: print("resumed", flush=True))
signal.signal(signal.SIGINT, signal.SIG_DFL)
print("ready", flush=True)
while True:
    signal.pause()
END
is "$(PS1='$ ' talk "type python3 $tmpdir/job\\n" 'see ready' 'type \x1a' 'see Stopped' 'type jobs\n' 'see Stopped' \
	'type fg; echo "b""ack $?"\n' 'see resumed' 'type \x03' 'see ^C' 'type exit 5\n' 'see shell: modes kept' \
	'see shell: status 5' -- $in_step -- bash --norc --noprofile -i)" ok "an interactive shell stops and resumes its jobs"

# ---- the size ------------------------------------------------------------------------------------
cat >"$tmpdir/sizes.py" <<'P'
import os, signal, sys
signal.signal(signal.SIGWINCH, lambda *_: os.write(1, b"now %d %d\n" % os.get_terminal_size()))
os.write(1, b"up\n")
sys.stdin.readline()
P
is "$(talk 'see up' raw 'size 50 132' 'see now 132 50' 'size 10 20' 'see now 20 10' 'type \n' \
	'see shell: status 0' -- $in_step -- python3 "$tmpdir/sizes.py")" ok \
	"the size follows that of the agent's terminal, and the program is told"

# ---- other ranks at the same terminal --------------------------------------------------------------
is "$(talk 'see up' raw 'type \n' 'see one\r\ntwo\r\n' 'type \n' 'see shell: status 0' -- \
	$in_step -n 2 -- sh -c 'if [ $SLURM_PROCID = 0 ]; then echo up; read x; : >"$0/go"; read x
		else while [ ! -e "$0/go" ]; do sleep 0.02; done; printf "one\ntwo\n"; fi' "$tmpdir")" ok \
	"lines of other ranks begin at the left of a terminal that is raw"

is "$(talk 'see up' 'type \n' 'see got' 'see shell: modes kept' 'see shell: status 0' -- $in_step -n 3 -o 0 -e 0 -- sh -c '
		readlink /proc/$$/fd/1 /proc/$$/fd/2 | cat >"$0/streams.$SLURM_PROCID"
		[ $SLURM_PROCID != 0 ] || { echo up; read x; echo got; }' "$tmpdir")" ok \
	"the output of a rank with a pseudo-terminal can be the only one"
is "$(cat "$tmpdir/streams.1" "$tmpdir/streams.2" | sort -u)" /dev/null \
	"the other ranks of such a step write nowhere"

# The rank's program ends before the step: ^C is the agent's again.
is "$(talk raw 'run touch '"$tmpdir/leave" cooked 'type \x03' 'see shell: modes kept' 'see shell: status 130' -- \
	$in_step -n 2 -- sh -c '[ $SLURM_PROCID = 0 ] || exec sleep 300
		while [ ! -e "$0" ]; do sleep 0.02; done' "$tmpdir/leave")" ok \
	"the terminal is as before once no program reads it"

# ---- ends ----------------------------------------------------------------------------------------
is "$(talk 'see up' raw 'run kill -TERM $job_pid' 'see got TERM: ending the step\r\n' 'see shell: modes kept' \
	'see shell: status 143' -- $stepd run --job $job --proctrack $tracker --pty -- sh -c 'echo up; exec sleep 300')" ok \
	"SIGTERM to the agent leaves the terminal as it was"
is "$(talk 'see up' raw 'run kill -HUP $job_pid' 'see shell: modes kept' 'see shell: status 129' -- \
	$in_step -- sh -c 'echo up; exec sleep 300')" ok "SIGHUP to the agent leaves the terminal as it was"
is "$(talk 'see execute' 'see shell: modes kept' 'see shell: status 127' -- $in_step -- "$tmpdir/none")" ok \
	"a step that can't be started leaves the terminal as it was"
is "$(talk 'see time limit' 'see shell: modes kept' 'see shell: status 124' -- \
	$in_step --time-limit 1s -- sleep 300)" ok "a time limit leaves the terminal as it was"

# ---- stops ---------------------------------------------------------------------------------------
is "$(talk 'see up' raw "run '$stepctl' suspend $job.0" cooked "run '$stepctl' resume $job.0" raw \
	'type on\n' 'see got on' 'see shell: modes kept' 'see shell: status 0' -- \
	$in_step -- sh -c 'echo up; read x; echo "got $x"')" ok \
	"a suspended step leaves the terminal, and takes it again when it is resumed"
is "$(talk 'see up' raw "run '$stepctl' suspend $job.0" cooked 'type \x1a' 'see shell: stopped' fg raw \
	'type on\n' 'see got on' 'see shell: modes kept' 'see shell: status 0' -- \
	$in_step -- sh -c 'echo up; read x; echo "got $x"')" ok \
	"^Z at a suspended step stops the agent, and fg resumes both"
is "$(talk 'see up' raw 'run kill -STOP $job_pid' 'see shell: stopped' fg raw 'type on\n' 'see got on' \
	'see shell: modes kept' 'see shell: status 0' -- $in_step -- sh -c 'echo up; read x; echo "got $x"')" ok \
	"an agent that SIGSTOP has stopped takes the terminal again"

# ---- an upgrade ----------------------------------------------------------------------------------
if [ -x "$next" ]; then
	put "$this"
	is "$(talk 'see up' raw 'type one\n' 'see got one' "run cp '$next' '$bin/new'; mv -f '$bin/new' '$stepd'" \
		'run kill -USR2 $job_pid' 'see continues as version' 'type two\n' 'see got two' 'size 30 90' \
		'type three\n' 'see got three' 'see 30 90' 'run kill -USR2 $job_pid' 'see continues as version' \
		'type \x04' 'see end' 'see shell: modes kept' 'see shell: status 0' -- \
		$stepd run --job $job --proctrack $tracker --pty -- sh -c \
		'echo up; while read x; do echo "got $x"
			[ "$x" != three ] || until [ "$(stty size)" = "30 90" ]; do sleep 0.02; done
			stty size; done; echo end')" ok "a session at a pseudo-terminal goes on over upgrades"
	put "$this"
	is "$(talk 'see up' raw "run cp '$next' '$bin/new'; mv -f '$bin/new' '$stepd'" 'run kill -USR2 $job_pid' \
		'see continues as version' 'run kill -TERM $job_pid' 'see shell: modes kept' 'see shell: status 143' -- \
		$stepd run --job $job --proctrack $tracker --pty -- sh -c 'echo up; exec sleep 300')" ok \
		"an upgraded agent leaves the terminal as it was before the first one"
	put "$this"
else
	skip 2 "no second program (make check builds it)"
fi

# ---- a full-screen program -----------------------------------------------------------------------
if screen_here; then
	screen_begin "TERM=screen $in_step -- $vim_plain '$tmpdir/text'; echo \"status \$?\"; sleep 300"
	vim_types hello
	vim_follows "vim in a step follows the size of its window"
	screen_type ':wq' Enter
	ok "vim in a step ends" eventually screen_shows 'status 0'
	is "$(cat "$tmpdir/text" 2>&1)" hello "vim in a step writes what is typed"
	screen_end
else
	skip 3 "needs tmux and vim"
fi

nothing_left_soon "the job leaves no cgroup, process or file behind"
done_testing
