#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Results stay as long as they are to, durable, and no longer; what dead agents left goes, what lives
# is left alone, and so is what is no step's.
# shellcheck source=tests/lib/step.sh
. "${top_srcdir:?}/tests/lib/step.sh"

# shellcheck disable=SC2120 # most calls have no options
clean() {
	timeout -k 5 300 "$stepctl" clean "$@" >"$tmpdir/out" 2>"$tmpdir/err"
}

dir_of() { # STEP
	for found in "$run"/*_"$job.$1"; do echo "$found"; done
}

# ---- results ---------------------------------------------------------------------------------
step --step 1 --keep-result 1h -- true
is "$(ls "$(dir_of 1)")" result.json "a result stays, alone in its directory"
like "$(head -n 2 "$(dir_of 1)/result.json" | tail -n 1)" '^ *"keep_until_time_usec": [0-9]{16},$' \
	"its first field is how long"
step --step 2 -- true
is "$(ls -d "$run"/*_"$job.2" 2>/dev/null)" "" "without --keep-result nothing stays"
ok "what is kept is not cleaned away" clean
ok "it is still there" test -f "$(dir_of 1)/result.json"
step --step 1 --keep-result 1h -- sh -c 'exit 3'
like "$(cat "$(dir_of 1)/result.json")" '"exit_code": 3' "a new step of that name replaces it"
step --step 3 --keep-result 1ms -- true
ok "a dry run tells" clean --dry-run
like "$(cat "$tmpdir/out")" "/[^ ]*_$job.3: a result that was kept long enough" "what it would remove"
ok "and does nothing" test -f "$(dir_of 3)/result.json"
ok "an expired one goes" clean
like "$(cat "$tmpdir/out")" "/[^ ]*_$job.3: a result that was kept long enough" "which is told"
is "$(ls -d "$run"/*_"$job.3" 2>/dev/null)" "" "with its directory"
step --step 3 --keep-result 1ms -- true
step --step 2 -- true
is "$(ls -d "$run"/*_"$job.3" 2>/dev/null)" "" "the next agent that starts removes one, too"
if command -v strace >/dev/null; then
	strace -f -e trace=fsync,renameat -o "$tmpdir/trace" \
		"$stepd" run --job "$job" --proctrack "$tracker" --keep-result 1h -- true
	is "$(grep -A9 'fsync' "$tmpdir/trace" | sed -n 's/^[0-9]* *\([a-z]\{2,\}\)(.*/\1/p' | tr '\n' ' ')" \
		"fsync renameat fsync " "it is synced before and after it gets its name"
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
	ok "$b: a step that lives is left alone" clean
	is "$(cat "$tmpdir/out" "$tmpdir/err")" "" "$b: without a word"
	pid=$(sed 's/.*"rank":0,"pid":\([0-9]*\).*/\1/' "$(dir_of 5)/state.json")
	kill -9 $agent
	wait $agent 2>/dev/null
	clean
	like "$(cat "$tmpdir/err")" "_$job.5.*its agent has died, and processes of it live: .stepd adopt. takes it over" \
		"$b: so is one whose processes live"
	out=$("$stepd" adopt --ended-only "$job.5" 2>&1)
	is $? 125 "$b: 'stepd adopt --ended-only' does not take it over"
	like "$out" "step $job.5 has processes that live" "$b: for that reason"
	ok "$b: and they still do" kill -0 "$pid"
	touch "$tmpdir/up"
	eventually sh -c "! kill -0 $pid || grep -q '^State:	Z' /proc/$pid/status"
	ok "$b: without them it goes" clean
	like "$(cat "$tmpdir/out")" "/[^ ]*_$job.5: left by an agent that died" "$b: which is told"
	is "$(ls "$(dir_of 5)")" result.json "$b: and its result stays"
	is "$(find /sys/fs/cgroup -type d -path "*job_$job/step_5")" "" "$b: but no cgroup"
	rm -f "$tmpdir/up"
	rm -rf "$(dir_of 5)"
done

# ---- an agent that starts tidies up, too -----------------------------------------------------
for b in $(backends); do
	UP=$tmpdir/up "$stepd" run -q --job "$job" --step 6 --proctrack "$b" --keep-result 1h -- \
		sh -c 'while [ ! -e "$UP" ]; do sleep 0.02; done' &
	agent=$!
	eventually running 6
	pid=$(sed 's/.*"rank":0,"pid":\([0-9]*\).*/\1/' "$(dir_of 6)/state.json")
	kill -9 $agent
	wait $agent 2>/dev/null
	rm -rf "$(dir_of 1)"
	NOTIFY_SOCKET=$tmpdir/nobody step --step 7 -- true 2>/dev/null
	ok "$b: what lives is left alone by the next agent" kill -0 "$pid"
	ok "$b: with what tells of it" test -e "$(dir_of 6)/state.json"
	touch "$tmpdir/up"
	eventually sh -c "! kill -0 $pid || grep -q '^State:	Z' /proc/$pid/status"
	step --step 7 -- sh -c 'exit 9'
	is $? 9 "$b: an agent that starts after it has ended runs its own step"
	is "$(ls "$(dir_of 6)")" result.json "$b: and brings the dead one's to its end: the result is there"
	like "$(cat "$(dir_of 6)/result.json")" '"step": "'"$job"'.6"' "$b: it is that step's"
	is "$(find /sys/fs/cgroup -type d -path "*job_$job/step_6")" "" "$b: no cgroup of it is left"
	rm -f "$tmpdir/up"
	rm -rf "$(dir_of 6)"
	printf '{"version": 1, "kind": "extern", "job": %s, "proctrack": "%s"}\n' "$job" "$b" >"$tmpdir/extern"
	"$stepd" serve -q --spec "$tmpdir/extern" --keep-result 1h &
	agent=$!
	eventually running extern
	kill -9 $agent
	wait $agent 2>/dev/null
	began=$(now_ms)
	step --step 7 -- true
	took=$(($(now_ms) - began))
	began=$(now_ms)
	step --step 7 -- true
	ok "$b: a dead agent's extern step without processes holds nobody up" no_slower $took $(($(now_ms) - began))
	is "$(ls "$(dir_of extern)")" result.json "$b: and comes to its end"
	rm -rf "$(dir_of extern)"
done

# ---- what is none of ours --------------------------------------------------------------------
mkdir "$run/some_thing" "$run/n1_7.0"
touch "$run/some_thing/precious" "$run/file" "$run/n1_7.0/lock"
touch -d '1 hour ago' "$run/some_thing" "$run/n1_7.0"
ln -s "$tmpdir" "$run/n1_8.0"
mkdir "$run/n1_9.0"
chmod go+w "$run/n1_9.0"
touch -d '1 hour ago' "$run/n1_9.0"
ok "hostile contents do no harm" clean
like "$(cat "$tmpdir/err")" "some_thing.*'precious' in it is no file of a step's" "what is no step's is left alone"
like "$(cat "$tmpdir/err")" "file.*it is no directory of a step's" "so is a file"
like "$(cat "$tmpdir/err")" "n1_8.0.*it is no directory of a step's" "and a symbolic link"
like "$(cat "$tmpdir/err")" "n1_9.0.*others may write to it" "and what others may write to"
ok "they are there" test -f "$run/some_thing/precious" -a -f "$run/file" -a -L "$run/n1_8.0" -a -d "$run/n1_9.0"
ok "what a dead agent had claimed and no more goes" test ! -e "$run/n1_7.0"
rm -rf "$run/some_thing" "$run/file" "$run/n1_8.0" "$run/n1_9.0"
if [ "$(id -u)" = 0 ]; then
	mkdir "$run/n1_9.0"
	touch "$run/n1_9.0/state.json"
	chown -R nobody "$run/n1_9.0"
	clean
	like "$(cat "$tmpdir/err")" "n1_9.0.*it belongs to uid" "and another user's"
	ok "which is there" test -f "$run/n1_9.0/state.json"
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
	like "$out" "status 125" "on a full disk no step is started"
	like "$out" "'$tmpdir/tiny/[^']*'.*No space left on device" "which is said in one sentence"
else
	skip 2 "needs root and a mount namespace"
fi
rm -rf "$(dir_of 0)" "$(dir_of 1)"
nothing_left "nothing is left"
done_testing
