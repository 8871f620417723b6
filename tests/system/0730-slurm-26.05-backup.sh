#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# A backup of slurmctld with steps of Slurm 26.05: what 0737-slurm-backup.sh has for 22.05.
STEPD_TEST_SLURM=sid
export STEPD_TEST_SLURM
# shellcheck source=tests/system/0737-slurm-backup.sh
. "${top_srcdir:?}/tests/system/0737-slurm-backup.sh"
