#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# What 0729-slurm-24.11-in-vm.sh runs in the VM: with the tree of a Slurm 24.11, which it brings along.
. "${top_srcdir:?}/tests/testbed/guest.sh"

tar -C / --skip-old-files -xf "$top_builddir/tests/slurm-24.11-guest.tar" || exit 125
ldconfig
ip addr add 10.99.0.1/32 dev lo # Slurm finds no host where there is only 127.0.0.1
STEPD_TEST_SLURM=trixie
export STEPD_TEST_SLURM
part limits sh "$top_srcdir/tests/testbed/guest-slurm-limits.sh"
all_parts_ran
