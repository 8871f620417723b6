#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# tests/testbed/guest-slurm-release.sh NAME: what 0729-slurm-24.11-in-vm.sh and 0730-slurm-26.05-in-vm.sh run in
# the VM: with the tree of the Slurm of that release of Debian, which they bring along.
. "${top_srcdir:?}/tests/testbed/guest.sh"

STEPD_TEST_SLURM=$1
export STEPD_TEST_SLURM
tar -C / --skip-old-files -xf "$top_builddir/tests/slurm-$STEPD_TEST_SLURM-guest.tar" || exit 125
ldconfig
ip addr add 10.99.0.1/32 dev lo # Slurm finds no host where there is only 127.0.0.1
part limits sh "$top_srcdir/tests/testbed/guest-slurm-limits.sh"
all_parts_ran
