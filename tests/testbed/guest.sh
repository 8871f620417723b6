# shellcheck shell=sh
# SPDX-License-Identifier: BSD-3-Clause
#
# For what runs in a guest: many tests in one boot, on one stream. tests/lib/bed.sh reads it.
#	part NAME COMMAND...   runs a test that speaks TAP, between "# begin" and "# end" lines
#	all_parts_ran          the last line
#	crashes                the guest may define it: tells what its kernel saw crash in a part

cd "${top_builddir:?}" || exit 125
STEPD_TEST_JOB_BASE=100000
export STEPD_TEST_JOB_BASE

part() {
	part=$1
	shift
	echo "# begin $part"
	part_begin=$(date +%s)
	"$@"
	part_status=$?
	crashes
	echo "# end $part $part_status $(($(date +%s) - part_begin))"
}

crashes() {
	:
}

all_parts_ran() {
	echo "# all parts ran"
}
