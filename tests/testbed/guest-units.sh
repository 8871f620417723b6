#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Where a step hangs under systemd, and what is left of it: in a delegated unit, in one that isn't,
# in a cgroup namespace, as an ordinary user, and while systemd is reloaded.
. "${top_srcdir:?}/tests/lib/step.sh"

# Each user has a runtime directory.
for user in nobody stepper; do
	mkdir "$tmpdir/run-$user"
	chown $user "$tmpdir/run-$user"
done
as_user() { # USER
	STEPD_RUNTIME_DIR=$tmpdir/run-$1
}

# unit PROPERTY... -- COMMAND...: a service, until it ends, with its output.
unit() {
	properties=
	while [ "$1" != -- ]; do
		properties="$properties -p $1"
		shift
	done
	shift
	# shellcheck disable=SC2086 # words
	timeout 120 systemd-run --quiet --wait --pipe --collect --unit="bed-$job" $properties \
		--setenv=STEPD_RUNTIME_DIR --setenv=STEPD_TEST_JOB --setenv=job="$job" \
		--setenv=stepd="$stepd" --setenv=stepctl="$stepctl" "$@"
}
service=/system.slice/bed-$job.service

# Runs in a unit: a step of two tasks with a daemon each; then what the step has left there.
cat >"$tmpdir/in-unit" <<'E'
"$stepd" run --job "$job" --proctrack "${1-cgroup}" -n 2 -- \
	sh -c 'setsid sleep 99 & grep ^0:: /proc/self/cgroup' | sort
sed -n 's/^0::/agent /p' /proc/self/cgroup
left=$(find /sys/fs/cgroup -name "job_$job" -o -name stepd)
echo "left:$left"
E

# places ROOT: what that prints if the step hangs there.
places() {
	printf '0::%s/stepd/job_%s/step_0/task_%d\n' "$1" "$job" 0 "$1" "$job" 1
}

out=$(unit Delegate=yes -- sh "$tmpdir/in-unit" 2>&1)
is "$out" "$(places "$service")
agent $service
left:" "a step in a delegated unit is below the unit's own cgroup, and leaves none"
nothing_left "a step in a delegated unit leaves no process or file behind"

cat >"$tmpdir/without-scope" <<'E'
"$stepd" run --job "$job" --proctrack cgroup --scope no -n 2 -- \
	sh -c 'setsid sleep 99 & grep ^0:: /proc/self/cgroup' | sort
E
out=$(unit -- sh "$tmpdir/without-scope" 2>&1)
is "$out" "$(places "")" "a step without a scope in a unit that is not delegated is below the top cgroup"
nothing_left "a step in a unit that is not delegated leaves no cgroup, process or file behind"

out=$(unit Delegate=yes -- "$stepd" plugins 2>&1)
like "$out" "steps below /sys/fs/cgroup$service/stepd \(delegated to this process\)" "stepd plugins reports the delegated unit's cgroup"

# ---- cgroup namespaces -------------------------------------------------------------------------

# In a namespace that begins at the unit's group, with the mount as it was.
out=$(unit Delegate=yes -- unshare --cgroup sh "$tmpdir/in-unit" 2>&1)
is "$out" "$(places "")
agent /
left:" "a step in a cgroup namespace is below the unit's cgroup, which is the root"

# With a mount of its own, as in a container.
cat >"$tmpdir/own-mount" <<'E'
mount --make-rprivate / && umount -l /sys/fs/cgroup && mount -t cgroup2 own /sys/fs/cgroup || exit
exec sh "$1"
E
out=$(unit Delegate=yes -- unshare --cgroup --mount sh "$tmpdir/own-mount" "$tmpdir/in-unit" 2>&1)
is "$out" "$(places "")
agent /
left:" "a step in a cgroup namespace with its own mount is below the unit's cgroup"
nothing_left "steps in cgroup namespaces leave no cgroup, process or file behind"

# Seen from inside and from outside.
cat >"$tmpdir/ask" <<'E'
"$stepd" run --job "$job" --proctrack cgroup -n 2 -- sleep 99 2>"$1.err" &
read -r line <"$1"
"$stepctl" pids "$job.0" | sort -n
pid=$("$stepctl" pids "$job.0" | head -n 1)
"$stepctl" find "$pid"
kill -TERM $!
wait $!
echo "status $?"
E
mkfifo "$tmpdir/asked"
unit Delegate=yes -- unshare --cgroup sh "$tmpdir/ask" "$tmpdir/asked" >"$tmpdir/inside" 2>&1 &
eventually sh -c "[ \"\$('$stepctl' pids '$job.0' | wc -l)\" = 2 ]"
pids=$("$stepctl" pids "$job.0" | sort -n)
first=$("$stepctl" pids "$job.0" | head -n 1)
found=$("$stepctl" find "$first")
like "$found" "^$first step $job.0 task [01] .*\(proctrack/cgroup\)" "stepctl find outside of the cgroup namespace knows the task"
echo now >"$tmpdir/asked"
wait $!
is "$(cat "$tmpdir/inside")" "$pids
$found
status 143" "inside the namespace the answers are the same"
nothing_left "the job leaves no cgroup, process or file behind"

