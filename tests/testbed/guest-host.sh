#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# On a host with cgroup v2 alone: what stepd says of it, and where a step hangs.
. "${top_srcdir:?}/tests/lib/step.sh"

# From a shared directory an emulator may execute what a page held before: tests/testbed/vm.
is "$(awk '$3 == "virtiofs" { print $2 }' /proc/mounts)" /run/bed "the build is on the guest's own disks"
out=$("$stepd" plugins 2>&1)
is $? 0 "stepd plugins succeeds"
diag "$out"
like "$out" "cgroup v2 at /sys/fs/cgroup, each step in a scope that the system's systemd makes" \
	"cgroup v2 is found at /sys/fs/cgroup"
out=$(STEPD_CGROUP_ROOT=/sys/fs/cgroup "$stepd" plugins 2>&1)
like "$out" "kill by cgroup.kill, other signals with all stopped; controllers here: .*cpu .*memory .*pids" \
	"stepd plugins reports the kernel's features and controllers"
is "$tracker" cgroup "proctrack/cgroup can be used"

out=$(step --proctrack auto --scope no -n 2 -- cat /proc/self/cgroup 2>&1 | sort)
is "$out" "0::/stepd/job_$job/step_0/task_0
0::/stepd/job_$job/step_0/task_1" "tasks without a scope are in their cgroups below /stepd"
nothing_left "the job leaves no cgroup, process or file behind"
is "$(ls -d /sys/fs/cgroup/stepd 2>&1)" "ls: cannot access '/sys/fs/cgroup/stepd': No such file or directory" \
	"the cgroup /stepd is removed with the last step"

# The parent of the step's groups may have controllers for its children, as systemd's own have; those
# that count are switched on for the step's as well.
mkdir /sys/fs/cgroup/site
at_exit 'rmdir /sys/fs/cgroup/site'
echo '+memory +pids' >/sys/fs/cgroup/site/cgroup.subtree_control
out=$(step --cgroup-root /sys/fs/cgroup/site -n 2 -- sh -c \
	'cat /sys/fs/cgroup$(sed s/0::// /proc/self/cgroup)/../../../cgroup.controllers')
is "$out" "io memory pids
io memory pids" "below a root with controllers a step runs, with those that count"
is "$(find /sys/fs/cgroup/site -mindepth 1 -type d)" "" "a step below another root leaves no cgroup there"

"$stepd" run --job "$job" -n 200 -- sleep 99 2>"$tmpdir/err" &
agent=$!
eventually sh -c "[ \"\$('$stepctl' pids '$job.0' | wc -l)\" = 200 ]"
is "$("$stepctl" pids "$job.0" | wc -l)" 200 "200 tasks are listed"
kill -TERM $agent
wait $agent
is $? 143 "200 tasks are ended by SIGTERM to their agent"
nothing_left "200 tasks leave no cgroup, process or file behind"
done_testing
