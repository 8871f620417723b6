#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# What tests/system/0900 runs in the VM: one boot for all, and little of everything, because a fork
# and exec costs 28 ms where it is emulated.
. "${top_srcdir:?}/tests/testbed/guest.sh"

part host sh "$top_srcdir/tests/testbed/guest-host.sh"
part units sh "$top_srcdir/tests/testbed/guest-units.sh"
# All of it for cgroup. For the others what leans on the kernel; not the fork bomb, which leaves an
# emulated machine no time for a look at /proc.
contract() { # PATTERN
	CONTRACT_ROUNDS=2 sh "$top_srcdir/tests/lib/run-unit" tests/unit/test_proctrack_contract "$1"
}
part contract contract 'cgroup: *'
for backend in linuxproc pgid; do
	for pattern in 'members*' 'wait*' 'hostile: a *' 'hostile: *processes'; do
		part contract contract "$backend: $pattern"
	done
done
for test in 0300-exit-status 0320-ending 0340-kinds 0510-suspend-hard; do
	part "$test" sh "$top_srcdir/tests/system/$test.sh"
done
all_parts_ran
