#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# shellcheck disable=SC2016,SC2317 # texts are the tasks' scripts; functions are called by others
#
# Each limit against a program that goes beyond it, in the VM, which has all controllers. Of time
# only what can't be shorter, or the ratio of two that were measured together.
. "${top_srcdir:?}/tests/lib/step.sh"

[ "$tracker" = cgroup ] || bail "there is no cgroup tracker in the VM"
STEPD_CGROUP_ROOT=/sys/fs/cgroup # not in a scope: files are looked at by name
export STEPD_CGROUP_ROOT
step_dir=/sys/fs/cgroup/stepd/job_$job/step_0

# For tasks: $own is the directory of the task's cgroup, $own/.. the step's.
cat >"$tmpdir/lib" <<'E'
own=/sys/fs/cgroup$(sed -n 's/^0:://p' /proc/self/cgroup)
count() { # FILE KEY
	sed -n "s/^$2 //p" "$own/$1"
}
hog() { # takes 64 MiB and gives them back
	dd if=/dev/zero of=/dev/null bs=64M count=1 2>/dev/null
}
E

# run OPTION... -- SCRIPT: the script as a task, with what it says and its status.
run() {
	options=
	while [ "$1" != -- ]; do
		options="$options $1"
		shift
	done
	# shellcheck disable=SC2086 # words
	step -q $options -- sh -c ". '$tmpdir/lib'; $2" 2>&1
	echo "status $?"
}

# ---- memory ------------------------------------------------------------------------------------

is "$(run -- 'hog && echo whole')" "whole
status 0" "without a limit 64 MiB can be had"
out=$(run --mem 32M --mem-swap 0 -- 'exec dd if=/dev/zero of=/dev/null bs=64M count=1')
like "$out" "^status 137$" "a process above --mem is killed"
nothing_left "a step with a process killed above --mem leaves nothing behind"
out=$(run --mem 32M --mem-swap 0 -- 'hog || echo "hog $?"; count ../memory.events oom_kill; echo alive')
is "$(printf '%s\n' "$out" | grep -v '^stepd ')" "hog 137
1
alive
status 0" "its parent lives"
like "$out" "error: task 0 .* ran out of memory" "a task that ran out of memory is reported"
is "$(run --mem 33 --mem-high 1.5g --mem-swap 5K --task-mem max -- \
	'cd "$own/.."; cat memory.max memory.high memory.swap.max; cat "$own/memory.max"' | tr '\n' ' ')" \
	"34603008 1610612736 4096 max status 0 " "the memory limits are those of the cgroup's files"
