#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# An MPI service process that somebody has taken over: it has no rights, leads nowhere, and is held by
# the step's limits.
. "${top_srcdir:?}/tests/lib/attendant.sh"

filtered=no
grep -q '^#define HAVE_LIBSECCOMP 1' "${top_builddir:?}/config.h" && filtered=yes

# For a task: $service, the pid of the step's service process, the other child of its parent.
# shellcheck disable=SC2016 # for the task's shell
find_service='for status in /proc/[0-9]*/status; do
	grep -qs "^Name:.stepd-mpi$" "$status" && grep -qs "^PPid:.$PPID$" "$status" && {
		service=${status%/status}; service=${service#/proc/}; }
done;'

# ---- the real ones ------------------------------------------------------------------------------
# shellcheck disable=SC2016
show='[ "$SLURM_PROCID" -eq 0 ] || exit 0
for thread in /proc/$service/task/*; do
	sed -n "s/^\(Cap[A-Z][a-z]*\|NoNewPrivs\|Seccomp\):[[:space:]]*/\1 /p" "$thread/status"
done
echo "service $(sed -n "s/^0:://p" /proc/$service/cgroup)"
echo "task $(sed -n "s/^0:://p" /proc/self/cgroup)"'
confined() { # PLUGIN ARG...
	plugin=$1
	shift
	out=$(step --mpi "$plugin" -n 2 "$@" -- sh -c "$find_service $show" 2>&1)
	caps=$(echo "$out" | grep '^Cap' | sort -u)
	if [ "$(id -u)" -eq 0 ]; then
		is "$caps" "CapAmb 0000000000000000
CapBnd 0000000000000000
CapEff 0000000000000000
CapInh 0000000000000000
CapPrm 0000000000000000" "$plugin $*: no thread of the service has a capability in any set"
	else
		is "$(echo "$caps" | grep -v Bnd | grep -c '0000000000000000$')" 4 \
			"$plugin $*: no thread of the service has a capability"
	fi
	is "$(echo "$out" | grep '^NoNew' | sort -u)" "NoNewPrivs 1" \
		"$plugin $*: all threads of the service have no_new_privs"
	if [ "$filtered" = yes ]; then
		is "$(echo "$out" | grep '^Seccomp' | sort -u)" "Seccomp 2" \
			"$plugin $*: a filter of system calls confines all of its threads"
	else
		skip 1 "built without libseccomp"
	fi
	is "$(echo "$out" | grep -c refused)" 0 "$plugin $*: no system call that the service needs is refused"
	nothing_left "$plugin $*: the job leaves no cgroup, process or file behind"
}
for plugin in pmi2 pmix; do
	if [ ! -e "$STEPD_PLUGIN_DIR/mpi_$plugin.so" ]; then
		skip 5 "built without $plugin"
		continue
	fi
	confined "$plugin"
	if [ "$(id -u)" -eq 0 ]; then
		confined "$plugin" --uid 65534 --gid 65534
	fi
done

# ---- ways out -----------------------------------------------------------------------------------
# shellcheck disable=SC2016
through='read -r a <&$HOSTILE_FD; read -r a <&$HOSTILE_FD;'
as_other=
[ "$(id -u)" -ne 0 ] || as_other='--uid 65534 --gid 65534'

if [ "$filtered" = yes ]; then
	# shellcheck disable=SC2086 # two options, or none
	out=$(hostile escape -n 1 $as_other -- bash -c "$through" 2>&1)
	is $? 0 "a step whose service tries to escape goes on"
	like "$out" 'done:\. ' "the service can't fork, signal a process or open files that it does not need"
	like "$out" ' refused:\.' "the service can make threads and sockets"
	like "$out" 'was refused the system call [0-9]*; if a newer library needs it: mpi_filter in stepd.conf' \
		"a refused system call is reported with the remedy"
	is "$(echo "$out" | grep -c 'the system call')" \
		"$(echo "$out" | grep -o 'the system call [0-9]*' | sort -u | wc -l)" "each refused system call is reported once"
	nothing_left "a service that tries to escape leaves no cgroup, process or file behind"
	for call in bpf chroot execve execveat init_module mount open_by_handle_at pidfd_getfd \
		process_vm_readv ptrace setns setresuid setuid unshare; do
		out=$(STEP_HOSTILE_CALL=$call hostile deadly -n 1 -- bash -c "$through exit 3" 2>&1)
		is $? 3 "a step whose service calls $call(2) goes on"
		like "$out" 'was killed for a system call that no MPI server makes' \
			"a service that calls $call(2) is killed, and the log has the reason"
	done
	out=$(STEP_HOSTILE_CALL=mount hostile late -n 1 -- bash -c "$through exit 3" 2>&1)
	is $? 3 "a step whose service calls mount(2) when it is over has its status"
	like "$out" 'was killed for a system call that no MPI server makes' \
		"the log has the reason why a service is killed after the step's end"
	printf 'mpi_filter = no\n' >"$tmpdir/conf"
	out=$(STEP_HOSTILE_CALL=unshare hostile deadly -n 1 --config "$tmpdir/conf" -- bash -c "$through" 2>&1)
	is $? 0 "a step with mpi_filter = no runs"
	like "$out" 'no system call filter confines the service process: mpi_filter in stepd.conf' \
		"the log reports that there is no filter"
	is "$(echo "$out" | grep -c 'was killed')" 0 "mpi_filter = no refuses no system call"
else
	skip 39 "built without libseccomp"
fi

# ---- the step's cgroup --------------------------------------------------------------------------
if [ "$tracker" != cgroup ]; then
	skip 14 "no cgroups can be made here"
	done_testing
	exit
fi
out=$(step --mpi attendant -n 1 -- sh -c "$find_service $show" 2>&1)
task=$(echo "$out" | sed -n 's/^task //p')
like "$task" '/step_0/members/task_0$' "the tasks' cgroups are below one for the step's members"
is "$(echo "$out" | sed -n 's/^service //p')" "${task%/members/task_0}/service" \
	"the service has a cgroup of its own beside the members'"
nothing_left "the cgroups of service and members are removed"

service_of() { # AGENT
	for status in /proc/[0-9]*/status; do
		if grep -qs '^Name:.stepd-mpi$' "$status" && grep -qs "^PPid:.$1\$" "$status"; then
			echo "$status" | tr -dc '0-9'
		fi
	done
}
group_of() { # PID: its cgroup's directory
	path=$(sed -n 's/^0:://p' "/proc/$1/cgroup")
	sed -n 's/^[^ ]* \([^ ]*\) cgroup2 .*/\1/p' /proc/mounts | while read -r mount; do
		[ ! -d "$mount$path" ] || echo "$mount$path"
	done | head -n 1
}
holds() { # GROUP COUNT
	[ "$(wc -l <"$1/cgroup.procs")" -eq "$2" ]
}
is_gone() { # DIRECTORY
	[ ! -e "$1" ]
}

# With a filter it could not fork at all.
printf 'mpi_filter = no\n' >"$tmpdir/conf"
STEP_HOSTILE=brood
export STEP_HOSTILE
# shellcheck disable=SC2016
start_step --config "$tmpdir/conf" --proctrack cgroup --mpi hostile -n 1 -- sh -c 'sleep 600 & exec sleep 600'
group=$(group_of "$(service_of "$agent")")
like "$group" '/step_0/service$' "the service of a running step is in its cgroup"
ok "a process that the service forks is in its cgroup" eventually holds "$group" 2
is "$("$stepctl" pids "$job.0" | grep -c .)" 2 "the service's processes are no processes of the step"
like "$("$stepctl" find "$(service_of "$agent")" 2>&1)" 'is in no step' \
	"stepctl find does not find the service in the step"
"$stepctl" signal --signal=TERM "$job.0" >/dev/null
wait "$agent"
is $? 143 "processes that the service left do not delay the step's end"
ok "the service's cgroup is removed with the step" is_gone "$group"
nothing_left "a service that forks leaves no cgroup, process or file behind"

# An agent that dies leaves a service that does not end by itself.
STEP_HOSTILE=stay
start_step --proctrack cgroup --mpi hostile -n 1 -- sleep 600
service=$(service_of "$agent")
group=$(group_of "$service")
kill -KILL "$agent"
wait "$agent"
ok "the service outlives a killed agent" kill -0 "$service"
for pid in $("$stepctl" pids "$job.0" 2>/dev/null) $(cat "${group%/service}"/members/task_0/cgroup.procs); do
	kill -KILL "$pid"
done 2>/dev/null
cleaned() { # what was killed is not gone at once
	"$stepctl" clean
	is_gone "$group"
}
ok "stepctl clean removes the cgroup of a killed agent's service" eventually cleaned
ok "stepctl clean ends a killed agent's service" process_ended "$service"
nothing_left_soon "a killed agent's service leaves no cgroup, process or file behind"
done_testing
