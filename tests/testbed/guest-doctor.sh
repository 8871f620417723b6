#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# stepd doctor under systemd: at the shell, in units, and in a user's session.
. "${top_srcdir:?}/tests/lib/doctor.sh"

controllers=$(cat /sys/fs/cgroup/cgroup.controllers)
service=/system.slice/doctor-$job.service

# in_unit PROPERTY... -- COMMAND...: $report is what that writes in a service, $status how it ends.
in_unit() {
	properties=
	while [ "$1" != -- ]; do
		properties="$properties -p $1"
		shift
	done
	shift
	# shellcheck disable=SC2086 # words
	report=$(timeout 120 systemd-run --quiet --wait --pipe --collect --unit="doctor-$job" \
		$properties --setenv=STEPD_RUNTIME_DIR="${runtime-$run}" "$@" 2>&1)
	status=$?
}

# limits_are ID LIMITS NAME: a controller that there is gives them; else the level is warning.
limits_are() {
	case " $controllers " in
	*" ${1##*.} "*) is "$(of "$1" level) $(of "$1" value)" "ok $2" "$3" ;;
	*) is "$(of "$1" level) $(of "$1" value)" "warning " "$3: not here, and said" ;;
	esac
}
all_limits() { # NAME
	limits_are cgroup.limits.memory "memory.max memory.high memory.swap.max memory.oom.group" \
		"$1: memory"
	limits_are cgroup.limits.pids "pids.max" "$1: pids"
	limits_are cgroup.limits.cpu "cpu.max cpu.weight" "$1: cpu"
	limits_are cgroup.limits.cpuset "cpuset.cpus cpuset.mems" "$1: cpuset"
	limits_are cgroup.limits.io "io.max" "$1: io"
}

agrees "at the shell"
diag "$("$stepd" doctor -q)"
is "$status $(of cgroup.mount level) $(of cgroup.mount value)" "0 ok /sys/fs/cgroup" \
	"doctor reports cgroup v2 alone"
for id in kernel.clone3 cgroup.birth cgroup.freezer cgroup.kill; do
	is "$(of $id level)" ok "doctor reports that $id works"
done
all_limits "at the shell"
place=$(of cgroup.place value)
like "/sys/fs/cgroup$(step -- sed -n 's/^0:://p' /proc/self/cgroup)" "^$place/" \
	"doctor reports the cgroup below which steps are made"

in_unit Delegate=yes -- "$stepd" doctor --json
is "$status $(of cgroup.place value)" "0 /sys/fs/cgroup$service/stepd" \
	"doctor reports the unit's cgroup in a delegated unit"
like "$(of cgroup.place.delegated text)" "$service. is delegated to this process" "doctor reports why steps are below a delegated unit"
all_limits "in a delegated unit"

in_unit Delegate=yes TasksMax=20 -- "$stepd" doctor --json
case " $controllers " in
*" pids "*)
	is "$(of cgroup.processes level)" warning "a low TasksMax= is a warning"
	like "$(of cgroup.processes remedy)" "TasksMax=" "the warning of a low TasksMax= names it"
	;;
*) skip 2 "no pids controller here" ;;
esac

# Another process in the unit's own group.
# shellcheck disable=SC2016
in_unit Delegate=yes -- sh -c 'sleep 99 & "$@"; kill $!' - "$stepd" doctor --json
case " $controllers " in
*" memory "*)
	is "$(of cgroup.limits.memory level)" warning "a process in the cgroup itself is a warning"
	like "$(of cgroup.limits.memory text)" "pid [0-9]+ \((sh|sleep)\) is in '.*$service' itself" \
		"the warning of a process in the cgroup names it"
	;;
*) skip 2 "no memory controller here" ;;
esac

mkdir "$run/nobody"
chown nobody "$run/nobody"
runtime=$run/nobody
in_unit User=nobody -- "$stepd" doctor --json --proctrack cgroup
is "$(of user.rights value)" "$(id -u nobody)" "doctor of nobody in a unit notes the user"
if [ "$status" -ne 0 ]; then
	is "$(of cgroup.place level)" problem "a unit without delegation is a problem for nobody"
	like "$(of cgroup.place remedy)" "Delegate=yes" "the problem of a unit without delegation has the remedy"
else
	skip 2 "nobody has a cgroup"
fi
in_unit User=nobody Delegate=yes -- "$stepd" doctor --json --proctrack cgroup
is "$status $(of cgroup.place value)" "0 /sys/fs/cgroup$service/stepd" \
	"doctor of nobody reports the unit's cgroup in a delegated unit"
rmdir "$run/nobody"

uid=$(id -u stepper)
if systemctl start "user@$uid.service" >"$tmpdir/err" 2>&1; then
	# shellcheck disable=SC2016
	report=$(XDG_RUNTIME_DIR=/run/user/$uid setpriv --reuid="$uid" --regid="$uid" --clear-groups \
		env -u STEPD_RUNTIME_DIR timeout 120 systemd-run --user --quiet --wait --pipe --collect \
		-p Delegate=yes sh -c '"$1" doctor --json --proctrack cgroup && echo can &&
			"$1" run -q --proctrack cgroup -- sed -n "s/^0::/at /p" /proc/self/cgroup' - \
		"$stepd" 2>&1)
	like "$report" '^can$' "doctor reports that steps can be started in a user's own systemd"
	# Of a scope only systemd knows where it will be.
	place=$(of cgroup.place value)
	place=${place:-/sys/fs/cgroup/user.slice/user-$uid.slice/user@$uid.service}
	like "$(printf '%s\n' "$report" | sed -n 's|^at |/sys/fs/cgroup|p')" "^$place/" \
		"doctor reports the user's cgroup in a user's own systemd"
	case " $controllers " in
	*" io "*)
		is "$(of cgroup.limits.io level)" warning "a missing io controller of users is a warning"
		like "$(of cgroup.limits.io remedy)" "user@.service" "the warning of a missing io controller has the remedy"
		;;
	*) skip 2 "no io controller here" ;;
	esac
	systemctl stop "user@$uid.service"
else
	not_ok "a user's systemd starts" "$(cat "$tmpdir/err")"
fi

is "$(find /sys/fs/cgroup -name 'stepd-checkup-*')" "" "doctor leaves no cgroup of its trials behind"
nothing_left "the job leaves no cgroup, process or file behind"
done_testing
