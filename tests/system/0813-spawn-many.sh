#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Many tasks that join at once, many spawns, and what comes in between: questions, suspensions, kills.
# Nothing of it stays.
. "${top_srcdir:?}/tests/lib/step.sh"
. "$top_srcdir/tests/lib/spawn.sh"

fds() {
	find "/proc/$1/fd" -mindepth 1 2>/dev/null | wc -l
}
no_more_fds() { # once it has seen that a client has gone
	[ "$(fds "$agent")" -le "$before" ]
}
groups_of_tasks() {
	find /sys/fs/cgroup -type d -path "*job_$job/*" -name 'task_*' 2>/dev/null | wc -l
}
begin() { # ARG...
	spawning --proctrack "$tracker" "$@" >"$tmpdir/out" 2>"$tmpdir/err" &
	agent=$!
	eventually running 0
	agent=$(state_of 0 agent_pid)
}
go() {
	: >"$tmpdir/go"
}
# shellcheck disable=SC2089
waits='until [ -e "$GO" ]; do sleep 0.02; done'
GO=$tmpdir/go
export GO

# ---- a thousand, or a quarter of that --------------------------------------------------------
many=$(rounds 250 1000)
begin -n 1 --result "$tmpdir/r" sh -c "$requests$waits
	many=$many"'
	one 1 1 $many "[\"sh\",\"-c\",\"echo \$SLURM_PROCID; read -r line <&9\"]"
	echo "$answer" | cut -c 1-22; until [ ! -e "$GO" ]; do sleep 0.02; done; exit 0'
before=$(fds "$agent")
go
ok "a spawn of $many tasks is answered" eventually has_output error
like "$(cat "$tmpdir/out")" '"error":0' "a spawn of $many tasks succeeds"
all_ran() { [ "$(grep -c '^[0-9]*$' "$tmpdir/out")" -eq "$many" ]; }
ok "each of $many spawned tasks runs" eventually all_ran
is "$(grep '^[0-9]*$' "$tmpdir/out" | sort -n | sed -n '1p;$p' | tr '\n' ' ')" "0 $((many - 1)) " \
	"$many spawned tasks have their ranks from first to last"
is "$("$stepctl" ps "$job.0" | grep -c ' sh ')" $((many + 1)) "stepctl ps shows $many spawned tasks"
ok "the agent of $many joined tasks has no more descriptors than before" eventually no_more_fds
"$stepctl" terminate --now "$job.0"
rm "$GO"
eventually test ! -e "/proc/$agent"
wait
is "$(json_get "$tmpdir/r" 'len(tasks)')" $((many + 1)) "the result has $many spawned tasks"
nothing_left "$many spawned tasks leave no cgroup, process or file behind"

# ---- one after the other, and some that fail -------------------------------------------------
begin -n 1 sh -c "$requests$waits"'
	n=0
	while [ $n -lt 60 ]; do
		n=$((n + 1))
		one $n $((n * 3)) 3 "[\"true\"]"
		n=$((n + 1))
		one $n $((n * 3)) 3 "[\"/nonexistent\"]"
	done
	echo done; until [ ! -e "$GO" ]; do sleep 0.02; done; exit 0'
before=$(fds "$agent")
go
ok "sixty spawns of which every other fails end" eventually has_output '^done'
ok "sixty spawns leave no descriptors behind" eventually no_more_fds
[ "$tracker" != cgroup ] || eventually sh -c "[ \$(find /sys/fs/cgroup -type d -path '*job_$job/*' -name 'task_*' | wc -l) -le 1 ]"
[ "$tracker" != cgroup ] || is "$(groups_of_tasks)" 1 "sixty spawns leave no cgroup of a task behind"
rm "$GO"
wait
nothing_left "sixty spawns leave no cgroup, process or file behind"

# ---- suspended, resumed ----------------------------------------------------------------------
begin -n 2 sh -c "$requests$waits"'
	[ $SLURM_PROCID = 0 ] || exec sleep 0.6
	one 1 5 20 "[\"sh\",\"-c\",\"echo joined\"]"; echo "$answer"'
go
"$stepctl" suspend "$job.0"
"$stepctl" resume "$job.0"
wait
is "$(grep -c joined "$tmpdir/out")" 20 "all tasks of a spawn around a suspension run"
like "$(cat "$tmpdir/out")" '"error":0' "a spawn around a suspension is answered"
rm "$GO"

# ---- ended in the middle ---------------------------------------------------------------------
for tracker in $(backends); do
	for sort in "signal --signal KILL" "terminate" "terminate --now"; do
		begin -n 1 sh -c "$requests$waits"'
			one 1 5 300 "[\"sleep\",\"99\"]"; exec sleep 99'
		go
		eventually sh -c "[ \$('$stepctl' pids '$job.0' | wc -l) -gt 3 ]"
		# shellcheck disable=SC2086 # words
		"$stepctl" $sort "$job.0" >/dev/null 2>&1
		# Tasks that join after the signal do not get it.
		"$stepctl" terminate --now "$job.0" >/dev/null 2>&1
		wait
		nothing_left "$tracker: $sort in the middle of a spawn leaves nothing behind"
		rm "$GO"
	done
done
done_testing
