#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Results stay as long as they are to, durable, and no longer; what dead agents left goes, what lives
# is left alone, and so is what is not a step's.
# shellcheck source=tests/lib/step.sh
. "${top_srcdir:?}/tests/lib/step.sh"

# shellcheck disable=SC2120 # most calls have no options
clean() {
	timeout -k 5 300 "$stepctl" clean "$@" >"$tmpdir/out" 2>"$tmpdir/err"
}

# ---- results ---------------------------------------------------------------------------------
step --step 1 --keep-result 1h -- true
is "$(ls "$(step_dir 1)")" result.json "--keep-result retains a result, alone in its directory"
is "$(json_get "$(step_dir 1)/result.json" '[next(iter(d)), keep_until_time_usec > 10**15]')" \
	'["keep_until_time_usec", true]' "the first field of a result is how long it is retained"
step --step 2 -- true
is "$(ls -d "$run"/*_"$job.2" 2>/dev/null)" "" "no result is retained without --keep-result"
ok "clean succeeds where a result is retained" clean
ok "clean does not remove a retained result" test -f "$(step_dir 1)/result.json"
step --step 1 --keep-result 1h -- sh -c 'exit 3'
is "$(json_get "$(step_dir 1)/result.json" exit_code)" 3 "a new step of that name replaces the retained result"
step --step 3 --keep-result 1ms -- true
ok "clean --dry-run succeeds" clean --dry-run
like "$(cat "$tmpdir/out")" "/[^ ]*_$job.3: a result whose retention time is over" \
	"clean --dry-run reports an expired result"
ok "clean --dry-run removes nothing" test -f "$(step_dir 3)/result.json"
ok "clean succeeds where a result has expired" clean
like "$(cat "$tmpdir/out")" "/[^ ]*_$job.3: a result whose retention time is over" \
	"clean reports the expired result that it removes"
is "$(ls -d "$run"/*_"$job.3" 2>/dev/null)" "" "clean removes an expired result with its directory"
step --step 3 --keep-result 1ms -- true
step --step 2 -- true
is "$(ls -d "$run"/*_"$job.3" 2>/dev/null)" "" "an agent that starts removes an expired result"
if command -v strace >/dev/null; then
	strace -f -e trace=fsync,renameat -o "$tmpdir/trace" \
		"$stepd" run --job "$job" --proctrack "$tracker" --keep-result 1h -- true
	is "$(grep -A9 'fsync' "$tmpdir/trace" | sed -n 's/^[0-9]* *\([a-z]\{2,\}\)(.*/\1/p' | tr '\n' ' ')" \
		"fsync renameat fsync " "a retained result is synced before and after it gets its name"
else
	skip 1 "needs strace"
fi

# ---- dead agents -----------------------------------------------------------------------------
for b in $(backends); do
	UP=$tmpdir/up "$stepd" run -q --job "$job" --step 5 --proctrack "$b" --keep-result 1h -- \
		sh -c 'touch "$UP.runs"; while [ ! -e "$UP" ]; do sleep 0.02; done' &
	agent=$!
	eventually running 5
	eventually test -e "$tmpdir/up.runs" # until its program runs a task holds what the agent has open
	ok "$b: clean succeeds where a step runs" clean
	is "$(cat "$tmpdir/out" "$tmpdir/err")" "" "$b: clean reports nothing of a running step"
	pid=$(state_of 5 'tasks[0]["pid"]')
	kill_agent
	clean
	like "$(cat "$tmpdir/err")" "_$job.5.*its agent has died, and processes of it live: .stepd adopt. takes it over" \
		"$b: clean reports a dead agent's step whose processes live"
	out=$("$stepd" adopt --ended-only "$job.5" 2>&1)
	is $? 125 "$b: 'stepd adopt --ended-only' refuses a step whose processes live"
	like "$out" "step $job.5 has processes that live" \
		"$b: the refusal of --ended-only names the living processes"
	ok "$b: clean does not end a dead agent's processes" kill -0 "$pid"
	touch "$tmpdir/up"
	eventually process_ended "$pid"
	ok "$b: clean succeeds once a dead agent's processes have ended" clean
	like "$(cat "$tmpdir/out")" "/[^ ]*_$job.5: left by an agent that died" \
		"$b: clean reports the dead agent's step that it removes"
	is "$(ls "$(step_dir 5)")" result.json "$b: clean retains the result of a dead agent's step"
	is "$(find /sys/fs/cgroup -type d -path "*job_$job/step_5")" "" \
		"$b: clean removes the cgroup of a dead agent's step"
	rm -f "$tmpdir/up"
	rm -rf "$(step_dir 5)"
done

# ---- an agent that died while it removed its groups ------------------------------------------
# The step's group is gone, and the job's is not.
if [ "$tracker" = cgroup ]; then
	UP=$tmpdir/up "$stepd" run -q --job "$job" --step 8 --proctrack cgroup -- \
		sh -c 'while [ ! -e "$UP" ]; do sleep 0.02; done' &
	agent=$!
	eventually running 8
	pid=$(state_of 8 'tasks[0]["pid"]')
	groups=$(find /sys/fs/cgroup -type d -path "*job_$job/step_8")
	kill_agent
	touch "$tmpdir/up"
	eventually process_ended "$pid"
	remove_groups() { find "$groups" -depth -type d -exec rmdir {} +; }
	eventually remove_groups
	ok "the group of the job is there" test -d "${groups%/*}"
	ok "clean succeeds where a step's group is gone" clean
	fails "clean removes the group of the job, too" test -e "${groups%/*}"
	rm -f "$tmpdir/up"
	rm -rf "$(step_dir 8)"