# ---- a user ------------------------------------------------------------------------------------

as_user nobody
out=$(unit Delegate=yes User=nobody -- sh "$tmpdir/in-unit" 2>&1)
is "$out" "$(places "$service")
agent $service
left:" "a step of nobody in a delegated unit is below the unit's cgroup"
nothing_left "the job leaves no cgroup, process or file behind"

out=$(unit User=nobody -- "$stepd" run --job "$job" --proctrack cgroup -- true 2>&1)
isnt $? 0 "a step of nobody in a unit that is not delegated is refused"
like "$out" "can't make a cgroup in '/sys/fs/cgroup'.*Delegate=yes" "the refusal in a unit that is not delegated has the remedy"
like "$(unit User=nobody -- "$stepd" plugins 2>&1)" "can't make a cgroup in '/sys/fs/cgroup'.*Delegate=yes" \
	"stepd plugins has the remedy for a unit that is not delegated"
out=$(unit User=nobody -- sh "$tmpdir/in-unit" auto 2>&1)
like "$out" "linuxproc" "a step of nobody without --proctrack uses linuxproc, and reports it"
is "$(echo "$out" | tail -n 4)" "0::$service
0::$service
agent $service
left:" "a step of nobody with linuxproc runs in the unit's cgroup"
nothing_left "the job leaves no cgroup, process or file behind"

# The user's own systemd.
as_user stepper
uid=$(id -u stepper)
if systemctl start "user@$uid.service" >"$tmpdir/err" 2>&1; then
	cat >"$tmpdir/as-user" <<E
XDG_RUNTIME_DIR=/run/user/$uid
export XDG_RUNTIME_DIR
timeout 120 systemd-run --user --quiet --wait --pipe --collect --unit="bed-$job" -p Delegate=yes \
	--setenv=STEPD_RUNTIME_DIR --setenv=STEPD_TEST_JOB --setenv=job="$job" --setenv=stepd="$stepd" --setenv=stepctl="$stepctl" \
	sh "$tmpdir/without-scope"
E
	out=$(setpriv --reuid="$uid" --regid="$uid" --clear-groups sh "$tmpdir/as-user" 2>&1)
	place=/user.slice/user-$uid.slice/user@$uid.service/app.slice/bed-$job.service
	is "$out" "$(places "$place")" "a step without a scope in a delegated unit of a user's systemd is below it"
	systemctl stop "user@$uid.service"
else
	not_ok "a user's systemd starts" "$(cat "$tmpdir/err")"
fi
nothing_left "the job leaves no cgroup, process or file behind"
is "$(find "$tmpdir"/run-* -mindepth 1)" "" "the users' runtime directories are empty"
STEPD_RUNTIME_DIR=$run

# ---- systemd is reloaded -----------------------------------------------------------------------

for delegate in yes no; do
	systemd-run --quiet --collect --unit="bed-$job" -p Delegate=$delegate \
		--setenv=STEPD_RUNTIME_DIR --setenv=STEPD_TEST_JOB \
		"$stepd" run --job "$job" --proctrack cgroup --result "$tmpdir/r" -n 2 -- \
		sh -c 'setsid sleep 99 & exec sleep 99'
	eventually sh -c "[ \"\$('$stepctl' pids '$job.0' | wc -l)\" = 4 ]"
	pids=$("$stepctl" pids "$job.0" | sort -n)
	groups=$(for pid in $pids; do grep ^0:: "/proc/$pid/cgroup"; done)
	systemctl daemon-reload
	systemctl daemon-reexec
	is "$("$stepctl" pids "$job.0" | sort -n)" "$pids" \
		"Delegate=$delegate: a daemon-reload and a daemon-reexec end no process"
	is "$(for pid in $pids; do grep ^0:: "/proc/$pid/cgroup"; done)" "$groups" \
		"Delegate=$delegate: a daemon-reload and a daemon-reexec move no process"
	like "$groups" "/stepd/job_$job/step_0/task_1\$" "Delegate=$delegate: a process is in its task's cgroup"
	systemctl kill --kill-whom=main "bed-$job"
	eventually sh -c "! systemctl -q is-active 'bed-$job'"
	like "$(cat "$tmpdir/r")" '"reason":' "Delegate=$delegate: the step ends with a result"
	rm -f "$tmpdir/r"
	nothing_left "Delegate=$delegate: the job leaves no cgroup, process or file behind"
done

# A unit that is stopped while its step runs: systemd ends what is below it.
systemd-run --quiet --collect --unit="bed-$job" -p Delegate=yes --setenv=STEPD_RUNTIME_DIR \
	--setenv=STEPD_TEST_JOB "$stepd" run --job "$job" --proctrack cgroup -n 2 -- sleep 99
eventually sh -c "[ \"\$('$stepctl' pids '$job.0' | wc -l)\" = 2 ]"
ok "a unit with a running step stops" timeout 60 systemctl stop "bed-$job"
nothing_left "the job leaves no cgroup, process or file behind"
done_testing
