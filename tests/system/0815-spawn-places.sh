#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Tasks that join a step are tasks as all others: for questions, signals, limits, accounts, and for
# whose they are.
. "${top_srcdir:?}/tests/lib/control.sh"
. "$top_srcdir/tests/lib/spawn.sh"

for tracker in $(backends); do
	: >"$tmpdir/out" # of the one before
	spawning --proctrack "$tracker" -n 1 --usage --result "$tmpdir/r" sh -c "$requests"'
		one 7 100 2 "[\"sh\",\"-c\",\"sleep 99 & exec sleep 98\"]"; echo "$answer"; exec sleep 97' \
		>"$tmpdir/out" 2>"$tmpdir/err" &
	agent=$!
	eventually has_output locals
	is "$(request ListTasks | json_get - '[[t["rank"], t["local_id"], t.get("spawn")] for t in p["tasks"]]')" \
		"[[0, 0, null], [100, 1, 7], [101, 2, 7]]" "$tracker: ListTasks has the spawned tasks"
	is "$(state_of 0 '[[t["rank"], t.get("spawn")] for t in tasks]')" "[[0, null], [100, 7], [101, 7]]" \
		"$tracker: state.json has the spawned tasks"
	like "$("$stepctl" show "$job.0")" '101' "$tracker: stepctl show has the spawned tasks"
	ok "$tracker: stepctl pids has a spawned task's processes" eventually sh -c "[ \$('$stepctl' pids '$job.0/101' | wc -l) = 2 ]"
	is "$(request ListTasks '{"ranks":"102"}' | json_get - error)" io.stepd.Step.NoSuchTask \
		"$tracker: ListTasks of a rank beyond the spawned ones is refused"
	like "$("$stepctl" find "$("$stepctl" pids "$job.0/100" | head -1)")" "100" \
		"$tracker: stepctl find names a spawned task"
	like "$("$stepctl" usage "$job.0" 2>&1)" '101' "$tracker: stepctl usage has the spawned tasks"
	ok "$tracker: a signal to a spawned task succeeds" "$stepctl" signal -s KILL "$job.0/100"
	ok "$tracker: SIGKILL to a spawned task ends its processes" eventually sh -c "! '$stepctl' pids '$job.0/100' | grep -q ."
	is "$(request ListTasks '{"ranks":"100"}' | json_get - 'p["tasks"][0]["wait_status"]')" 9 \
		"$tracker: ListTasks has the status of a killed spawned task"
	is "$(request ListTasks '{"ranks":"101"}' | json_get - 'p["tasks"][0]["state"]')" running \
		"$tracker: SIGKILL to a spawned task does not end the other"
	"$stepctl" terminate --now "$job.0"
	wait "$agent"
	is "$(json_get "$tmpdir/r" 'all("usage" in t for t in tasks)')" true \
		"$tracker: the result has the usage of spawned tasks"
	like "$(cat "$tmpdir/err")" "^Usage of step" "$tracker: a table of usage is printed"
	nothing_left "$tracker: the job leaves no cgroup, process or file behind"
done

if "$stepd" run --job "$job" --proctrack cgroup --task-pids 20 -- true 2>/dev/null; then
	out=$(spawning --proctrack cgroup --task-pids 20 -n 1 sh -c "$requests"'
		one 1 1 2 "[\"sh\",\"-c\",\"cat /sys/fs/cgroup/unified\$(sed -n s/^0:://p /proc/self/cgroup)/pids.max || cat /sys/fs/cgroup\$(sed -n s/^0:://p /proc/self/cgroup)/pids.max\"]"')
	is "$out" "20
20" "spawned tasks have the limits of each task"
else
	skip 1 "needs the pids controller"
fi

if [ "$(id -u)" = 0 ]; then
	chmod 1777 "$tmpdir"
	out=$(spawning --proctrack "$tracker" --uid nobody -n 1 sh -c "$requests"'one 1 1 1 "[\"id\",\"-un\"]"' 2>"$tmpdir/err")
	is "$out" nobody "spawned tasks run as the step's user"
	out=$(spawning --proctrack "$tracker" --uid nobody --rlimit nofile=100 -n 1 sh -c "$requests"'one 1 1 1 "[\"sh\",\"-c\",\"ulimit -n; ls /proc/self/fd | wc -l\"]"' 2>"$tmpdir/err")
	is "$(echo $out)" "100 5" "spawned tasks have the step's limits, and no descriptor but their own"
	nothing_left "the job leaves no cgroup, process or file behind"
fi
done_testing
