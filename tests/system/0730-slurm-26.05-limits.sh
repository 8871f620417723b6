#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# The steps of Slurm 26.05 with generic resources, and those that task/cgroup limits: what
# 0717-slurm-limits.sh has for 22.05.
STEPD_TEST_SLURM=sid
export STEPD_TEST_SLURM
# shellcheck source=tests/system/0717-slurm-limits.sh
. "${top_srcdir:?}/tests/system/0717-slurm-limits.sh"
