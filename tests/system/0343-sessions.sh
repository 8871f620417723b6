#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# In which session and process group tasks run: each in its own where there is no terminal and the
# tracker can follow, else all in the agent's session and in one group.
# shellcheck disable=SC2016,SC2317,SC2086 # for the tasks; words
. "${top_srcdir:?}/tests/lib/step.sh"

command -v python3 >/dev/null || skip_all "needs python3"

# Of a task: whether it leads its session; its session, its group, and those of the agent.
cat >"$tmpdir/look.py" <<'P'
import os
agent = os.getppid()
os.write(1, " ".join((
    "task leads" if os.getsid(0) == os.getpid() == os.getpgrp() else "task follows",
    "in the agent's session" if os.getsid(0) == os.getsid(agent) else "in another session",
    "in the agent's group" if os.getpgrp() == os.getpgid(agent) else "in another group",
    "group=%d\n" % os.getpgrp())).encode())
P
own="task leads in another session in another group"
common="task follows in the agent's session in another group"

# How many groups, and the different lines without them.
seen() { # ARG...
	step -q "$@" -- python3 "$tmpdir/look.py" >"$tmpdir/seen" 2>&1
	echo "$(sed -n 's/.*group=//p' "$tmpdir/seen" | sort -u | wc -l) $(sed 's/ group=.*//' "$tmpdir/seen" | sort -u)"
}

for b in $(backends); do
	for n in 2 9; do # as copies of the agent, and in memory that they share
		case $b in
		pgid) wanted="1 $common" ;;
		*) wanted="$n $own" ;;
		esac
		if [ "$b" = pgid ]; then
			# the group's leader is the tracker's placeholder, no task
			is "$(seen --proctrack "$b" -n $n)" "$wanted" "$b: $n tasks share the tracker's group"
			out=$(step --proctrack "$b" --session=task -n $n -- true 2>&1)
			is $? 125 "$b: --session=task is refused for $n tasks"
			like "$out" "session: task: proctrack/pgid needs a step's tasks in one process group" \
				"$b: the refusal of --session=task for $n tasks has the reason"
		else
			is "$(seen --proctrack "$b" -n $n)" "$wanted" "$b: each of $n tasks leads a session"
			is "$(seen --proctrack "$b" -n $n --no-hold)" "$wanted" \
				"$b: each of $n tasks leads a session with --no-hold"
			is "$(seen --proctrack "$b" -n $n --session=task)" "$wanted" \
				"$b: each of $n tasks leads a session with --session=task"
		fi
		is "$(seen --proctrack "$b" -n $n --session=agent)" "1 $common" \
			"$b: $n tasks share the agent's session and one process group with --session=agent"
	done

	# ---- what a task sends to its group
	[ "$b" != pgid ] || continue
	# shellcheck disable=SC2016 # the task's
	program='trap "echo hit $SLURM_PROCID" USR1
		: >"$0/$SLURM_PROCID"
		while [ ! -e "$0/0" ] || [ ! -e "$0/1" ]; do sleep 0.02; done
		[ $SLURM_PROCID = 1 ] || kill -USR1 0
		[ $SLURM_PROCID = 0 ] || { : >"$0/seen"; while [ ! -e "$0/go" ]; do sleep 0.02; done; }
		[ $SLURM_PROCID = 1 ] || { while [ ! -e "$0/seen" ]; do sleep 0.02; done; : >"$0/go"; }'
	for session in task agent; do
		rm -rf "$tmpdir/group"
		mkdir "$tmpdir/group"
		wanted="hit 0 hit 1" whom="all tasks"
		[ $session = agent ] || wanted="hit 0" whom="itself alone"
		is "$(step -q --proctrack "$b" --session=$session -n 2 -- sh -c "$program" "$tmpdir/group" 2>/dev/null |
			sort | xargs)" "$wanted" "$b: a task's kill(0) with --session=$session reaches $whom"
	done

	# ---- what the step is sent
	: >"$tmpdir/out"
	"$stepd" run -q --job "$job" --proctrack "$b" -n 3 -- \
		sh -c 'trap "echo usr1" USR1; echo up; while :; do sleep 0.02; done' >"$tmpdir/out" 2>"$tmpdir/err" &
	agent=$!
	eventually sh -c "[ \$(grep -c up '$tmpdir/out') = 3 ]"
	"$stepctl" signal --signal USR1 "$job.0" 2>/dev/null || "$stepctl" signal USR1 "$job.0"
	ok "$b: a signal to the step reaches the tasks of all sessions" \
		eventually sh -c "[ \$(grep -c usr1 '$tmpdir/out') = 3 ]"
	kill "$agent"
	wait "$agent"
	is $? 143 "$b: SIGTERM to the agent ends the tasks of all sessions"
	nothing_left "$b: the job leaves no cgroup, process or file behind"
done

# ---- tasks that join -------------------------------------------------------------------------------
# shellcheck source=tests/lib/spawn.sh
. "$top_srcdir/tests/lib/spawn.sh"
for b in $(backends); do
	groups=2 wanted=$own
	[ "$b" != pgid ] || groups=1 wanted=$common
	out=$(spawning --proctrack "$b" -n 1 sh -c "$requests one 1 1 2 '[\"python3\",\"$tmpdir/look.py\"]'" 2>&1)
	is "$(echo "$out" | sed 's/ group=.*//' | sort -u)" "$wanted" \
		"$b: tasks that join have sessions and groups as the first tasks do"
	is "$(echo "$out" | sed -n 's/.*group=//p' | sort -u | wc -l)" $groups \
		"$b: the tasks that join have $groups process groups"
done

# ---- at a terminal ---------------------------------------------------------------------------------
cat >"$tmpdir/on-terminal" <<'P'
import pty, sys
sys.exit(pty.spawn(sys.argv[1:]) >> 8)
P
at_terminal() { # ARG...
	python3 "$tmpdir/on-terminal" "$stepd" run -q --job "$job" --proctrack "$tracker" "$@" -- \
		python3 "$tmpdir/look.py" </dev/null 2>&1 | tr -d '\r' | sed 's/ group=.*//' | sort -u
}
is "$(at_terminal -n 2)" "$common" "at a terminal tasks stay in the agent's session"
is "$(at_terminal -n 2 --session=task)" "$own" "at a terminal tasks lead sessions with --session=task"
is "$(at_terminal -n 9)" "$common" "at a terminal nine tasks stay in the agent's session"
if [ "$(id -u)" = 0 ]; then
	chmod 644 "$tmpdir/look.py"
	is "$(at_terminal -n 9 --uid 65533 --gid 65533)" "$own" \
		"at a terminal tasks of another user lead sessions of their own"
else
	skip 1 "needs root"
fi

# ---- nice values, where the kernel shares the processors out by sessions ----------------------------
if [ -e /proc/self/autogroup ]; then
	for n in 2 9; do
		out=$(step -q -n $n --nice=7 -- sh -c 'echo "$(nice) $(cat /proc/$$/autogroup)"' | sed 's/autogroup-[0-9]*/N/' | sort -u)
		is "$out" "7 /N nice 7" "the autogroups of $n tasks have the tasks' nice value"
	done
else
	skip 2 "this kernel does not share the processors out by sessions"
fi
nothing_left "the job leaves no cgroup, process or file behind"
done_testing
