#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# stepctl where no agent replies: killed, stopped, or of another user.
. "${top_srcdir:?}/tests/lib/step.sh"

# killed BACKEND: step 0 of two tasks, whose agent has been killed; $left are its processes.
killed() {
	: >"$tmpdir/out"
	"$stepd" run -q --job "$job" --proctrack "$1" -n 2 -- sh -c 'sleep 300 & echo up; wait' >"$tmpdir/out" 2>/dev/null &
	agent=$!
	eventually sh -c "[ \$(grep -c up '$tmpdir/out') = 2 ]"
	left=$("$stepctl" pids "$job.0")
	kill -9 $agent
	wait $agent 2>/dev/null
	eventually sh -c "'$stepctl' list | grep -q ' died\$'"
}

for b in $(backends); do
	killed "$b"
	like "$("$stepctl" list)" "^$job\.0 .* died\$" "$b: list shows a dead agent"
	for verb in show signal terminate notify add reexec; do
		set -- "$job.0"
		[ $verb != notify ] || set -- "$job.0" text
		[ $verb != add ] || set -- "$job.0" 1
		out=$("$stepctl" $verb "$@" 2>&1)
		is "$?,$out" "4,stepctl $verb: step $job.0: its agent has died; 'stepd adopt $job.0' takes the step over" \
			"$b: $verb names the remedy"
	done
	out=$("$stepctl" wait "$job.0" 2>&1)
	is "$?" 125 "$b: wait exits with 125, as the status is not known"
	"$stepctl" events "$job.0" >"$tmpdir/events" 2>"$tmpdir/err"
	is "$?" 0 "$b: events prints those that the dead agent wrote"
	like "$(cat "$tmpdir/events")" " task_start +task 1 " "$b: events prints whole lines"
	like "$(cat "$tmpdir/err")" "its agent has died" "$b: events warns that the agent has died"
	if [ "$b" = linuxproc ]; then
		for verb in pids ps usage suspend resume; do
			out=$("$stepctl" $verb "$job.0" 2>&1)
			is "$?" 4 "$b: $verb fails, as only the agent knew the processes"
			like "$out" "stepd adopt" "$b: $verb names the remedy"
		done
	else
		is "$("$stepctl" pids "$job.0")" "$left" "$b: pids needs no agent"
		is "$("$stepctl" ps "$job.0" | grep -c 'sleep 300')" 4 "$b: ps needs no agent"
		# shellcheck disable=SC2086 # pids
		is "$("$stepctl" find $left | grep -c "step $job.0 ")" 4 "$b: find needs no agent"
		like "$("$stepctl" usage "$job.0")" "^processes now +4 " "$b: usage needs no agent"
	fi
	if [ "$b" = cgroup ]; then
		group=$(find /sys/fs/cgroup -type d -path "*job_$job/step_0")
		ok "$b: suspend works on the container" "$stepctl" suspend "$job.0"
		is "$(cat "$group/cgroup.freeze")" 1 "$b: the suspended container is frozen"
		ok "$b: resume works on the container" "$stepctl" resume "$job.0"
		is "$(cat "$group/cgroup.freeze")" 0 "$b: the resumed container is not frozen"
		out=$("$stepctl" set-limits "$job.0" --device 'c 1:11:r' 2>&1)
		status=$?
		ok "$b: set-limits works on the container, or is not supported" test $status = 0 -o $status = 7
		if [ "$(id -u)" = 0 ]; then
			# A container that a user names must not be what root stops or limits.
			chown nobody "$run"/*_"$job.0"/state.json
			for verb in suspend resume "set-limits --pids 9"; do
				# shellcheck disable=SC2086 # words
				out=$("$stepctl" $verb "$job.0" 2>&1)
				is "$?" 3 "$b: $verb is refused for another user's container"
				like "$out" "of another user, .*; do it as that one \(uid [0-9]+\)" "$b: $verb names the user who may do it"
			done
			is "$(cat "$group/cgroup.freeze")" 0 "$b: the refused commands changed nothing"
			chown 0 "$run"/*_"$job.0"/state.json
		else
			skip 7 "needs root"
		fi
	fi
	# shellcheck disable=SC2086 # pids
	kill -9 $left
	eventually sh -c "! kill -0 $(echo "$left" | tr '\n' ' ')"
	rm -rf "${run:?}"/*
	[ "$b" != cgroup ] || rmdir "$group"/* "$group" "${group%/*}" 2>/dev/null
done

# ---- an agent that does not reply ----------------------------------------------------------------
: >"$tmpdir/out"
"$stepd" run -q --job "$job" --proctrack "$tracker" -- sh -c 'echo up; exec sleep 300' >"$tmpdir/out" &
agent=$!
eventually test -s "$tmpdir/out"
kill -STOP $agent
out=$("$stepctl" show --timeout 200ms "$job.0" 2>&1)
is "$?" 5 "show: a stopped agent is not waited for longer than --timeout"
like "$out" "^stepctl show: step .*$job\.0" "show: the message names the step of the stopped agent"
ok "list does not wait for a stopped agent" timeout 20 "$stepctl" list
ok "top does not wait for a stopped agent" timeout 20 "$stepctl" top --batch -n 1 -i 100ms
if [ "$tracker" = cgroup ]; then
	pid=$("$stepctl" list --json | sed -n 's/.*"container_id": \([0-9]*\).*/\1/p')
	ok "find with cgroup does not wait for a stopped agent (container $pid)" sh -c "timeout 20 '$stepctl' find \$(pgrep -P $agent | head -n 1)"
fi
kill -CONT $agent

# ---- another user --------------------------------------------------------------------------------
if [ "$(id -u)" = 0 ] && setpriv --reuid 64999 --clear-groups "$stepctl" --version >/dev/null 2>&1; then
	other() {
		setpriv --reuid 64999 --regid 64999 --clear-groups "$stepctl" "$@" --runtime-dir "$run" 2>&1
	}
	like "$(other list)" "^$job\.0 " "everybody may list"
	while read -r verb method args; do
		# shellcheck disable=SC2086 # words
		out=$(other "$verb" "$job.0" $args)
		status=$?
		[ "$verb" != wait ] || status=$((status - 122)) # 125
		is "$status" 3 "another user may not: $verb"
		like "$out" "$method: PermissionDenied: " "$verb: the message names the method"
		like "$out" "root" "$verb: the message names who is permitted"
	done <<X
show Describe
pids ListPids
signal Signal
suspend Suspend
resume Resume
terminate Terminate
wait Wait
events Describe
usage Usage
notify Notify text
add AddPid 1
reexec Reexec
set-limits SetLimits --pids 9
X
	like "$(other top --batch -n 1 -i 200ms)" "^$job\.0 +[^ ]+ +running +- " "top lacks the numbers"
	ok "the step still runs after all refused commands" running 0
else
	skip 43 "needs root, setpriv and a build directory that others may enter"
fi
kill $agent
wait $agent
nothing_left "nothing is left"
done_testing