else
	skip 3 "needs cgroup v2"
fi

# ---- an agent that starts tidies up, too -----------------------------------------------------
for b in $(backends); do
	UP=$tmpdir/up "$stepd" run -q --job "$job" --step 6 --proctrack "$b" --keep-result 1h -- \
		sh -c 'while [ ! -e "$UP" ]; do sleep 0.02; done' &
	agent=$!
	eventually running 6
	pid=$(state_of 6 'tasks[0]["pid"]')
	kill_agent
	rm -rf "$(step_dir 1)"
	NOTIFY_SOCKET=$tmpdir/nobody step --step 7 -- true 2>/dev/null
	ok "$b: the next agent does not end a dead agent's processes" kill -0 "$pid"
	ok "$b: the next agent does not remove a dead agent's state while processes live" test -e "$(step_dir 6)/state.json"
	touch "$tmpdir/up"
	eventually process_ended "$pid"
	step --step 7 -- sh -c 'exit 9'
	is $? 9 "$b: an agent that starts after a dead agent's step has ended runs its own step"
	is "$(ls "$(step_dir 6)")" result.json \
		"$b: an agent that starts writes the result of a dead agent's ended step"
	is "$(json_get "$(step_dir 6)/result.json" step)" "$job.6" \
		"$b: the result of a dead agent's step names that step"
	is "$(find /sys/fs/cgroup -type d -path "*job_$job/step_6")" "" \
		"$b: an agent that starts removes the cgroup of a dead agent's ended step"
	rm -f "$tmpdir/up"
	rm -rf "$(step_dir 6)"
	printf '{"version": 1, "kind": "extern", "job": %s, "proctrack": "%s"}\n' "$job" "$b" >"$tmpdir/extern"
	"$stepd" serve -q --spec "$tmpdir/extern" --keep-result 1h &
	agent=$!
	eventually running extern
	kill_agent
	began=$(now_ms)
	step --step 7 -- true
	took=$(($(now_ms) - began))
	began=$(now_ms)
	step --step 7 -- true
	ok "$b: a dead agent's extern step without processes does not delay the next agent" no_slower $took $(($(now_ms) - began))
	is "$(ls "$(step_dir extern)")" result.json \
		"$b: the next agent ends a dead agent's extern step without processes"
	rm -rf "$(step_dir extern)"
done

# ---- what is none of ours --------------------------------------------------------------------
mkdir "$run/some_thing" "$run/n1_7.0"
touch "$run/some_thing/precious" "$run/file" "$run/n1_7.0/lock"
touch -d '1 hour ago' "$run/some_thing" "$run/n1_7.0"
ln -s "$tmpdir" "$run/n1_8.0"
mkdir "$run/n1_9.0"
chmod go+w "$run/n1_9.0"
touch -d '1 hour ago' "$run/n1_9.0"
ok "clean succeeds where the runtime directory has hostile contents" clean
like "$(cat "$tmpdir/err")" "some_thing.*'precious' in it is not a file of a step" \
	"clean reports a directory with a file that is not a step's"
like "$(cat "$tmpdir/err")" "file.*it is not the directory of a step" "clean reports a file among the steps"
like "$(cat "$tmpdir/err")" "n1_8.0.*it is not the directory of a step" \
	"clean reports a symbolic link among the steps"
like "$(cat "$tmpdir/err")" "n1_9.0.*others may write to it" \
	"clean reports a directory that others may write to"
ok "clean removes nothing that is not a step's" test -f "$run/some_thing/precious" -a -f "$run/file" -a -L "$run/n1_8.0" -a -d "$run/n1_9.0"
ok "clean removes a directory that a dead agent had only claimed" test ! -e "$run/n1_7.0"
rm -rf "$run/some_thing" "$run/file" "$run/n1_8.0" "$run/n1_9.0"
if [ "$(id -u)" = 0 ]; then
	mkdir "$run/n1_9.0"
	touch "$run/n1_9.0/state.json"
	chown -R nobody "$run/n1_9.0"
	clean
	like "$(cat "$tmpdir/err")" "n1_9.0.*it belongs to uid" "clean reports a directory of another user"
	ok "clean does not remove a directory of another user" test -f "$run/n1_9.0/state.json"
	rm -rf "$run/n1_9.0"
else
	skip 2 "needs root"
fi

# ---- a full disk -----------------------------------------------------------------------------
if [ "$(id -u)" = 0 ] && unshare -m true 2>/dev/null; then
	mkdir "$tmpdir/tiny"
	out=$(unshare -m sh -c 'mount -t tmpfs -o size=16k,mode=755 none "$1" && dd if=/dev/zero of="$1/fill" bs=4k 2>/dev/null
		"$2" run --job "$3" --runtime-dir "$1" --proctrack "$4" --keep-result 1h -- true; echo "status $?"' \
		sh "$tmpdir/tiny" "$stepd" "$job" "$tracker" 2>&1)
	like "$out" "status 125" "a step with --keep-result is refused on a full disk"
	like "$out" "'$tmpdir/tiny/[^']*'.*No space left on device" \
		"the refusal of a step on a full disk has the reason"
else
	skip 2 "needs root and a mount namespace"
fi
rm -rf "$(step_dir 0)" "$(step_dir 1)"
nothing_left "the job leaves no cgroup, process or file behind"
done_testing
