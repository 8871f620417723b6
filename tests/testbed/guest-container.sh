#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What tests/system/0910 runs in the container.
. "${top_srcdir:?}/tests/testbed/guest.sh"

# In a delegated unit: the suite's containers are made below it.
contract_in_unit() {
	systemd-run --quiet --wait --pipe --collect -p Delegate=yes -p TasksMax=infinity \
		-p WorkingDirectory="$PWD" --setenv=top_builddir --setenv=CMOCKA_MESSAGE_OUTPUT \
		--setenv=CONTRACT_ROUNDS=10 sh "$top_srcdir/tests/lib/run-unit" \
		tests/unit/test_proctrack_contract 'cgroup:*'
}

part units sh "$top_srcdir/tests/testbed/guest-units.sh"
part doctor sh "$top_srcdir/tests/testbed/guest-doctor.sh"
part scopes sh "$top_srcdir/tests/testbed/guest-scopes.sh"
part service sh "$top_srcdir/tests/testbed/guest-service.sh"
part upkeep sh "$top_srcdir/tests/testbed/guest-upkeep.sh"
part "contract in a unit" contract_in_unit
all_parts_ran
