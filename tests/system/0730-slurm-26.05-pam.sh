#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Steps of Slurm 26.05 with UsePAM: what 0738-slurm-pam.sh has for 22.05.
STEPD_TEST_SLURM=sid
export STEPD_TEST_SLURM
# shellcheck source=tests/system/0738-slurm-pam.sh
. "${top_srcdir:?}/tests/system/0738-slurm-pam.sh"
