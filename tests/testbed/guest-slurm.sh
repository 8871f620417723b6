#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# What tests/system/0901 runs in the VM: with a Slurm, which it brings along.
. "${top_srcdir:?}/tests/testbed/guest.sh"

tar -C / --skip-old-files -xf "$top_builddir/tests/slurm-guest.tar" || exit 125
ldconfig
ip addr add 10.99.0.1/32 dev lo # Slurm finds no host where there is only 127.0.0.1
part limits sh "$top_srcdir/tests/testbed/guest-slurm-limits.sh"
all_parts_ran
