#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# LaunchParameters of Slurm 26.05: what 0733-slurm-launch-parameters.sh has for 22.05.
STEPD_TEST_SLURM=sid
export STEPD_TEST_SLURM
# shellcheck source=tests/system/0733-slurm-launch-parameters.sh
. "${top_srcdir:?}/tests/system/0733-slurm-launch-parameters.sh"
