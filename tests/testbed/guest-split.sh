#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# shellcheck disable=SC2016,SC2317 # texts are the tasks' scripts; functions are called by others
#
# A step with an MPI service process under real controllers: the step's memory is that of its members
# and its service together, its processes are the members', and only members are killed for memory or
# stand still in a suspended step.
. "${top_srcdir:?}/tests/lib/step.sh"

[ "$tracker" = cgroup ] || bail "there is no cgroup tracker in the VM"
STEPD_CGROUP_ROOT=/sys/fs/cgroup # not in a scope: files are looked at by name
export STEPD_CGROUP_ROOT
step_dir=/sys/fs/cgroup/stepd/job_$job/step_0

# Tasks that do what they read.
cat >"$tmpdir/asked" <<'E2'
while read -r word; do
	case $word in
	hog) dd if=/dev/zero of=/dev/null bs=96M count=1 2>/dev/null && echo whole || echo killed ;;
	fork) (for i in 1 2 3 4 5 6 7 8; do sleep 60 & done) >/dev/null 2>&1 && echo forked || echo refused ;;
	esac
done <"$1.$SLURM_PROCID" >"$2.$SLURM_PROCID"
E2
mkfifo "$tmpdir/go.0" "$tmpdir/go.1" "$tmpdir/said.0" "$tmpdir/said.1"

start() { # OPTION...
	"$stepd" run -q --job "$job" --proctrack cgroup --mpi pmi2 -n 2 --mem-swap 0 "$@" \
		-- sh "$tmpdir/asked" "$tmpdir/go" "$tmpdir/said" 2>"$tmpdir/err" &
	agent=$!
	exec 6>"$tmpdir/go.0" 7>"$tmpdir/go.1" 8<"$tmpdir/said.0" 9<"$tmpdir/said.1"
	eventually running 0
	service=$(cat "$step_dir/service/cgroup.procs")
}
finish() { # NAME
	kill -TERM "$agent" 2>/dev/null
	wait "$agent"
	exec 6>&- 7>&- 8<&- 9<&-
	nothing_left "$1: the job leaves no cgroup, process or file behind"
}
asked() { # WORD WANTED NAME, of task 0
	echo "$1" >&6
	read -r said <&8
	is "$said" "$2" "$3"
}
serves() { # NAME
	is "$(cat "$step_dir/service/cgroup.procs")" "$service" "$1"
}
key() { # FILE KEY
	sed -n "s/^$2 //p" "$step_dir/$1"
}

# ---- memory ------------------------------------------------------------------------------------

start --mem 64M
like "$service" '^[0-9]+$' "the step has a service process in a group of its own"
is "$(cat "$step_dir/memory.max" "$step_dir/members/memory.max" "$step_dir/service/memory.max" | tr '\n' ' ')" \
	"67108864 max max " "the memory limit is set on the cgroup above members and service"
asked hog killed "a process of a task above the memory limit is killed"
is "$(key memory.events oom_kill)" 1 "one process is killed above the memory limit"
serves "the service is not"
ok "the agent reports which task ran out of memory" eventually grep -q "task 0 .* ran out of memory" "$tmpdir/err"
ok "the limit is raised while the step runs" "$stepctl" set-limits "$job.0" --mem 512M
is "$(cat "$step_dir/memory.max")" 536870912 "set-limits changes the limit above members and service"
asked hog whole "a process has its memory after the limit was raised"
ok "and lowered" "$stepctl" set-limits "$job.0" --mem 64M
asked hog killed "a process above the task's new limit is killed"
serves "the service has outlived that as well"

# ---- suspended ---------------------------------------------------------------------------------

ok "a step with a service is suspended" "$stepctl" suspend "$job.0"
is "$(key members/cgroup.events frozen) $(key service/cgroup.events frozen) $(key cgroup.events frozen)" "1 0 0" \
	"the members of a suspended step are frozen, its service is not"
"$stepctl" usage --json "$job.0" >"$tmpdir/json"
told=$(awk '/"tasks": \[/ { exit } $1 == "\"memory_bytes\":" { print $2 + 0; exit }' "$tmpdir/json")
members=$(cat "$step_dir/members/memory.current") both=$(cat "$step_dir/memory.current")
own=$(cat "$step_dir/service/memory.current")
ok "the service has memory of its own ($own bytes)" test "$own" -gt 0
ok "the usage is that of both ($told: $members and $own, $both together)" test "$told" -ge $((members + own / 2))
ok "a step with a service is resumed" "$stepctl" resume "$job.0"
finish "limited memory"

# ---- all of the tasks, and not the service -----------------------------------------------------

start --mem 64M --oom-group
echo hog >&6
wait $agent
is $? 137 "--oom-group kills all tasks"
unlike "$(cat "$tmpdir/err")" "service" "--oom-group does not kill the service"
finish "--oom-group"

# ---- processes ---------------------------------------------------------------------------------

start --pids 8
is "$(cat "$step_dir/members/pids.max" "$step_dir/pids.max" | tr '\n' ' ')" "8 max " \
	"the limit of processes is set on the members"
isnt "$(cat "$step_dir/service/pids.max")" max "the service has a limit of its own for its threads"
asked fork refused "a fork of the members beyond the limit is refused"
members=$("$stepctl" pids "$job.0" | wc -l)
ok "than so many ($members)" test "$members" -le 8
# Before Linux 6.11 in the group of who forks, since then in that of the limit.
ok "refused forks are counted" grep -q '^max [1-9]' "$step_dir/members/pids.events" \
	"$step_dir/members/task_0/pids.events"
serves "the service is none of them"
ok "the limit is raised while the step runs" "$stepctl" set-limits "$job.0" --pids 30
is "$(cat "$step_dir/members/pids.max")" 30 "set-limits changes the members' limit of processes"
asked fork forked "a fork of the members within the new limit succeeds"
finish "limited processes"
done_testing
