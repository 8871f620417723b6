#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# stepctl where no agent replies: killed, stopped, or of another user.
. "${top_srcdir:?}/tests/lib/step.sh"

# killed BACKEND: step 0 of two tasks, whose agent has been killed; $left are its processes.
killed() {
	start_step --proctrack "$1" -n 2 -- sh -c 'sleep 300 & echo up; wait'
	eventually sh -c "[ \$(grep -c up '$tmpdir/out') = 2 ]"
	left=$("$stepctl" pids "$job.0")
	container=$(state_of 0 container_id)
	kill_agent
	eventually sh -c "'$stepctl' list | grep -q ' died\$'"
	# The child that keeps the group's number for the agent ends with it once init has reaped it.
	[ "$1" != pgid ] || eventually test ! -e "/proc/$container"
}

for b in $(backends); do
	killed "$b"
	like "$("$stepctl" list)" "^$job\.0 .* died\$" "$b: list shows that the agent died"
	for verb in show signal terminate notify add reexec; do
		set -- "$job.0"
		[ $verb != notify ] || set -- "$job.0" text
		[ $verb != add ] || set -- "$job.0" 1
		out=$("$stepctl" $verb "$@" 2>&1)
		is "$?,$out" "4,stepctl $verb: step $job.0: its agent has died; 'stepd adopt $job.0' takes the step over" \
			"$b: $verb of a dead agent's step names the remedy"
	done
	out=$("$stepctl" wait "$job.0" 2>&1)
	is "$?" 125 "$b: wait for a dead agent's step exits with 125"
	"$stepctl" events "$job.0" >"$tmpdir/events" 2>"$tmpdir/err"
	is "$?" 0 "$b: events of a dead agent's step succeeds"
	like "$(cat "$tmpdir/events")" " task_start +task 1 " \
		"$b: events of a dead agent's step prints what the agent wrote"
	like "$(cat "$tmpdir/err")" "its agent has died" \
		"$b: events of a dead agent's step reports that the agent died"
	if [ "$b" = linuxproc ]; then
		for verb in pids ps usage suspend resume; do
			out=$("$stepctl" $verb "$job.0" 2>&1)
			is "$?" 4 "$b: $verb of a dead agent's step exits with 4"
			like "$out" "stepd adopt" "$b: $verb of a dead agent's step names the remedy"
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
		ok "$b: suspend needs no agent" "$stepctl" suspend "$job.0"
		is "$(cat "$group/cgroup.freeze")" 1 "$b: suspend without an agent freezes the cgroup"
		ok "$b: resume needs no agent" "$stepctl" resume "$job.0"
		is "$(cat "$group/cgroup.freeze")" 0 "$b: resume without an agent thaws the cgroup"
		out=$("$stepctl" set-limits "$job.0" --device 'c 1:11:r' 2>&1)
		status=$?
		ok "$b: set-limits needs no agent, or is not supported here" test $status = 0 -o $status = 7
		if [ "$(id -u)" = 0 ]; then
			# A container that a user names must not be what root stops or limits.
			chown nobody "$run"/*_"$job.0"/state.json
			for verb in suspend resume "set-limits --pids 9"; do
				# shellcheck disable=SC2086 # words
				out=$("$stepctl" $verb "$job.0" 2>&1)
				is "$?" 3 "$b: $verb by another user's state.json is refused"
				like "$out" "of another user, .*; do this as uid [0-9]+" \
					"$b: the refusal of $verb by another user's state.json has the reason"
			done
			is "$(cat "$group/cgroup.freeze")" 0 \
				"$b: a refused verb by another user's state.json changes nothing"
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

# ---- an agent that does not answer ---------------------------------------------------------------
start_step --proctrack "$tracker" -- sh -c 'echo up; exec sleep 300'
kill -STOP $agent
out=$("$stepctl" show --timeout 200ms "$job.0" 2>&1)
is "$?" 5 "a stopped agent is not waited for longer than --timeout"
like "$out" "^stepctl show: step .*$job\.0" "the report of a stopped agent names the step"
for verb in ps pids events; do
	out=$("$stepctl" $verb --timeout 0 "$job.0" 2>&1)
	like "$? $out" "^8 .*: there is no reply yet$" "stepctl $verb --timeout 0 of a stopped agent has no answer"
done
ok "list does not wait for a stopped agent" timeout 300 "$stepctl" list
ok "top does not wait for a stopped agent" timeout 300 "$stepctl" top --batch -n 1 -i 100ms
if [ "$tracker" = cgroup ]; then
	ok "find does not wait for a stopped agent" sh -c "timeout 300 '$stepctl' find \$(pgrep -P $agent | head -n 1)"
fi
kill -CONT $agent

# ---- another user --------------------------------------------------------------------------------
if [ "$(id -u)" = 0 ] && setpriv --reuid 64999 --clear-groups "$stepctl" --version >/dev/null 2>&1; then
	other() {
		setpriv --reuid 64999 --regid 64999 --clear-groups "$stepctl" "$@" --runtime-dir "$run" 2>&1
	}
	like "$(other list)" "^$job\.0 " "list of another user shows the step"
	while read -r verb method args; do
		# shellcheck disable=SC2086 # words
		out=$(other "$verb" "$job.0" $args)
		status=$?
		[ "$verb" != wait ] || status=$((status - 122)) # 125
		is "$status" 3 "$verb of another user is refused"
		like "$out" "$method: PermissionDenied: " "the refusal of another user's $verb names the method"
		like "$out" "root" "the refusal of another user's $verb names the users that are allowed"
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
	like "$(other top --batch -n 1 -i 200ms)" "^$job\.0 +[^ ]+ +running +- " \
		"top of another user shows no numbers"
	ok "the step runs on after another user's calls" running 0
else
	skip 43 "needs root, setpriv and a build directory that others may enter"
fi
kill $agent
wait $agent

# ---- an agent that is about to end ---------------------------------------------------------------
# It closes its socket while a request waits, and holds its lock until its directory is gone.
start_agent 0 --proctrack "$tracker" -- sleep 300
ending=$tmpdir/ending/n1_7.0
mkdir -p "$ending"
json_get "$(step_dir 0)/state.json" '{**d, "job": 7, "node": "n1"}' >"$ending/state.json"
kill $agent
wait $agent
mkfifo "$tmpdir/end"
(cd "$ending" && exec python3 -c 'import fcntl, os, socket, struct
lock = os.open("lock", os.O_RDWR | os.O_CREAT, 0o600)
F_OFD_SETLK = 37
fcntl.fcntl(lock, F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0))
listener = socket.socket(socket.AF_UNIX)
listener.bind("socket")
listener.listen()
print("up", flush=True)
client = listener.accept()[0]
client.recv(1)
listener.close()
client.close()
open("../../end").read()') >"$tmpdir/out" 2>&1 &
agent=$!
eventually has_output up
out=$("$stepctl" resume --runtime-dir "$tmpdir/ending" 7.0 2>&1)
is $? 6 "a request that an ending agent drops exits with 6"
like "$out" "^stepctl resume: step n1/7\.0: .*it is just starting or ending" \
	"a request that an ending agent drops has the reason"
: >"$tmpdir/end"
wait $agent
nothing_left "the job leaves no cgroup, process or file behind"
done_testing
