#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Steps of Slurm 24.11 with UsePAM: what 0738-slurm-pam.sh has for 22.05.
STEPD_TEST_SLURM=trixie
export STEPD_TEST_SLURM
# shellcheck source=tests/system/0738-slurm-pam.sh
. "${top_srcdir:?}/tests/system/0738-slurm-pam.sh"
