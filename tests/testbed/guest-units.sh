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
left:" "in a delegated unit the step hangs below the unit's own group, and nothing is left"
nothing_left "nor after it"

cat >"$tmpdir/without-scope" <<'E'
"$stepd" run --job "$job" --proctrack cgroup --scope no -n 2 -- \
	sh -c 'setsid sleep 99 & grep ^0:: /proc/self/cgroup' | sort
E
out=$(unit -- sh "$tmpdir/without-scope" 2>&1)
is "$out" "$(places "")" "in a unit that is not delegated, without a scope, it hangs at the top"
nothing_left "nothing is left there"

out=$(unit Delegate=yes -- "$stepd" plugins 2>&1)
like "$out" "steps below /sys/fs/cgroup$service/stepd \(delegated to this process\)" "stepd plugins says so"

# ---- cgroup namespaces -------------------------------------------------------------------------

# In a namespace that begins at the unit's group, with the mount as it was.
out=$(unit Delegate=yes -- unshare --cgroup sh "$tmpdir/in-unit" 2>&1)
is "$out" "$(places "")
agent /
left:" "in a cgroup namespace the unit's group is the root, and the step hangs below it"

# With a mount of its own, as in a container.
cat >"$tmpdir/own-mount" <<'E'
mount --make-rprivate / && umount -l /sys/fs/cgroup && mount -t cgroup2 own /sys/fs/cgroup || exit
exec sh "$1"
E
out=$(unit Delegate=yes -- unshare --cgroup --mount sh "$tmpdir/own-mount" "$tmpdir/in-unit" 2>&1)
is "$out" "$(places "")
agent /
left:" "with a mount of the namespace's own, too"
nothing_left "nothing is left of either"

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
like "$found" "^$first step $job.0 task [01] .*\(proctrack/cgroup\)" "from outside the task is found"
echo now >"$tmpdir/asked"
wait $!
is "$(cat "$tmpdir/inside")" "$pids
$found
status 143" "inside the namespace the answers are the same"
nothing_left "nothing is left"

# ---- a user ------------------------------------------------------------------------------------

as_user nobody
out=$(unit Delegate=yes User=nobody -- sh "$tmpdir/in-unit" 2>&1)
is "$out" "$(places "$service")
agent $service
left:" "as nobody in a delegated unit the step hangs below the unit's group"
nothing_left "nothing is left"

out=$(unit User=nobody -- "$stepd" run --job "$job" --proctrack cgroup -- true 2>&1)
isnt $? 0 "as nobody in one that is not delegated there is no cgroup"
like "$out" "can't make a cgroup in '/sys/fs/cgroup'.*Delegate=yes" "which is said"
like "$(unit User=nobody -- "$stepd" plugins 2>&1)" "can't make a cgroup in '/sys/fs/cgroup'.*Delegate=yes" \
	"and stepd plugins names the remedy"
out=$(unit User=nobody -- sh "$tmpdir/in-unit" auto 2>&1)
like "$out" "linuxproc" "without being asked for it is linuxproc instead, and said"
is "$(echo "$out" | tail -n 4)" "0::$service
0::$service
agent $service
left:" "and the step runs in the unit's group"
nothing_left "nothing is left"

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
	is "$out" "$(places "$place")" "in a delegated unit of a user's own systemd, without a scope, it hangs below that"
	systemctl stop "user@$uid.service"
else
	not_ok "a user's systemd starts" "$(cat "$tmpdir/err")"
fi
nothing_left "nothing is left"
is "$(find "$tmpdir"/run-* -mindepth 1)" "" "nor in the users' directories"
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
		"Delegate=$delegate: after a daemon-reload and a daemon-reexec the step is whole"
	is "$(for pid in $pids; do grep ^0:: "/proc/$pid/cgroup"; done)" "$groups" \
		"Delegate=$delegate: each process is where it was"
	like "$groups" "/stepd/job_$job/step_0/task_1\$" "Delegate=$delegate: in its task's group"
	systemctl kill --kill-whom=main "bed-$job"
	eventually sh -c "! systemctl -q is-active 'bed-$job'"
	like "$(cat "$tmpdir/r")" '"reason":' "Delegate=$delegate: the step ends as it is told"
	rm -f "$tmpdir/r"
	nothing_left "Delegate=$delegate: nothing is left"
done

# A unit that is stopped while its step runs: systemd ends what is below it.
systemd-run --quiet --collect --unit="bed-$job" -p Delegate=yes --setenv=STEPD_RUNTIME_DIR \
	--setenv=STEPD_TEST_JOB "$stepd" run --job "$job" --proctrack cgroup -n 2 -- sleep 99
eventually sh -c "[ \"\$('$stepctl' pids '$job.0' | wc -l)\" = 2 ]"
ok "a unit with a running step stops" timeout 60 systemctl stop "bed-$job"
nothing_left "nothing is left"
done_testing
