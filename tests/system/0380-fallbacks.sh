#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Where the kernel, or the place of the container, does not give what the launch would like.
. "${top_srcdir:?}/tests/lib/step.sh"

without=${top_builddir:?}/tests/lib/without
# The system calls are missing on their own and all together.
for calls in clone3 close_range keyctl "clone3 close_range keyctl"; do
	for b in $(backends); do
		case "$b $calls" in
		"pgid "*clone3*) continue ;; # its placeholder is made by clone3(2): Linux 5.3, as pidfds are
		esac
		# shellcheck disable=SC2086 # $calls is words
		out=$(timeout 900 "$without" $calls -- "$stepd" run --job "$job" --proctrack "$b" -n 3 -- \
			sh -c 'sleep 99 & exec ls /proc/self/fd' 2>&1 | sort | uniq -c | tr -s ' \n' ' ')
		is "$out" " 3 0 3 1 3 2 3 3 " "$b without $calls: the step runs, and its tasks have no descriptors too many"
		# The MPI service process is born as tasks are, or moves.
		# shellcheck disable=SC2016,SC2086 # the task's variable; words
		out=$(timeout 900 "$without" $calls -- "$stepd" run --job "$job" --proctrack "$b" --mpi pmi2 -n 2 -- \
			sh -c 'echo "$PMI_SIZE"' 2>&1 | sort | uniq -c | tr -s ' \n' ' ')
		is "$out" " 2 2 " "$b without $calls: a step with an MPI service process runs"
		nothing_left "$b without $calls: the job leaves no cgroup, process or file behind"
	done
done

# A group that was once killed kills at birth whatever is cloned below it, and no file shows it.
if backends | grep -qx cgroup && [ "$(id -u)" = 0 ]; then
	mount=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
	poisoned=$mount/stepd-test-poisoned-$$
	mkdir "$poisoned"
	at_exit "rmdir '$poisoned'"
	echo 1 >"$poisoned/cgroup.kill"
	out=$(step --proctrack cgroup --cgroup-root "$poisoned" -n 3 -- grep -c "0::.*stepd-test-poisoned-$$" /proc/self/cgroup)
	is $? 0 "below a group that was once killed a step runs"
	is "$(echo $out)" "1 1 1" "each task below a once killed group is in its container"
	is "$(find "$poisoned" -mindepth 1 -type d)" "" "the step leaves no cgroup in a once killed group"
	out=$(step --no-hold --proctrack cgroup --cgroup-root "$poisoned" -n 3 -- grep -c "/step_0" /proc/self/cgroup)
	is "$(echo $out)" "1 1 1" "no task runs outside of its container with --no-hold"
	# As many as the launcher makes, with and without streams that it makes, too.
	for how in --quiet --no-hold --label; do
		out=$(step $how --proctrack cgroup --cgroup-root "$poisoned" -n 5 -- sed -n "s,^0::.*/task_,,p" /proc/self/cgroup)
		is "$(echo "$out" | sed 's/^[0-9]: //' | sort | xargs)" "0 1 2 3 4" \
			"$how: tasks of the launcher run in their groups below a once killed group, each once"
	done
	# The MPI service process is what is born first there; it counts its lines: the tasks, and itself.
	# shellcheck disable=SC2016 # the task's $0
	out=$(step --proctrack cgroup --cgroup-root "$poisoned" --mpi pmi2 -n 2 -- \
		sh -c 'sed -n "s,^0::\(.*\)/members/task_[01]$,\1,p" /proc/self/cgroup | while read -r step; do
			wc -l <"$0$step/service/cgroup.procs"; done' "$mount")
	is "$(echo $out)" "1 1" "below a once killed group the MPI service process and its tasks are in their groups"
	is "$(find "$poisoned" -mindepth 1 -type d)" "" "an MPI step leaves no cgroup in a once killed group"
else
	skip 9 "needs proctrack/cgroup and root"
fi

# Processes that SIGKILL does not end are named, and the agent does not wait for ever.
mkdir "$tmpdir/plugins"
cp "$top_builddir"/stepd/cli/plugins/mpi_none.so "$top_builddir/tests/lib/plugins/proctrack_stubborn.so" \
	"$tmpdir/plugins"
chmod go-w "$tmpdir"/plugins/*
"$stepd" run --job "$job" --plugin-dir "$tmpdir/plugins" --proctrack stubborn -n 2 --result "$tmpdir/r" \
	--time-limit 0.1s --kill-sequence CONT,KILL --unkillable-timeout 0.2s -- sleep 99 2>"$tmpdir/err"
is $? 123 "unkillable processes give 123"
pid=$(json_get "$tmpdir/r" 'tasks[0]["pid"]')
like "$(cat "$tmpdir/err")" "SIGKILL did not end pid $pid \(sleep\) state S" \
	"each unkillable process is named with command and state"
like "$(json_get "$tmpdir/r" unkillable)" "pid $pid \(sleep\) state S" \
	"the result names the unkillable processes"
like "$("$stepctl" list)" "^$job.0 .*unkillable .* gone\$" \
	"stepctl list shows an unkillable step whose agent has not died"
is "$(json_get "$tmpdir/r" 'tasks[0]["text"]')" \
	"given up: it could not be killed" "the result of an unkillable step names no task as running"
for pid in $(json_get "$tmpdir/r" '" ".join(str(t["pid"]) for t in tasks)'); do
	kill -9 "$pid"
done
eventually sh -c "! kill -0 $pid"
ok "the step starts again once the unkillable processes have ended" step -- true
nothing_left "the job leaves no cgroup, process or file behind"
done_testing
