#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# In a container on this kernel, with systemd as its process 1: tests/testbed/guest-container.sh.
. "${top_srcdir:?}/tests/lib/bed.sh"

in_bed container guest-container.sh
done_testing
