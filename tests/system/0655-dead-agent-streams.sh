#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# An agent whose tasks write through it is killed: no task ends with it, and no byte is lost but those
# that its adopter names. The streams are held meanwhile by a process that ends with the step.
# shellcheck source=tests/lib/step.sh
. "${top_srcdir:?}/tests/lib/step.sh"
# shellcheck source=tests/lib/terminal.sh
. "$top_srcdir/tests/lib/terminal.sh"

# A step whose streams are held: STEP ARG...
begin() {
	rm -f "$tmpdir"/up*
	begin_step=$1
	shift
	UP=$tmpdir/up "$stepd" run --job "$job" --step "$begin_step" --proctrack "$b" "$@" >>"$tmpdir/out" 2>"$tmpdir/err" &
	agent=$!
	eventually running "$begin_step"
	eventually held
}

adopt() { # STEP
	timeout -k 5 300 "$stepd" adopt --result "$tmpdir/result" "$job.$1" >"$tmpdir/adopter" 2>&1
}

# Of a step that goes on until it is told to end.
begin_adopter() { # STEP COUNT
	adopt "$1" &
	adopter=$!
	eventually adopted "$1" "$2"
}

lines_of() { # RANK
	sed -n "s/^$1: //p" "$tmpdir/out"
}

# Lines 1 to 100 while the agent lives, 101 to 200 while there is none, and 201 to 300 for the adopter.
# shellcheck disable=SC2016 # the task expands it
numbered='seq 1 100; until [ -e "$UP" ]; do sleep 0.02; done; seq 101 200; : >"$UP.$SLURM_PROCID"
	until [ -e "$UP-2" ]; do sleep 0.02; done; seq 201 300'
both_wrote() {
	[ -e "$tmpdir/up.0" ] && [ -e "$tmpdir/up.1" ]
}

for b in $(backends); do
	# ---- labels ------------------------------------------------------------------------------
	: >"$tmpdir/out"
	begin 1 -n 2 --label -- sh -c "$numbered"
	eventually has_lines "$tmpdir/out" 200
	holding=$(stream_holder)
	kill_agent
	touch "$tmpdir/up"
	ok "$b: tasks whose output went through a dead agent write on" eventually both_wrote
	is "$(stream_holder)" "$holding" "$b: the streams are held after the agent's death"
	begin_adopter 1 1
	touch "$tmpdir/up-2"
	wait "$adopter"
	is "$(lines_of 0 | cksum) $(lines_of 1 | cksum)" "$(seq 300 | cksum) $(seq 300 | cksum)" \
		"$b: no line is missing, or torn, of tasks whose labels a dead agent put"
	unlike "$(cat "$tmpdir/adopter")" "^[^a]*[0-9]+ bytes of rank|is lost" \
		"$b: an adopter reports no loss where a dead agent had written all"
	ok "$b: an adopter ends the process that held the streams" not_held

	# ---- without labels, twice ---------------------------------------------------------------
	: >"$tmpdir/out"
	begin 2 --forward -- sh -c "$numbered"
	eventually has_lines "$tmpdir/out" 100
	kill_agent
	touch "$tmpdir/up"
	begin_adopter 2 1
	eventually has_lines "$tmpdir/out" 200
	kill -KILL "$(state_of 2 agent_pid)"
	wait "$adopter"
	begin_adopter 2 2
	touch "$tmpdir/up-2"
	wait "$adopter"
	is "$(cksum <"$tmpdir/out")" "$(seq 300 | cksum)" "$b: no byte of --forward is lost by two dead agents"

	# ---- what the agent had read and not written ---------------------------------------------
	rm -f "$tmpdir/fifo"
	mkfifo "$tmpdir/fifo"
	exec 5<>"$tmpdir/fifo" 6<"$tmpdir/fifo" 5>&-
	"$stepd" run -q --job "$job" --step 3 --proctrack "$b" -n 2 --label -- seq -f %07g 60000 >"$tmpdir/fifo" 2>/dev/null &
	agent=$!
	eventually running 3
	eventually held
	# Nobody reads: the agent has all that it takes. A full pipe may have much less than 64 KiB, since what
	# does not fit into a page has one of its own.
	eventually python3 -c 'import os, select, sys
