#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# What tests/system/0900 runs in the VM: one boot for all, and little of everything, because a fork
# and exec costs 28 ms where it is emulated.
. "${top_srcdir:?}/tests/testbed/guest.sh"

# "Segmentation fault" in a test's output does not say whose.
crashes() {
	dmesg --read-clear 2>/dev/null | grep -E 'segfault at|traps: ' | sed 's/^/# kernel: /'
}

part host sh "$top_srcdir/tests/testbed/guest-host.sh"
part usage sh "$top_srcdir/tests/testbed/guest-usage.sh"
part units sh "$top_srcdir/tests/testbed/guest-units.sh"
part limits sh "$top_srcdir/tests/testbed/guest-limits.sh"
part split sh "$top_srcdir/tests/testbed/guest-split.sh"
part rootless sh "$top_srcdir/tests/testbed/guest-rootless.sh"
part thousand sh "$top_srcdir/tests/testbed/guest-thousand.sh"
part root sh "$top_srcdir/tests/lib/run-unit" tests/unit/test_cgroup_root
part scopes sh "$top_srcdir/tests/testbed/guest-scopes.sh"
part service sh "$top_srcdir/tests/testbed/guest-service.sh"
part doctor sh "$top_srcdir/tests/testbed/guest-doctor.sh"
# All of it for cgroup. For the others what leans on the kernel; not the fork bomb, which leaves an
# emulated machine no time for a look at /proc.
contract() { # PATTERN
	CONTRACT_ROUNDS=2 sh "$top_srcdir/tests/lib/run-unit" tests/unit/test_proctrack_contract "$1"
}
for test in test_proctrack_limits test_cgroup_limits; do
	part "$test" sh "$top_srcdir/tests/lib/run-unit" "tests/unit/$test"
done
part crun sh "$top_srcdir/tests/testbed/guest-crun.sh"
part contract contract 'cgroup: *'
for backend in linuxproc pgid; do
	for pattern in 'members*' 'wait*' 'hostile: a *' 'hostile: *processes'; do
		part contract contract "$backend: $pattern"
	done
done
for test in 0300-exit-status 0320-ending 0340-kinds 0500-limits 0540-suspend-hard; do
	part "$test" sh "$top_srcdir/tests/system/$test.sh"
done
all_parts_ran