out=$(run --mem-high 8M -- 'dd if=/dev/zero of='"$tmpdir"'/file bs=1M count=24 2>/dev/null
	[ "$(count ../memory.events high)" -gt 0 ] && echo slowed
	[ "$(cat "$own/../memory.current")" -lt 16000000 ] && echo reclaimed')
is "$out" "slowed
reclaimed
status 0" "above --mem-high memory is reclaimed, and nothing is killed"
rm -f "$tmpdir/file"

# Two tasks, of which one asks for too much.
cat >"$tmpdir/two" <<'E'
. "$1"
if [ "$SLURM_PROCID" = 1 ]; then
	exec dd if=/dev/zero of=/dev/null bs=64M count=1
fi
read -r word <"$2"
echo "task 0 $word"
E
mkfifo "$tmpdir/fifo"
"$stepd" run --job "$job" --proctrack cgroup -n 2 --task-mem 32M --task-mem-swap 0 \
	-- sh "$tmpdir/two" "$tmpdir/lib" "$tmpdir/fifo" >"$tmpdir/out" 2>/dev/null &
agent=$!
ok "the step runs" eventually running 0
# A task's group goes when the task has ended; only then the other is asked.
ok "a task above --task-mem is killed" eventually test ! -d "$step_dir/task_1"
echo lives >"$tmpdir/fifo"
wait $agent
is "$? $(cat "$tmpdir/out")" "137 task 0 lives" "the other task lives when one is above --task-mem"
nothing_left "the job leaves no cgroup, process or file behind"

group='sleep 60 & hog || echo "hog $?"; kill -0 $! && echo "all the others live"'
is "$(run --task-mem 32M --task-mem-swap 0 -- "$group" | grep -v '^stepd .*ran out of memory')" "hog 137
all the others live
status 0" "an OOM kill takes one process"
like "$(run --task-mem 32M --task-mem-swap 0 --task-oom-group -- "$group")" "^status 137$" \
	"--task-oom-group kills all processes of the task"
like "$(run --mem 32M --mem-swap 0 --oom-group -n 2 -- \
	'[ $SLURM_PROCID = 1 ] || exec sleep 60; hog; echo left')" "^status 137$" \
	"--oom-group kills all tasks of the step"
nothing_left "the job leaves no cgroup, process or file behind"

# ---- processes ---------------------------------------------------------------------------------

forks='for i in 1 2 3 4 5 6 7 8; do sleep 60 & done'
is "$(run --pids 16 -- "$forks; echo \$i")" "8
status 0" "below --pids all is well"
like "$(run --pids 6 -- "$forks")" "[Cc]annot fork" "a fork beyond --pids fails"
like "$(run --task-pids 6 -- "$forks")" "[Cc]annot fork" "a fork beyond --task-pids fails"
cat >"$tmpdir/bomb" <<'E'
bomb() {
	bomb | bomb &
}
(bomb) 2>/dev/null &
exec sleep 60
E
"$stepd" run -q --job "$job" --proctrack cgroup --pids 40 --kill-sequence KILL \
	-- sh "$tmpdir/bomb" 2>/dev/null &
agent=$!
ok "a fork bomb goes off" eventually running 0
is_refused() {
	cat "$step_dir/pids.events" "$step_dir/task_0/pids.events" | awk '/max/ { n += $2 } END { exit n < 20 }'
}
ok "its forks are refused" eventually is_refused
members=$("$stepctl" pids "$job.0" | wc -l)
ok "it has no more than 40 processes ($members)" test "$members" -le 40
kill -TERM $agent 2>/dev/null
wait $agent
nothing_left "a limited step leaves no cgroup, process or file behind"

# ---- CPUs --------------------------------------------------------------------------------------

cat >"$tmpdir/spin" <<'E'
. "$1"
usage() { # usec
	count cpu.stat usage_usec
}
uptime() { # hundredths of a second
	read -r up rest </proc/uptime
	echo "${up%.*}${up#*.}"
}
begin=$(uptime) before=$(usage)
while [ $(($(uptime) - begin)) -lt 300 ]; do
	i=0
	while [ $i -lt 2000 ]; do i=$((i + 1)); done
done
echo $((($(usage) - before) / 100 / ($(uptime) - begin))) # hundredths of a CPU
E
out=$(step -- sh "$tmpdir/spin" "$tmpdir/lib")
ok "without a limit a spinner takes most of a CPU ($out %)" test "$out" -gt 50
out=$(step --cpus 0.25 -- sh "$tmpdir/spin" "$tmpdir/lib")
ok "with --cpus 0.25 a quarter ($out %)" test "$out" -le 32
out=$(step --task-cpus .25 -- sh "$tmpdir/spin" "$tmpdir/lib")
ok "with --task-cpus too ($out %)" test "$out" -le 32
is "$(run --cpus 1.5 --task-cpus 0.5 --cpu-weight 250 --task-cpu-weight 7 -- \
	'cd "$own"; cat ../cpu.max cpu.max ../cpu.weight cpu.weight' | tr '\n' ' ')" \
	"150000 100000 50000 100000 250 7 status 0 " "the CPU limits are those of the cgroup's files"
allowed='sed -n "s/^$1_allowed_list:[[:space:]]*//p" /proc/self/status'
is "$(step --cpuset 1 -- sh -c "$allowed" sh Cpus)" 1 "--cpuset limits the CPUs of a process"
is "$(step --task-cpuset 0 -- sh -c "$allowed" sh Cpus)" 0 "--task-cpuset limits the CPUs of a task"
is "$(step --cpuset 0-1 --task-cpuset 1 -n 2 -- sh -c "$allowed" sh Cpus)" "1
1" "--task-cpuset is within --cpuset"
is "$(step --cpuset-mems 0 --task-cpuset-mems 0 -- sh -c "$allowed" sh Mems)" 0 "--cpuset-mems limits the nodes of a process"
is "$(step --cpuset 1 --cpu-bind rank -- sh -c "$allowed" sh Cpus)" 1 "a binding stays within the cpuset"
is "$(step --task-cpuset 1 --cpu-bind rank -- sh -c "$allowed" sh Cpus)" 1 "a binding stays within the task's cpuset"
step --cpuset 1 --cpu-bind map_cpu:0 -- true >"$tmpdir/out" 2>&1
is $? 125 "a binding outside of the cpuset is refused"
out=$(step --cpuset 0-7 -- touch "$tmpdir/started" 2>&1)
is $? 125 "missing CPUs in --cpuset are refused"
like "$out" "limits.cpuset_cpus: .*'0-7' names 2" "the refusal of missing CPUs names one"
ok "missing CPUs are refused before a task starts" test ! -e "$tmpdir/started"
out=$(step --task-cpuset-mems 3 -- true 2>&1)
is $? 125 "missing nodes in --task-cpuset-mems are refused"
like "$out" "task_limits.cpuset_mems: .*3" "the refusal of missing nodes names them"

# ---- disks -------------------------------------------------------------------------------------

disk=/dev/nvme0n1
if [ -b $disk ]; then
	numbers=$(cat /sys/block/${disk#/dev/}/dev)
	out=$(run --io-max $disk,rbps=1M,wiops=7 -- 'cat "$own/../io.max"; begin=$(date +%s)
		dd if='$disk' of=/dev/null bs=256K count=12 iflag=direct 2>/dev/null
		[ $(($(date +%s) - begin)) -ge 2 ] && echo slow')
	is "$out" "$numbers rbps=1048576 wbps=max riops=max wiops=7
slow
status 0" "3 MiB at --io-max 1 MiB a second take two seconds and more"
	out=$(step --io-max 259:999,rbps=1M -- true 2>&1)
	is $? 125 "a missing disk is refused"
	like "$out" "limits.io_max: .*259:999" "the refusal of a missing disk names it"
else
	not_ok "the VM has the disk $disk"
fi

# ---- changed while it runs ---------------------------------------------------------------------

cat >"$tmpdir/asked" <<'E'
. "$1"
while read -r word; do
	case $word in
	hog) hog && echo whole || echo killed ;;
	cpus) echo $(sed -n 's/^Cpus_allowed_list://p' /proc/self/status) ;;
	fork) (sleep 0 & wait; echo forked) 2>/dev/null || echo refused ;;
	esac
done <"$2.$SLURM_PROCID" >"$3.$SLURM_PROCID"
E
mkfifo "$tmpdir/go.0" "$tmpdir/go.1" "$tmpdir/said.0" "$tmpdir/said.1"
"$stepd" run -q --job "$job" --proctrack cgroup -n 2 --mem-swap 0 \
	-- sh "$tmpdir/asked" "$tmpdir/lib" "$tmpdir/go" "$tmpdir/said" 2>/dev/null &
agent=$!
exec 6>"$tmpdir/go.0" 7>"$tmpdir/go.1" 8<"$tmpdir/said.0" 9<"$tmpdir/said.1"
# asked RANK WORD WANTED NAME
asked() {
	if [ "$1" = 0 ]; then
		echo "$2" >&6
		read -r said <&8
	else
		echo "$2" >&7
		read -r said <&9
	fi
	is "$said" "$3" "$4"
}
set_limits() {
	ok "set-limits $* succeeds" "$stepctl" set-limits "$job.0" "$@"
}
ok "a step of two tasks runs" eventually running 0
asked 0 hog whole "a process has its memory before set-limits"
set_limits --mem 32M
asked 0 hog killed "a process above the step's new limit is killed"
asked 1 hog killed "a process of the other task above the step's new limit is killed"
set_limits --mem 200M
asked 0 hog whole "a process has its memory after the step's limit was raised"
set_limits --task 1 --mem 32M --mem-swap 0
asked 1 hog killed "a process above the task's new limit is killed"
asked 0 hog whole "a process of the other task has its memory"
set_limits --task=1 --mem max
asked 1 hog whole "max removes the task's memory limit"
asked 0 cpus 0-1 "a task has all CPUs before set-limits"
set_limits --cpuset 1
asked 0 cpus 1 "a task has one CPU after set-limits"
set_limits --cpuset max
asked 0 cpus 0-1 "a task has all CPUs after the limit was removed"
fails "no rank that isn't there" "$stepctl" set-limits "$job.0" --task 2 --pids 3
ok "set-limits for a missing rank makes no cgroup" test ! -d "$step_dir/task_2"
out=$("$stepctl" set-limits "$job.0" --pids 90 --cpuset 0-9 2>&1)
isnt $? 0 "set-limits with a limit that can't be had fails"
like "$out" "limits.cpuset_cpus: " "the failure of set-limits names the limit"
out=$("$stepctl" set-limits "$job.0" --cpu-weight 77 --cpuset 0-9 --limits=best-effort 2>&1)
is "$? $(cat "$step_dir/cpu.weight")" "0 77" "set-limits with best effort sets the other limits"
like "$out" "limits.cpuset_cpus: .*, ignoring" "set-limits with best effort warns"
out=$(cd / && setpriv --reuid=nobody --clear-groups "$stepctl" set-limits --runtime-dir "$run" "$job.0" --pids 77 2>&1)
is "$? $(cat "$step_dir/pids.max")" "3 90" "set-limits of another user changes nothing"
like "$out" "SetLimits: PermissionDenied: .*root" "the refusal of another user's set-limits has the reason"
set_limits --task 0 --pids 2
asked 1 fork forked "a task without a limit of processes forks"
echo fork >&6
ok "a fork of the limited task is refused" eventually grep -q '^max [1-9]' "$step_dir/task_0/pids.events" "$step_dir/pids.events"
exec 7>&- # the task's input ends, and so does it
ok "a task ends" eventually test ! -d "$step_dir/task_1"
like "$("$stepctl" set-limits "$job.0" --task 1 --pids 3 2>&1)" "NoSuchTask" "set-limits for an ended task fails"
ok "set-limits for an ended task makes no cgroup" test ! -d "$step_dir/task_1"
kill -TERM $agent
wait $agent
exec 6>&- 8<&- 9<&-
nothing_left "the job leaves no cgroup, process or file behind"

# Two spinners on one CPU share it by their weights.
"$stepd" run -q --job "$job" --proctrack cgroup -n 2 --cpuset 0 --task-cpu-weight 100 \
	-- sh -c 'while :; do :; done' 2>/dev/null &
agent=$!
ok "two spinners run on one CPU" eventually running 0
set_limits --task 1 --cpu-weight 1000
usage() { # RANK
	sed -n 's/^usage_usec //p' "$step_dir/task_$1/cpu.stat"
}
first=$(usage 0) second=$(usage 1)
sleep 4
first=$(($(usage 0) - first)) second=$(($(usage 1) - second))
ok "ten times the weight is more than four times the CPU time ($second : $first usec)" \
	test "$second" -gt $((first * 4))
kill -TERM $agent
wait $agent
nothing_left "the job leaves no cgroup, process or file behind"

# What others put into an extern step is limited as well.
"$stepd" run -q --job "$job" --proctrack cgroup --extern --pids 4 2>/dev/null &
agent=$!
ok "an extern step runs" eventually running extern
like "$(sh -c "echo \$\$ >${step_dir%/*}/step_extern/cgroup.procs && $forks" 2>&1)" "[Cc]annot fork" \
	"a process added to an extern step has its limits"
kill -TERM $agent
wait $agent
nothing_left "the job leaves no cgroup, process or file behind"

# ---- a place without controllers ---------------------------------------------------------------

none=/sys/fs/cgroup/bed-$job/none
mkdir -p "$none"
at_exit 'rmdir $none/stepd $none ${none%/*} 2>/dev/null'
out=$(step --cgroup-root "$none" --mem 1G -- touch "$tmpdir/started" 2>&1)
is $? 125 "a limit without its controller is refused"
like "$out" "limits.memory_max_bytes: .*memory controller is not switched on in '${none%/*}/cgroup.subtree_control'" \
	"the refusal of a limit without its controller names the cgroup"
ok "a limit without its controller is refused before a task starts" test ! -e "$tmpdir/started"
out=$(step --cgroup-root "$none" --limits=best-effort --mem 1G --task-pids 9 --device default -- \
	sh -c 'echo ran; true </dev/mem' 2>&1)
like "$out" "^ran$" "a step with best effort runs without controllers"
is "$(printf '%s\n' "$out" | sed -n 's/.*warning: \([a-z_.]*\): .*, ignoring/\1/p' | tr '\n' ' ')" \
	"limits.memory_max_bytes task_limits.pids_max " "best effort warns of each limit without its controller"
like "$out" "/dev/mem: Operation not permitted" "a device limit needs no controller"
nothing_left "the job leaves no cgroup, process or file behind"

# A limit of nearly each kind at once, for many tasks.
out=$(step -n 32 --mem 1G --mem-high 900M --mem-swap 0 --oom-group --pids 500 --cpus 2 --cpu-weight 50 \
	--cpuset 0-1 --cpuset-mems 0 --device default --task-mem 100M --task-pids 5 --task-cpus 1 \
	--task-device default -- true 2>&1)
is "$? $out" "0 " "32 tasks with nearly all limits run"
nothing_left "the job leaves no cgroup, process or file behind"
done_testing