poll = select.poll()
poll.register(os.open(sys.argv[1], os.O_WRONLY | os.O_NONBLOCK), select.POLLOUT)
sys.exit(bool(poll.poll(0)))' "$tmpdir/fifo"
	kill_agent
	cat <&6 >"$tmpdir/out" &
	reader=$!
	adopt 3
	wait "$reader"
	exec 6<&-
	out=$(python3 - "$tmpdir/out" "$tmpdir/adopter" <<'END'
import re, sys
size = {0: 0, 1: 0}
for line in open(sys.argv[1]):
    size[int(line[0])] += max(0, len(line) - 3)
extra = 0
for rank in size:
    lost = re.search(r"(at most )?(\d+) bytes of rank %d's standard output that the dead agent had read are lost" % rank,
                     open(sys.argv[2]).read())
    extra += size[rank] + (int(lost[2]) if lost else 0) - 480000
    unsure = lost and lost[1]
# The end of a line that was broken off where the agent died.
print("all" if extra in (0, 1) or (unsure and extra > 0) else f"{size} {extra} {open(sys.argv[2]).read()}")
END
	)
	is "$out" all "$b: what an adopter reports as lost is what is missing"

	# ---- pseudo-terminals --------------------------------------------------------------------
	if [ "$b" != pgid ]; then
		: >"$tmpdir/out"
		begin 4 --pty -- sh -c 'trap "echo hung up" HUP; echo before; until [ -e "$UP" ]; do sleep 0.02; done
			echo between; : >"$UP.0"; until [ -e "$UP-2" ]; do sleep 0.02; done; echo after' </dev/null
		eventually has_output before
		kill_agent
		touch "$tmpdir/up"
		ok "$b: a task writes to its terminal although the agent is dead" eventually test -e "$tmpdir/up.0"
		begin_adopter 4 1
		touch "$tmpdir/up-2"
		wait "$adopter"
		is "$(tr -d '\r' <"$tmpdir/out" | tr '\n' ' ')" "before between after " \
			"$b: a pseudo-terminal outlives its agent, without a hang-up"
	else
		skip 2 "pgid has no pseudo-terminals"
	fi
done
b=$tracker

# ---- pseudo-terminals of an agent that was at a terminal itself ----------------------------------
# shellcheck disable=SC2016 # the task expands it
answers='stty -echo; echo up; while read -r x; do echo "got $x"; done; echo end'
for remains in yes no; do
	# The terminal is its shell's when the agent is dead, or is gone with that.
	rm -f "$tmpdir/typed"
	set --
	after=:
	[ $remains = no ] || {
		set -- 'see shell is back' 'see got two' 'see end' 'type \n'
		after='echo "the shell is back"; read -r x'
	}
	# shellcheck disable=SC2016 # the shell's
	talk 'see up' raw 'type one\n' 'see got one' "run touch '$tmpdir/typed'" "$@" 'see shell: status' -- \
		sh -c '"$@"; eval "$0"' "$after" "$stepd" run -q --job "$job" --step 9 --proctrack "$b" --pty -- \
		sh -c "$answers" >"$tmpdir/talk" &
	talking=$!
	eventually test -e "$tmpdir/typed"
	eventually held
	kill -KILL "$(state_of 9 agent_pid)"
	if [ $remains = no ]; then
		wait "$talking"
	fi
	begin_adopter 9 1
	is "$(talk raw 'type two\n' 'see got two' 'size 30 90' 'type \x04' 'see end' 'see shell: modes kept' \
		'see shell: status 0' -- "$stepctl" attach --stdin "$job.9")" ok \
		"an attached client types to an adopted pseudo-terminal (the dead agent's terminal remains: $remains)"
	wait "$adopter" "$talking"
	is "$(cat "$tmpdir/talk")" ok "a dead agent's terminal shows what is typed at the adopter (it remains: $remains)"
