#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# An agent that has adopted its step is upgraded as any other; and one whose new program fails after
# all leaves a step that can be adopted.
. "${top_srcdir:?}/tests/lib/reexec.sh"

[ -x "$next" ] || skip_all "no second program (make check builds it)"
command -v python3 >/dev/null || skip_all "needs python3"
failing=${top_builddir:?}/tests/lib/stepd-failpoints

entry() { # FILE of the step
	echo "$(step_dir 0)/$1"
}
result() { # EXPRESSION
	json_get "$(entry result.json)" "$1"
}
has_event() { # EXPRESSION of an event e
	[ "$(json_get "$(entry events.jsonl)" "any($1 for e in docs)")" = true ]
}
codes() { # the exit codes of the step and of its tasks
	result '[exit_code, *(t["exit_code"] for t in tasks)]'
}
lives() {
	running 0 && has_agent 0
}
# What it has open but for what it was started with: that is closed at the first upgrade.
links() { # PID
	find "/proc/$1/fd" -mindepth 1 -printf '%l\n' | sort -u
}
links $$ >"$tmpdir/given"
fds() {
	find "/proc/$agent/fd" -mindepth 1 -printf '%l\n' | grep -vxFc -f "$tmpdir/given"
}
as_many_fds() {
	[ "$(fds)" -eq "$before_fds" ]
}
tasks() { # without what grows
	listed_tasks '[{k: v for k, v in t.items() if k != "elapsed_usec"} for t in p["tasks"]]'
}
listed_tasks() { # EXPRESSION of the reply of ListTasks
	varlink call "$(entry socket)" ListTasks | json_get - "$1"
}
two_run() {
	[ "$(listed_tasks 'sum(t["state"] == "running" for t in p["tasks"])')" = 2 ]
}
adopt() { # $agent is the successor from now on
	put "$this"
	: >"$tmpdir/err"
	"$stepd" adopt "$job.0" 2>"$tmpdir/err" &
	agent=$!
	eventually lives
}

