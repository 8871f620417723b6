#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# On Linux 6.1 under systemd, with cgroup v2 alone and all controllers: tests/testbed/guest-vm.sh.
. "${top_srcdir:?}/tests/lib/bed.sh"

in_bed vm guest-vm.sh
done_testing
