#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# A client at a terminal, attached to a rank's pseudo-terminal: what is typed, the size of the window,
# several clients, detaching, and that the client's terminal is as before whatever comes.
# shellcheck disable=SC2016,SC2154,SC2317 # for the tasks; reexec.sh's; called by name
. "${top_srcdir:?}/tests/lib/reexec.sh"
# shellcheck source=tests/lib/terminal.sh
. "$top_srcdir/tests/lib/terminal.sh"

# A step without a terminal of its own, whose rank reads what clients type.
start_session() {
	start_step --proctrack "$tracker" --pty --attachable --input attach "$@"
}

at="$stepctl attach --tail --stdin $job.0"

cat >"$tmpdir/sizes.py" <<'P'
import os, signal, sys
signal.signal(signal.SIGWINCH, lambda *_: os.write(1, b"now %d %d\r\n" % os.get_terminal_size()))
os.write(1, b"up\n")
for line in sys.stdin:
    os.write(1, b"got " + line.encode())
    if line == "end\n":
        break
P

# ---- what is typed, and detaching ----------------------------------------------------------------
start_session -- python3 "$tmpdir/sizes.py"
eventually has_output up
# shellcheck disable=SC2086 # words
is "$(talk 'see up' raw 'see now 80 24' 'type hello\n' 'see got hello' 'type \x10\x11' 'see detached' \
	'see shell: modes kept' 'see shell: status 0' -- $at)" ok \
	"what is typed reaches the rank, and the detach keys end the client alone"
# shellcheck disable=SC2086
is "$(talk raw 'type again\n' 'see got again' 'size 50 132' 'see now 132 50' 'type x\x10y\x10\x11' 'see detached' \
	'see shell: modes kept' -- $at)" ok "the size of the rank's terminal is that of the client's window"
# shellcheck disable=SC2086
is "$(talk raw 'type \n' 'see got x\x10y' 'type \x10z\n' 'see got \x10z' 'type \x01d' 'see detached' \
	'see shell: modes kept' -- $at --detach-keys ctrl-a,d)" ok "other detach keys can be chosen"

# ---- ends of the client --------------------------------------------------------------------------
for signal in TERM HUP INT; do
	# shellcheck disable=SC2086
	is "$(talk raw 'type \n' 'see got' "run kill -$signal \$job_pid" 'see shell: modes kept' -- $at)" ok \
		"SIG$signal to the client leaves its terminal as it was"
done
# shellcheck disable=SC2086
is "$(talk raw 'run kill -TSTP $job_pid' 'see shell: stopped' fg raw 'type on\n' 'see got on' 'type \x10\x11' \
	'see shell: modes kept' -- $at)" ok "a client that is stopped takes its terminal again"
# shellcheck disable=SC2086
is "$(talk raw 'run kill -STOP $job_pid' 'see shell: stopped' fg raw 'type on\n' 'see got on' 'type \x10\x11' \
	'see shell: modes kept' -- $at)" ok "a client that SIGSTOP has stopped takes its terminal again"

# ---- two clients ---------------------------------------------------------------------------------
# The second one types, then the first one again: the window of who typed last counts.
second="python3 $top_srcdir/tests/lib/talk.py raw 'size 30 90' 'see now 90 30' 'type \\x10\\x11' 'see detached' -- $stepctl attach --stdin $job.0"
# shellcheck disable=SC2086
is "$(talk raw 'size 40 100' 'see now 100 40' "run $second" 'see now 90 30' 'see now 100 40' 'type end\n' \
	'see got end' 'see shell: modes kept' 'see shell: status 0' -- $at)" ok \
	"the window of the client that came last counts, and when it leaves that of the one before"
ended 0 "a session ends when its program does"

# ---- upgrades, and the agent's death -------------------------------------------------------------
if [ -x "$next" ]; then
	start_session -- python3 "$tmpdir/sizes.py"
	# shellcheck disable=SC2086
	is "$(talk 'see up' raw 'type one\n' 'see got one' "run cp '$next' '$bin/new'; mv -f '$bin/new' '$stepd'" \
		"run kill -USR2 $agent" "run until grep -q 'continues as version' '$tmpdir/err'; do sleep 0.02; done" \
		'type two\n' 'see got two' 'size 31 91' 'see now 91 31' 'type end\n' 'see got end' \
		'see shell: modes kept' 'see shell: status 0' -- $at)" ok \
		"a client's session goes on when the agent is upgraded"
	ended 0 "an upgraded session succeeds"
else
	skip 2 "no second program (make check builds it)"
fi
start_session -- sh -c "echo \$\$ >'$tmpdir/pid'; echo up; exec sleep 600"
# shellcheck disable=SC2086
is "$(talk 'see up' raw "run kill -KILL $agent" 'see its agent is gone' 'see shell: modes kept' 'see shell: status 4' \
	-- $at)" ok "the agent's death leaves the client's terminal as it was"
wait "$agent" 2>/dev/null
process_ended "$(cat "$tmpdir/pid")" || kill -KILL "$(cat "$tmpdir/pid")"
eventually process_ended "$(cat "$tmpdir/pid")"
"$stepctl" clean >/dev/null

# ---- a full-screen program -----------------------------------------------------------------------
if screen_here; then
	# shellcheck disable=SC2086 # words
	start_session -- env TERM=screen $vim_plain "$tmpdir/text"
	screen_begin "$at; echo \"status \$?\"; exec sh"
	vim_types hello
	vim_follows "vim follows the size of an attached client's window"
	screen_type C-p C-q
	ok "the detach keys leave vim running" eventually screen_shows 'status 0'
	screen_type "clear; $stepctl attach --stdin $job.0; echo \"again \$?\"" Enter
	ok "vim draws its screen for a client that comes later" eventually screen_shows '^hello'
	screen_type ':wq' Enter
	ok "vim ends, and its client with it" eventually screen_shows 'again 0'
	is "$(cat "$tmpdir/text" 2>&1)" hello "vim writes what attached clients typed"
	ended 0 "a step with vim succeeds"
	screen_end
else
	skip 6 "needs tmux and vim"
fi

nothing_left_soon "the job leaves no cgroup, process or file behind"
done_testing
