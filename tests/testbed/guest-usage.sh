#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# With all controllers: values of usage against the files they are from, and who ran out of memory.
. "${top_srcdir:?}/tests/lib/step.sh"

root=/sys/fs/cgroup
STEPD_CGROUP_ROOT=$root # not in a scope: files are looked at by name
export STEPD_CGROUP_ROOT
group=$root/stepd/job_$job/step_0

# value NAME [TASK]: of "stepctl usage --json", or a result, in $tmpdir/json; of the step, or of the n-th task.
value() {
	awk -v want="\"$1\":" -v task="${2-}" '
		/^ *"tasks": \[/ { tasks = 1; match($0, /^ */); depth = RLENGTH }
		/^ *\]/ { match($0, /^ */); if (RLENGTH == depth) tasks = 0 }
		/"rank":/ { at = $2 + 0 }
		$1 == want && $2 ~ /^[0-9]/ && ((!tasks && task == "") || (tasks && task != "" && at == task)) { print $2 + 0; exit }
	' "$tmpdir/json"
}
key() { # FILE KEY
	awk -v key="$2" '$1 == key { print $2 }' "$1"
}
total() { # FILE of pressure
	sed -n 's/^some .*total=//p' "$1"
}
bytes() { # io.stat KEY
	awk -v key="$2" '{ for (i = 2; i <= NF; i++) if (split($i, p, "=") == 2 && p[1] == key) n += p[2] } END { print n + 0 }' "$1"
}
# What the files of a group say, in the order of the values' table.
files() { # GROUP
	echo "cpu_user_usec $(key "$1/cpu.stat" user_usec)"
	echo "cpu_system_usec $(key "$1/cpu.stat" system_usec)"
	echo "cpu_throttled_usec $(key "$1/cpu.stat" throttled_usec)"
	echo "memory_bytes $(cat "$1/memory.current")"
	echo "memory_peak_bytes $(cat "$1/memory.peak")"
	echo "swap_bytes $(cat "$1/memory.swap.current")"
	echo "page_faults $(key "$1/memory.stat" pgfault)"
	echo "major_faults $(key "$1/memory.stat" pgmajfault)"
	echo "oom_events $(key "$1/memory.events" oom)"
	echo "oom_kills $(key "$1/memory.events" oom_kill)"
	echo "pids_max_events $(key "$1/pids.events" max)"
	echo "io_read_bytes $(bytes "$1/io.stat" rbytes)"
	echo "io_write_bytes $(bytes "$1/io.stat" wbytes)"
	echo "cpu_pressure_usec $(total "$1/cpu.pressure")"
	echo "memory_pressure_usec $(total "$1/memory.pressure")"
	echo "io_pressure_usec $(total "$1/io.pressure")"
}