done

# ---- an upgrade ----------------------------------------------------------------------------------
: >"$tmpdir/out"
begin 5 --label -- sh -c "$numbered"
eventually has_lines "$tmpdir/out" 100
kill -USR2 "$agent"
eventually grep -q "continues as version" "$tmpdir/err"
kill_agent
touch "$tmpdir/up"
begin_adopter 5 1
touch "$tmpdir/up-2"
wait "$adopter"
is "$(lines_of 0 | cksum)" "$(seq 300 | cksum)" "the streams are held across an upgrade of the agent"
ok "the process that held the streams across an upgrade ends with the step" not_held

# ---- nobody adopts -------------------------------------------------------------------------------
: >"$tmpdir/out"
begin 6 --forward -- sh -c "$numbered"
eventually has_lines "$tmpdir/out" 100
kill_agent
touch "$tmpdir/up" "$tmpdir/up-2"
ok "a task ends that wrote to a pipe of a dead agent" eventually test -e "$tmpdir/up.0"
begin_clean() {
	"$stepctl" clean >/dev/null 2>&1
	[ ! -e "$(step_dir 6)" ]
}
ok "stepctl clean ends a step whose streams are held" eventually begin_clean
is "$(cksum <"$tmpdir/out")" "$(seq 300 | cksum)" "stepctl clean has what tasks wrote to a dead agent's pipes written"
ok "stepctl clean ends the process that held the streams" not_held

begin 7 --forward -- sleep 300
kill_agent
kill -KILL "$(state_of 7 'tasks[0]["pid"]')"
ok "the process that holds the streams ends with the last who could write to them" eventually not_held
"$stepctl" clean >/dev/null 2>&1

# ---- whom an adopter trusts ----------------------------------------------------------------------
# A process that listens in the step's directory, with the identity of UID, and shows that it does.
impostor() { # UID
	rm -f "$(step_dir 8)/holder" "$tmpdir/listens"
	python3 - "$(step_dir 8)/holder" "$1" "$tmpdir/listens" <<'END' &
import os, signal, socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.bind(sys.argv[1])
os.chmod(sys.argv[1], 0o600)
os.seteuid(int(sys.argv[2]))
s.listen(1)
os.seteuid(0)
open(sys.argv[3], "w")
signal.pause()
END
	impostor=$!
	eventually test -e "$tmpdir/listens"
}

if [ "$(id -u)" = 0 ]; then
	begin 8 --forward -- sleep 300
	kill_agent
	holding=$(stream_holder)
	impostor 65533
	begin_adopter 8 1
	like "$(cat "$tmpdir/adopter")" "a process of uid 65533 \(pid $impostor\) listens at 'holder'" \
		"an adopter takes no streams from a process of another user"
	ok "an adopter leaves a process alone that does not hold the streams" kill -0 "$impostor"
	kill -KILL "$(state_of 8 agent_pid)" "$impostor"
	wait "$adopter" "$impostor" 2>/dev/null

	impostor 0
	chown 65533 "$(step_dir 8)"
	begin_adopter 8 2
	like "$(cat "$tmpdir/adopter")" "the tasks' streams are held for uid 65533: only an adopter of that user takes them" \
		"root takes no streams where a user could choose the process that has them"
	like "$(cat "$tmpdir/adopter")" "further output of its tasks is lost" \
		"an adopter without the streams warns that the output is lost"
	ok "root leaves a process alone that a user could have chosen" kill -0 "$impostor"
	kill -KILL "$impostor"
	wait "$impostor" 2>/dev/null
	chown 0 "$(step_dir 8)"
	"$stepctl" terminate --now "$job.8"
	wait "$adopter"
	ok "a process whose streams nobody has taken ends with the tasks" eventually not_held
else
	skip 6 "needs root"
fi

nothing_left "steps with adopted streams leave nothing behind"
done_testing
