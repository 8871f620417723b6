#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# X11 forwarding by the extern steps of Slurm 24.11: what 0707-slurm-x11.sh has for 22.05.
STEPD_TEST_SLURM=trixie
export STEPD_TEST_SLURM
# shellcheck source=tests/system/0707-slurm-x11.sh
. "${top_srcdir:?}/tests/system/0707-slurm-x11.sh"