# ---- every value ------------------------------------------------------------------------------
# Each task throttles itself, reads and writes a disk, has a fork refused, and then sleeps.
cat >"$tmpdir/work" <<'X'
g=/sys/fs/cgroup$(sed s/0::// /proc/self/cgroup)
d=/sys/fs/cgroup # by default the step has no use for this controller
for name in . stepd "$2" step_0; do
	d=$d/$name
	echo +cpu >$d/cgroup.subtree_control
done
echo '5000 100000' >"$g/cpu.max"
i=0; while [ $i -lt 3000 ]; do i=$((i + 1)); done
echo max >"$g/cpu.max"
dd if=/dev/zero of="$1.$SLURM_PROCID" bs=1M count=2 conv=fsync 2>/dev/null
echo 3 >/proc/sys/vm/drop_caches
dd if="$1.$SLURM_PROCID" of=/dev/null bs=1M 2>/dev/null
sh -c 'echo 1 >"$0/pids.max"; (:)' "$g" 2>/dev/null
echo max >"$g/pids.max"
: >"$1.$SLURM_PROCID.done"
exec sleep 99
X
on_disk=/var/tmp/stepd-usage-$$
at_exit "rm -f $on_disk.*"
"$stepd" run --job "$job" -n 2 --result "$tmpdir/r" -- sh "$tmpdir/work" "$on_disk" "job_$job" 2>"$tmpdir/err" &
agent=$!
eventually sh -c "[ -e $on_disk.0.done ] && [ -e $on_disk.1.done ]" || bail "$(cat "$tmpdir/err")"
sleep 1
files "$group" >"$tmpdir/before"
files "$group/task_1" >"$tmpdir/before.1"
"$stepctl" usage --json "$job.0" >"$tmpdir/json"
files "$group" >"$tmpdir/after"
files "$group/task_1" >"$tmpdir/after.1"
compare() { # SUFFIX TASK WHAT
	while read -r name least; do
		most=$(key "$tmpdir/after$1" "$name")
		got=$(value "$name" "$2")
		if [ -n "$least" ] && [ -n "$got" ] && [ "$got" -ge "$least" ] && [ "$got" -le "$most" ]; then
			ok "$3: $name is that of the cgroup's file"
		else
			not_ok "$3: $name is that of the file" "got '$got', the file had '$least', then '$most'"
		fi
	done <"$tmpdir/before$1"
}
# What the step forgets of groups that are gone, or the kernel keeps per group only, is compared
# for the task.
grep -v pids_max_events "$tmpdir/before" >"$tmpdir/some"
mv "$tmpdir/some" "$tmpdir/before"
compare '' '' step
compare .1 1 "task 1"
is "$(value pids_max_events)" "$(($(value pids_max_events 0) + $(value pids_max_events 1)))" \
	"the forks refused of a step are those of its tasks"
for name in cpu_throttled_usec io_read_bytes io_write_bytes pids_max_events page_faults; do
	ok "$name has something to tell" test "$(value $name 1)" -gt 0
done
is "$(value processes) $(value processes 1)" "2 1" "usage counts the processes that live"
unlike "$(sed 's/.*_sources//' "$tmpdir/json")" '"(proc|rusage)"' "all values of usage come from the cgroups"
kill -TERM $agent
wait $agent
like "$(grep -A3 '"rank": 1' "$tmpdir/r")" '"pid"' "the result has the task"
cp "$tmpdir/r" "$tmpdir/json"
ok "its values at the end are no less than before" test "$(value io_write_bytes 1)" -ge \
	"$(key "$tmpdir/before.1" io_write_bytes)"
is "$(value pids_max_events)" "$(($(value pids_max_events 0) + $(value pids_max_events 1)))" \
	"the values of the step are still those of its tasks"

# ---- out of memory ------------------------------------------------------------------------------
cat >"$tmpdir/hog" <<'X'
g=/sys/fs/cgroup$(sed s/0::// /proc/self/cgroup)
if [ "$1" = nested ]; then
	mkdir "$g/inner" && echo $$ >"$g/inner/cgroup.procs" && echo +memory >"$g/cgroup.subtree_control"
	g=$g/inner
fi
echo 16M >"$g/memory.max"
[ ! -e "$g/memory.swap.max" ] || echo 0 >"$g/memory.swap.max"
tail /dev/zero
: >"$0.over"
X
two="[ \$SLURM_PROCID = 1 ] || exec"
step -n 2 --result "$tmpdir/r" -- sh -c "$two true; sh $tmpdir/hog; exit 0" 2>"$tmpdir/err"
is $? 0 "a task whose child is killed for want of memory ends as it will"
like "$(grep -A6 '"rank": 1' "$tmpdir/r")" '"text": "exited with status 0, out of memory"' "the text of a task whose child ran out of memory reports it"
like "$(grep -A9 '"rank": 1' "$tmpdir/r")" '"oom_killed": true' "a task whose child ran out of memory has oom_killed"
like "$(grep -A9 '"rank": 0' "$tmpdir/r")" '"oom_killed": false' "the other task does not have oom_killed"
like "$(grep -A9 '"rank": 1' "$tmpdir/r")" '"oom_kills": 1' "the task has the number of its processes that were killed"
like "$(grep -A9 '"rank": 0' "$tmpdir/r")" '"oom_kills": 0' "and the other task has none"
is "$(grep -c '"oom_killed": true' "$tmpdir/r")" 2 "the step has the task's oom_killed"
like "$(cat "$tmpdir/r")" '"reason": "completed"' "the step of a task whose child ran out of memory completed"
like "$(cat "$tmpdir/err")" 'task 1 \(pid [0-9]+\) ran out of memory: the kernel killed 1 process of it; its peak was 16\.0 MiB' \
	"the log of a task that ran out of memory names task, pid and peak"
is "$(grep -c 'ran out of memory' "$tmpdir/err")" 1 "a task that ran out of memory is logged once"
cp "$tmpdir/r" "$tmpdir/json"
is "$(value oom_kills) $(value oom_kills 0) $(value oom_kills 1)" "1 0 1" "usage has the counts of OOM kills"
is "$(value memory_peak_bytes 1)" 16777216 "usage has the peak memory, which is the limit"

step -n 2 --result "$tmpdir/r" -- sh -c "$two true; sh $tmpdir/hog nested; exit 7" 2>"$tmpdir/err"
is $? 7 "a step whose task's own cgroup runs out of memory ends with the task's status"
like "$(grep -A9 '"rank": 1' "$tmpdir/r")" '"oom_killed": true' "an OOM kill in a task's own cgroup counts for the task"

step -n 2 -- sh -c "$two true; exec sh $tmpdir/hog" 2>"$tmpdir/err"
like "$(cat "$tmpdir/err")" 'task 1 .*ran out of memory' "an OOM kill is logged without --usage"

step -n 2 --oom-kill-step --result "$tmpdir/r" -- sh -c "$two sleep 99; sh $tmpdir/hog; exec sleep 99" 2>"$tmpdir/err"
is $? 122 "--oom-kill-step ends the step"
like "$(cat "$tmpdir/r")" '"reason": "oom"' "the reason of --oom-kill-step is oom"
like "$(grep -A3 '"rank": 0' "$tmpdir/r")" 'on request"' "--oom-kill-step ends the other task on request"
like "$(cat "$tmpdir/err")" "a task ran out of memory: ending the step" "the log reports --oom-kill-step"

# The step's own limit: who was killed is known all the same.
step -n 2 --mem 24M --mem-swap 0 --result "$tmpdir/r" -- sh -c "$two sleep 3; tail /dev/zero; exit 0" 2>"$tmpdir/err"
is $? 0 "a step with an OOM kill by its own limit ends with its tasks' status"
like "$(grep -A9 '"rank": 1' "$tmpdir/r")" '"oom_killed": true' "the task killed by the step's limit has oom_killed"
like "$(grep -A9 '"rank": 0' "$tmpdir/r")" '"oom_killed": false' "the other task does not have oom_killed by the step's limit"
cp "$tmpdir/r" "$tmpdir/json"
is "$(value memory_peak_bytes)" 25165824 "the step's peak is its limit"

cat >"$tmpdir/own" <<'X'
g=/sys/fs/cgroup$(sed s/0::// /proc/self/cgroup)
echo 16M >"$g/memory.max"
exec tail /dev/zero
X
step -n 2 --oom-kill-step --result "$tmpdir/r" -- sh -c "$two sleep 99; exec sh $tmpdir/own" 2>"$tmpdir/err"
is $? 122 "--oom-kill-step ends the step where a task's first process is killed"
like "$(grep -A3 '"rank": 1' "$tmpdir/r")" '"killed by signal 9 \(KILL\), out of memory"' "the text of a task whose first process is killed reports it"
step --oom-kill-step -- sh "$tmpdir/own" 2>"$tmpdir/err"
is $? 122 "--oom-kill-step ends the step where its only process is killed"

# Who follows a step knows why its task was killed before it hears of the end, although the kernel tells of the kill
# up to 10 ms later.
order=''
for i in 1 2 3 4 5 6 7 8; do
	rm -f "$tmpdir/go"
	start_agent "$i" --proctrack "$tracker" -- \
		sh -c "until [ -e $tmpdir/go ]; do sleep 0.1; done; exec sh $tmpdir/own"
	exec 9<"$(step_dir "$i")/events.jsonl"
	touch "$tmpdir/go"
	wait "$agent"
	order="$order $(sed -n 's/.*"kind": *"\(oom\|task_exit\)".*/\1/p' <&9 | tr '\n' ',')"
	exec 9<&-
done
is "$order" " oom,task_exit, oom,task_exit, oom,task_exit, oom,task_exit, oom,task_exit, oom,task_exit, oom,task_exit, oom,task_exit," \
	"that a task ran out of memory is recorded before its end"

# What a task has left behind, when the task itself has ended.
step -n 1 --wait-background --result "$tmpdir/r" -- sh -c "(sh $tmpdir/hog) & exit 0" 2>"$tmpdir/err"
like "$(cat "$tmpdir/r")" '"text": "exited with status 0, out of memory"' \
	"what a task left behind counts for it after its end"
nothing_left "the job leaves no cgroup, process or file behind"
done_testing