for b in $(backends); do
	t="--proctrack $b --keep-result 1h"
	# shellcheck disable=SC2086 # $t is words
	{
		start_step $t -n 4 -- sh -c "case \$SLURM_PROCID in 0) exit 7;; 3) exec sleep 60;; esac; $until_gone; exit \$SLURM_PROCID"
		eventually has_event 'e["kind"] == "task_exit"'
		doomed=$(listed_tasks '[t["pid"] for t in p["tasks"] if t["rank"] == 3][0]')
		kill_agent
		kill -KILL "$doomed"
		eventually process_ended "$doomed"
		adopt
		varlink call "$(entry socket)" Wait >"$tmpdir/wait" &
		waiter=$!
		eventually two_run
		tasks >"$tmpdir/tasks"
		sleep 0.3 # for what has just been requested
		before_fds=$(least_fds)
		ok "$b: a successor is upgraded" upgrade
		ok "$b: a successor is upgraded twice" upgrade
		is "$(readlink "/proc/$agent/exe")" "$stepd" "$b: the successor's executable is the new program"
		ok "$b: upgrades of a successor leave no descriptor open" eventually as_many_fds
		is "$(tasks)" "$(cat "$tmpdir/tasks")" \
			"$b: ListTasks of an upgraded successor is unchanged"
		rm -f "$tmpdir/stay"
		wait "$agent"
		code=$?
		ok "$b: the step of an upgraded successor ends with its status ($code)" test $code = 137 -o $code = 7
		like "$(codes)" '^\[(137|7), 7, 1, 2, (137|null)\]$' \
			"$b: the result of an upgraded successor has each known status"
		is "$(result '[adopted, reason]')" '[true, "completed"]' \
			"$b: the result of an upgraded successor has adopted"
		wait $waiter
		is "$(json_get "$tmpdir/wait" '[p["state"], "result" in p]')" '["ended", true]' \
			"$b: Wait has the result of an upgraded successor"
		rm -rf "${run:?}"/*

		# Tasks that end one after the other, the last one too, while the agent is upgraded.
		wrong=
		for round in 1 2 3; do
			start_step $t -n 12 -- sh -c "$until_gone; sleep 0.\$((SLURM_PROCID / 10))\$((SLURM_PROCID % 10)); exit \$((SLURM_PROCID + 1))"
			kill_agent
			adopt
			put "$next"
			# By a descriptor: once the agent is gone its pid may be anybody's.
			python3 -c 'import os, signal, sys, time
agent = os.pidfd_open(int(sys.argv[1]))
try:
    while True:
        signal.pidfd_send_signal(agent, signal.SIGUSR2)
        time.sleep(0.02)
except ProcessLookupError:
    pass' "$agent" &
			storm=$!
			eventually upgraded_more_than 0
			rm -f "$tmpdir/stay"
			wait "$agent"
			code=$?
			wait $storm
			[ "$code $(codes)" = "12 [12, $(seq -s ', ' 1 12)]" ] ||
				wrong="$wrong round $round: $code $(codes) $(tail -n 3 "$tmpdir/err")"
			rm -rf "${run:?}"/*
		done
		is "$wrong" "" "$b: no end of a task is lost while the agent is upgraded over and over"
		diag "$b: $(upgrades) upgrades in the last round"

		# What a task leaves behind goes to no successor as a child, also what it has begun since.
		: >"$tmpdir/behind"
		: >"$tmpdir/task"
		start_step $t --wait-background -- sh -c "$until_gone
			(touch '$tmpdir/begun'; while [ -e '$tmpdir/behind' ]; do sleep 0.05; done; touch '$tmpdir/was-there') &
			while [ -e '$tmpdir/task' ]; do sleep 0.05; done; exit 3"
		kill_agent
		adopt
		upgrade
		upgrade
		rm -f "$tmpdir/stay"
		eventually test -e "$tmpdir/begun"
		"$stepctl" pids "$job.0" >"$tmpdir/pids"
		rm -f "$tmpdir/task"
		eventually has_event 'e.get("wait_status") == 768'
		sleep 0.2
		ok "$b: an upgraded successor waits for background processes" running 0
		rm -f "$tmpdir/behind"
		ended 3 "$b: the step ends once its background processes have ended"
		ok "$b: the background process ended by itself" test -e "$tmpdir/was-there"
		rm -rf "$tmpdir/was-there" "$tmpdir/begun" "${run:?}"/*

		start_step $t -n 2 --time-limit 8s -- sleep 60
		kill_agent
		adopt
		upgrade
		kill -TSTP "$agent"
		eventually suspended 0
		upgrade
		ok "$b: a suspended step stays suspended over the upgrade of a successor" suspended 0
		kill -CONT "$agent"
		eventually running 0
		ended 124 "$b: the time limit ends the step over the upgrade of a successor"
		rm -rf "${run:?}"/*
	}
done

# The trial has found nothing, and the program fails all the same.
[ -x "$failing" ] || bail "tests/lib/stepd-failpoints was not built"
STEPD_FAILPOINT=reexec-restore
export STEPD_FAILPOINT
start_step --proctrack "$tracker" --keep-result 1h -n 2 -- sh -c "$until_gone; exit \$((SLURM_PROCID + 3))"
put "$failing"
request_upgrade
ended 125 "an agent whose new program fails after the trial ends"
like "$(cat "$tmpdir/err")" "a test has it fail here.*|.*the step is left without an agent \('stepd adopt' takes it over\)" \
	"an agent whose new program fails reports the remedy"
ok "the step of an agent whose new program fails goes on" running 0
adopt
rm -f "$tmpdir/stay"
ended 4 "the step of an agent whose new program fails ends under a successor"
is "$(codes) $(result adopted)" "[4, 3, 4] true" \
	"the successor of an agent whose new program fails gets the tasks' statuses"
rm -rf "${run:?}"/*

start_step --proctrack "$tracker" --keep-result 1h -n 2 -- sh -c "$until_gone; exit 3"
kill_agent
adopt
put "$failing"
request_upgrade
ended 125 "a successor whose new program fails after the trial ends"
adopt
rm -f "$tmpdir/stay"
ended 3 "the step of a successor whose new program fails ends under the next one"
rm -rf "${run:?}"/*

# The socket can't be had back: its connections end, and another one is there.
STEPD_FAILPOINT=reexec-socket
start_step --proctrack "$tracker" -n 2 -- sh -c "$until_gone; exit 3"
upgrade
before_fds=$(least_fds)
varlink call "$(entry socket)" Wait >"$tmpdir/wait" 2>&1 &
waiter=$!
more_fds() {
	[ "$(fds)" -gt "$before_fds" ]
}
eventually more_fds
put "$failing"
request_upgrade
eventually upgraded_more_than 1
like "$(cat "$tmpdir/err")" "restore the control socket .*; all connections to the step are lost" \
	"a socket that can't be restored is reported"
wait $waiter
is "$(grep -c ended "$tmpdir/wait")" 0 "a client that waited at a lost socket is disconnected"
is "$(varlink call "$(entry socket)" Describe | json_get - 'p["state"]')" running \
	"the step answers at a new socket"
ok "a lost socket leaves no descriptor open" eventually as_many_fds
rm -f "$tmpdir/stay"
ended 3 "a step with a new socket ends with its status"
nothing_left "a step with a new socket leaves no cgroup, process or file behind"
unset STEPD_FAILPOINT

# Its entry was removed: nobody finds it any more, and the agent goes on.
start_step --proctrack "$tracker" -n 2 -- sh -c "$until_gone; exit 3"
upgrade
before_fds=$(least_fds)
varlink call "$(entry socket)" Wait >"$tmpdir/wait" &
waiter=$!
eventually more_fds
rm "$(entry socket)"
ok "an agent whose socket was removed is upgraded" upgrade
rm -f "$tmpdir/stay"
ended 3 "a step whose socket was removed ends with its status"
wait $waiter
is "$(json_get "$tmpdir/wait" 'p["state"]')" ended "a client connected to a removed socket gets the end"
nothing_left "the job leaves no cgroup, process or file behind"
done_testing
