#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Tasks that join a step are tasks as all others: for questions, signals, limits, accounts, and for
# whose they are.
. "${top_srcdir:?}/tests/lib/step.sh"
. "$top_srcdir/tests/lib/spawn.sh"

varlink() {
	"$top_srcdir/tests/lib/varlink.py" "$@"
}
call() {
	varlink call "$run"/*_"$job.0"/socket "$@"
}
said() {
	grep -q "$1" "$tmpdir/out"
}

for tracker in $(backends); do
	: >"$tmpdir/out" # of the one before
	spawning --proctrack "$tracker" -n 1 --usage --result "$tmpdir/r" sh -c "$asks"'
		one 7 100 2 "[\"sh\",\"-c\",\"sleep 99 & exec sleep 98\"]"; echo "$answer"; exec sleep 97' \
		>"$tmpdir/out" 2>"$tmpdir/err" &
	agent=$!
	eventually said locals
	call ListTasks >"$tmpdir/tasks"
	like "$(cat "$tmpdir/tasks")" '"rank": ?101,.*"local_id": ?2,.*"spawn": ?7' "$tracker: ListTasks has them"
	ok "$tracker: and so has state.json" sh -c "grep -q '{\"rank\":101,\"pid\":[0-9]*,\"spawn\":7}' '$run'/*_'$job.0'/state.json"
	like "$("$stepctl" show "$job.0")" '101' "$tracker: stepctl show tells them"
	ok "$tracker: their processes by their rank" eventually sh -c "[ \$('$stepctl' pids '$job.0/101' | wc -l) = 2 ]"
	like "$(call ListTasks '{"ranks":"102"}' 2>&1)" 'NoSuchTask' "$tracker: a rank that is none"
	like "$("$stepctl" find "$("$stepctl" pids "$job.0/100" | head -1)")" "100" "$tracker: whose a process is"
	like "$("$stepctl" usage "$job.0" 2>&1)" '101' "$tracker: what they use"
	ok "$tracker: a signal to one of them" "$stepctl" signal -s KILL "$job.0/100"
	ok "$tracker: ends its processes" eventually sh -c "! '$stepctl' pids '$job.0/100' | grep -q ."
	like "$(call ListTasks '{"ranks":"100"}')" '"wait_status": ?9' "$tracker: and it alone"
	like "$(call ListTasks '{"ranks":"101"}')" '"running"' "$tracker: not the other"
	"$stepctl" terminate --now "$job.0"
	wait "$agent"
	ok "$tracker: the accounts have them" holds "$tmpdir/r" 'all("usage" in t or "cpu_usec" in t or len(t) > 6 for t in r["tasks"])'
	like "$(cat "$run"/*_"$job.0"/events.jsonl 2>/dev/null; cat "$tmpdir/err")" . "$tracker: a table is printed"
	nothing_left "$tracker: nothing is left"
done

if "$stepd" run --job "$job" --proctrack cgroup --task-pids 20 -- true 2>/dev/null; then
	out=$(spawning --proctrack cgroup --task-pids 20 -n 1 sh -c "$asks"'
		one 1 1 2 "[\"sh\",\"-c\",\"cat /sys/fs/cgroup/unified\$(sed -n s/^0:://p /proc/self/cgroup)/pids.max || cat /sys/fs/cgroup\$(sed -n s/^0:://p /proc/self/cgroup)/pids.max\"]"')
	is "$out" "20
20" "limits of each task are theirs, too"
else
	skip 1 "needs the pids controller"
fi

if [ "$(id -u)" = 0 ]; then
	chmod 1777 "$tmpdir"
	out=$(spawning --proctrack "$tracker" --uid nobody -n 1 sh -c "$asks"'one 1 1 1 "[\"id\",\"-un\"]"' 2>"$tmpdir/err")
	is "$out" nobody "they are the user's"
	out=$(spawning --proctrack "$tracker" --uid nobody --rlimit nofile=100 -n 1 sh -c "$asks"'one 1 1 1 "[\"sh\",\"-c\",\"ulimit -n; ls /proc/self/fd | wc -l\"]"' 2>"$tmpdir/err")
	is "$(echo $out)" "100 5" "with the step's limits, and no descriptor but their own"
	nothing_left "nothing is left"
fi
done_testing
